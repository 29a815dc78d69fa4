"""Conditions of reminders in SQL, decided in the transaction of the event that may meet them.

A condition that is met wakes the timer of its reminder, which fires it: the event's transaction only writes rows of
the condition and of the timer, so that it never waits for a schedule that is being fired.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from holdfast.domain.condition import (
    ANY_EVENT,
    MESSAGE_EVENT,
    USAGE_EVENT,
    Condition,
    ContextCondition,
    Occurrence,
    SilenceCondition,
    count_occurrence,
    indexed_event,
    load_condition,
    overlap_score,
)
from holdfast.domain.content import Json, plain_text
from holdfast.domain.instant import Millis
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.untrusted import SOURCE_METADATA_KEY
from holdfast.memory.analyser import terms
from holdfast.memory.static_vectors import Subjects, static_vectors
from holdfast.store.encoding import dump_json, load_json
from holdfast.store.transaction import Row, Transaction, store_time

MAX_COMPARED_CONTEXTS: Final = 500
"""Contexts of a space, and of a thread, whose meaning a message is compared with: the newest. Terms find any."""
MAX_SUBJECT_TOKENS: Final = 64
JUDGE_TAG: Final = "judge:"
_OWN_TAGS: Final = (JUDGE_TAG, "reminder:", "schedule:")
"""Tags of runs that no person started: their input is not what a person said."""


async def note_occurrences(tx: Transaction, occurrences: Iterable[tuple[int, Occurrence]]) -> None:
    """Count what happened, by space, for the conditions that it concerns, and meet those that it completes.

    Nothing is asked of `occurrences` while no condition is armed.
    """
    if await tx.one("any_armed_condition") is None:
        return
    happened = list(occurrences)
    said = [(space, what) for space, what in happened if what.event == MESSAGE_EVENT]
    if said:
        await _note_messages(tx, said)
    others = [(space, what) for space, what in happened if what.event != MESSAGE_EVENT]
    wanted = {
        (space, event, agent, thread_id)
        for space, what in others
        for event in ({what.event} if what.event == USAGE_EVENT else {what.event, ANY_EVENT})
        for agent in {what.agent, ""}
        for thread_id in {what.thread_id, ""}
    }
    found = {row["reminder_key"]: row for row in await tx.many("armed_conditions", sorted(wanted))}
    if found:
        now = await store_time(tx)
        for row in found.values():
            await _count(tx, row, [what for space, what in others if space == row["space_key"]], now=now)


async def _count(tx: Transaction, row: Row, happened: Iterable[Occurrence], *, now: Millis) -> None:
    condition, matches = load_spec(row), load_json(row["matches"])
    changed = False
    for what in happened:
        if not what.concerns(row["id"], row["event"], row["agent"], row["thread_id"]):
            continue
        progress = count_occurrence(condition, what, matches=matches, now=now)
        if progress is None:
            continue
        if progress.reason is not None:
            await meet_condition(tx, row, reason=progress.reason, now=now)
            return
        matches, changed = progress.matches, True
    if changed:
        await tx.run("count_for_condition", reminder_key=row["reminder_key"], matches=dump_json(matches))


async def _note_messages(tx: Transaction, said: Sequence[tuple[int, Occurrence]]) -> None:
    spaces = await tx.many("spaces_with_contexts", [(key,) for key in sorted({space for space, _ in said})])
    having = {row["space_key"] for row in spaces}
    for space, what in said:
        if space not in having or not (found := sorted(set(terms(what.text)))):
            continue
        where = {"space_key": space, "thread_id": what.thread_id}
        rows = {
            row["reminder_key"]: row for row in await tx.all("contexts_with_terms", terms=dump_json(found), **where)
        }
        scores = {key: overlap_score(terms(_context(row["spec"]).subject), found) for key, row in rows.items()}
        newest = await tx.all("newest_contexts", limit=MAX_COMPARED_CONTEXTS, **where)
        for row, score in zip(newest, _similarities(newest, what.text), strict=True):
            key = row["reminder_key"]
            rows[key], scores[key] = row, max(score, scores.get(key, 0.0))
        for key, score in sorted(scores.items()):
            if score >= _context(rows[key]["spec"]).threshold:
                reason = f"a message is about it (score {score:.2f})"
                await meet_condition(tx, rows[key], reason=reason, now=await store_time(tx))


def _similarities(contexts: Sequence[Row], text: str) -> list[float]:
    """Return how near each context is to a message."""
    if not contexts:
        return []
    tables = static_vectors()
    return tables.similarities(_subjects(tuple(row["spec"] for row in contexts)), tables.tokens(text))


@lru_cache(maxsize=8)
def _subjects(specs: tuple[str, ...]) -> Subjects:
    """Return stored contexts as subjects; message after message is compared with the same ones."""
    tables = static_vectors()
    return tables.subjects([tables.tokens(_context(spec).subject)[:MAX_SUBJECT_TOKENS] for spec in specs])


@lru_cache(maxsize=8_192)
def _context(spec: str) -> ContextCondition:
    context = load_condition(load_json(spec))
    assert isinstance(context, ContextCondition)
    return context


async def note_answer(tx: Transaction, space: int, run: Run, output: Json) -> None:
    """Meet the condition of a reminder whose judge answered yes with this run."""
    tag = next((tag for tag in run.tags if tag.startswith(JUDGE_TAG)), None)
    if tag is None or not isinstance(output, dict) or output.get("answer") is not True:
        return
    asked = await tx.one("check_of_run", space_key=space, id=tag.removeprefix(JUDGE_TAG), run_id=run.id)
    row = None if asked is None else await tx.one("condition_of_schedule", reminder_key=asked["reminder_key"])
    if row is not None and row["armed"]:
        why = output.get("reason")
        reason = f"the judge answered yes in run `{run.id}`" + (f": {why[:500]}" if isinstance(why, str) else "")
        await meet_condition(tx, row, reason=reason, now=await store_time(tx))


async def meet_condition(tx: Transaction, row: Row, *, reason: str, now: Millis) -> None:
    """Disarm a condition that is met, and wake the timer that fires its reminder."""
    if await tx.one("meet_condition", reminder_key=row["reminder_key"], reason=reason, now=now) is not None:
        await tx.run("arm_timer", space_key=row["space_key"], id=row["id"], due_at=now, now=tx.now)
        tx.hints.add(timers=True)


async def arm_condition(tx: Transaction, reminder: Row, condition: Condition) -> Millis | None:
    """Watch for a condition from now on; return when silence would meet it."""
    now = await store_time(tx)
    await tx.run(
        "put_condition",
        reminder_key=reminder["reminder_key"],
        space_key=reminder["space_key"],
        id=reminder["id"],
        event=indexed_event(condition),
        agent=getattr(condition, "agent", None) or "",
        thread_id=getattr(condition, "thread_id", None) or "",
        spec=dump_json(condition),
        now=now,
    )
    await put_reminder_terms(tx, reminder["space_key"], reminder["reminder_key"], condition)
    return Millis(now + condition.for_seconds * 1000) if isinstance(condition, SilenceCondition) else None


async def put_reminder_terms(tx: Transaction, space_key: int, reminder_key: int, condition: Condition) -> None:
    """Store the terms by which messages are compared with a condition, and no others."""
    await tx.run("drop_reminder_terms", reminder_key=reminder_key)
    if isinstance(condition, ContextCondition):
        about = sorted(set(terms(condition.subject)))
        await tx.many("add_reminder_terms", [(space_key, term, reminder_key) for term in about])


def silence_ends_at(row: Row) -> Millis | None:
    """Return when the silence that a condition waits for is long enough, as far as is known now."""
    condition = load_spec(row)
    if not isinstance(condition, SilenceCondition):
        return None
    matches = load_json(row["matches"])
    return Millis((matches[-1] if matches else row["armed_at"]) + condition.for_seconds * 1000)


def silence_seconds(row: Row) -> int:
    """Return the silence that a condition waits for."""
    condition = load_spec(row)
    assert isinstance(condition, SilenceCondition)
    return condition.for_seconds


def load_spec(row: Row) -> Condition:
    """Return the condition of a row."""
    return load_condition(load_json(row["spec"]))


def run_occurrence(run: Run, event: str, **fields: Any) -> Occurrence:
    """Return something that happened in a run."""
    return Occurrence(
        event=event, agent=run.agent_type, thread_id=run.thread_id, tags=run.tags, run_id=run.id, **fields
    )


def message_occurrences(run: Run, messages: Iterable[NewMessage]) -> list[Occurrence]:
    """Return what a person said to a run."""
    if run.parent_run_id is not None or run.mode is Mode.DAEMON or any(tag.startswith(_OWN_TAGS) for tag in run.tags):
        return []
    said = [each for each in messages if each.role is Role.USER and SOURCE_METADATA_KEY not in each.metadata]
    text = "\n".join(plain_text(message.content) for message in said)
    return [run_occurrence(run, MESSAGE_EVENT, text=text)] if text else []


RUN_EVENTS: Final = {
    RunStatus.COMPLETED: "run.completed",
    RunStatus.FAILED: "run.failed",
    RunStatus.CANCELLED: "run.cancelled",
    RunStatus.WAITING: "run.waiting",
}


def plan_is_completed(plan: Json) -> bool:
    """Return whether a stored plan has items, and none of them is open."""
    items = plan.get("items") if isinstance(plan, dict) else None
    states = {item.get("status") for item in items or () if isinstance(item, dict)}
    return "completed" in states and states <= {"completed", "cancelled"}
