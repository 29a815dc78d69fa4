"""The end of runs from outside: a whole tree of runs in one transaction, with nothing left open.

Unread messages, values and plan edits from people are saved with the ended run.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, IdTaken, Invalid
from holdfast.domain.events import Event, RunErrorEvent, RunFinished, ToolCallResult, decode_event
from holdfast.domain.events.custom import PlanChanged, contract_checked, step_changed, to_custom
from holdfast.domain.events.messages import CancelledOutcome
from holdfast.domain.ids import MessageId
from holdfast.domain.inbox import InboxItem, decode_edit, decode_steering_message, is_from_person
from holdfast.domain.message import NewMessage, Role, unanswered_calls
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import PlanEdit, apply_edits
from holdfast.domain.run import Run, RunError, RunStatus
from holdfast.domain.run_skills import SKILLS_VALUE, RunSkills, conclude_skills
from holdfast.domain.step import StepState
from holdfast.domain.stream import STRUCTURAL_TYPES, StreamNormaliser
from holdfast.ports.log import LogAppend, LogHead
from holdfast.store.commit_rows import event_row, message_row
from holdfast.store.conditions import RUN_EVENTS, note_occurrences, run_occurrence
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.inbox import notify_parent, notify_subscribers, to_inbox_item
from holdfast.store.messages import (
    ChainTip,
    check_new_ids,
    last_exchange,
    message_values,
    reserve_sequences,
    sequence_input,
)
from holdfast.store.notifications import notification_row
from holdfast.store.run_rows import run_by_key, run_row_by_key
from holdfast.store.run_state import inherit_values, steps_of_run, values_of_run
from holdfast.store.transaction import RetryTransaction, Row, Transaction

_STRUCTURAL_EVENT_TYPES = dump_json(sorted(STRUCTURAL_TYPES))


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The final status of a run, its reason or error, and the principal that cancelled it."""

    to: RunStatus
    reason: str | None = None
    error: RunError | None = None
    cancelled_by: str | None = None


async def end_run_trees(tx: Transaction, run_keys: Sequence[int], end: RunEnd) -> list[Run]:
    """End the active runs of these trees, parents first, and return them."""
    rows = [row for row in await lock_run_trees(tx, run_keys) if not RunStatus(row["status"]).terminal]
    runs = {row["run_key"]: await _end_run(tx, row, end) for row in rows}
    for row in rows:
        await notify_parent(tx, row["parent_key"], runs[row["run_key"]], ending_keys=runs)
    await notify_subscribers(tx, runs)
    return list(runs.values())


async def lock_run_trees(tx: Transaction, run_keys: Sequence[int]) -> list[Row]:
    """Lock these runs and their descendants, with their threads, and the parents to notify of their end."""
    tree = await _tree_rows(tx, run_keys)
    parents = {row["parent_key"] for row in tree} - {None}
    await tx.lock(threads={row["thread_key"] for row in tree}, runs=parents | {row["run_key"] for row in tree})
    locked = await _tree_rows(tx, run_keys)
    if len(locked) != len(tree):
        raise RetryTransaction  # a child was created before the lock: lock it too
    return locked


async def queue_dependent_runs(tx: Transaction, run_keys: Sequence[int]) -> None:
    """Queue the runs based on these, which have ended and have no worker any more.

    A dependent run that was ended before it started passes this on to the runs based on it.
    """
    ended = list(run_keys)
    while ended:
        waiting = await tx.many("waiting_on_bases", [(key,) for key in ended])
        ended = [row["run_key"] for row in waiting if RunStatus(row["status"]).terminal]
        for row in waiting:
            await inherit_values(tx, row["run_key"], base_key=row["base_key"], base_sequence=row["base_sequence"])
            await sequence_input(tx, row["run_key"], row["thread_key"])
            if not RunStatus(row["status"]).terminal:
                await tx.run("queue_pending", run_key=row["run_key"], now=tx.now)
                tx.hints.add(queue=True)


async def structural_events(tx: Transaction, run_key: int) -> list[Event]:
    """Return the events of a run that open and close messages, tool calls and segments, in order."""
    rows = await tx.all("events_of_types_after", run_key=run_key, seq=0, types=_STRUCTURAL_EVENT_TYPES, limit=2**31)
    return [decode_event(row["data"].encode()) for row in rows]


async def _tree_rows(tx: Transaction, run_keys: Iterable[int]) -> list[Row]:
    found = {row["run_key"]: row for key in run_keys for row in await tx.all("tree", run_key=key)}
    return [found[key] for key in sorted(found)]


async def _end_run(tx: Transaction, row: Row, end: RunEnd) -> Run:
    run_key = row["run_key"]
    run = await run_by_key(tx, run_key)
    text = f"not answered: the run ended as {end.to} before this call finished"
    results = [
        NewMessage(id=MessageId(tx.new_id("msg")), role=Role.TOOL, content=text, tool_call_id=call.id)
        for call in unanswered_calls(await last_exchange(tx, run_key))
    ]
    unread = await unread_input(tx, row)
    skills = await _concluded_skills(tx, run, run_key, unread.plan)
    events = await _closing_events(tx, run_key, run, results, unread.plan, skills, end)
    await _add_messages(tx, row, [*results, *unread.messages], started=run.queued_at is not None)
    values = unread.values if skills is None else {**unread.values, SKILLS_VALUE: msgspec.to_builtins(skills)}
    await save_values(tx, run_key, values, unread.plan)
    head = await tx.one(
        "end_head",
        run_key=run_key,
        status=end.to.value,
        reason=end.reason,
        events=len(events),
        read=len(unread.numbers),
    )
    assert head is not None
    await tx.many("consume", [(run_key, number) for number in unread.numbers])
    first = head["last_event_seq"] - len(events) + 1
    closing = list(map(event_row, events))
    await tx.many("add_events", [(run_key, seq, *row, tx.now) for seq, row in enumerate(closing, start=first)])
    error = end.error and replace(end.error, iteration=run.iterations)
    cancelled_by = end.cancelled_by
    await tx.run("end_run", run_key=run_key, error=dump_optional_json(error), cancelled_by=cancelled_by, now=tx.now)
    for statement in ("stop_timers", "close_open_interrupts"):
        await tx.many(statement, [(run_key,)])
    await tx.many("cut_off_started_steps", [(tx.now, run_key)])
    await tx.run("forget_waits", run_key=run_key)
    if run.status is RunStatus.RUNNING:
        tx.hints.add(queue=True)  # its space may have a limit of runs at work
    if head["lease_owner"] is None and head["queued_at"] is not None:
        await queue_dependent_runs(tx, [run_key])
    await tx.many("add_to_outbox", [notification_row(tx, row["space_key"], run, end.to, end.reason)])
    await note_occurrences(tx, [(row["space_key"], run_occurrence(run, RUN_EVENTS[end.to]))])
    log_head = LogHead(space_id=run.space_id, run_id=run.id, status=end.to, last_event_seq=head["last_event_seq"])
    tx.hints.add(grown=LogAppend(head=log_head, events=closing, at=tx.now), ended=(run.space_id, run.id), news=True)
    return await run_by_key(tx, run_key)


async def _add_messages(tx: Transaction, row: Row, messages: Sequence[NewMessage], *, started: bool) -> None:
    """Add messages to the conversation; if the run has not started, they wait after its input."""
    if not messages:
        return
    first = await reserve_sequences(tx, row["thread_key"], len(messages)) if started else None
    values = [
        message_values(
            tx,
            message_row(message),
            thread_key=row["thread_key"],
            run_key=row["run_key"],
            sequence=None if first is None else first + index,
        )
        for index, message in enumerate(messages)
    ]
    await tx.many("add_messages", values)


async def _concluded_skills(tx: Transaction, run: Run, run_key: int, plan: Plan | None) -> RunSkills | None:
    """Return the skills of a run with what became of their contracts; a value that cannot be read has none."""
    if run.started_at is None:
        return None
    values = await values_of_run(tx, await run_row_by_key(tx, run_key))
    try:
        plan = plan or msgspec.convert(values.get(PLAN_VALUE) or {}, Plan)
        return conclude_skills(values, run=run.id, plan=plan)
    except (Invalid, msgspec.ValidationError):
        return None


async def _closing_events(
    tx: Transaction,
    run_key: int,
    run: Run,
    results: Sequence[NewMessage],
    plan: Plan | None,
    skills: RunSkills | None,
    end: RunEnd,
) -> list[Event]:
    """Return the events that close the stream: open calls and steps, the plan if edited, contracts, then the end."""
    logged = await structural_events(tx, run_key)
    stream = StreamNormaliser.resume(run.thread_id, run.id, logged, base_run_id=run.base_run_id)
    events: list[Event] = []
    for message in results:
        assert message.id is not None and message.tool_call_id is not None and isinstance(message.content, str)
        result = ToolCallResult(message_id=message.id, tool_call_id=message.tool_call_id, content=message.content)
        events += stream.feed(result, at=tx.now)
    for step in await steps_of_run(tx, run_key):
        if not step.state.settled:  # as `cut_off_started_steps` settles it
            state = StepState.UNKNOWN if step.effectful else StepState.FAILED
            events += stream.feed(to_custom(step_changed(replace(step, state=state))), at=tx.now)
    if plan is not None:
        events += stream.feed(to_custom(PlanChanged(items=plan.items)), at=tx.now)
    for outcome in skills.contracts if skills is not None else ():
        events += stream.feed(to_custom(contract_checked(outcome)), at=tx.now)
    if end.to is RunStatus.CANCELLED:
        finished = RunFinished(thread_id=run.thread_id, run_id=run.id, outcome=CancelledOutcome())
        return events + stream.end(finished, at=tx.now)
    error = end.error or RunError(code="FAILED", message=end.reason or "the run failed")
    return events + stream.end(RunErrorEvent(message=error.message, code=error.code), at=tx.now)


PLAN_VALUE = "plan"


class UnreadInput(msgspec.Struct, frozen=True, kw_only=True):
    """The unread inbox items of an ended run that are saved with it."""

    messages: Sequence[NewMessage]
    values: Mapping[str, Json]
    plan: Plan | None
    """The plan with its unread edits; `None` if there are none."""
    numbers: Sequence[int]
    """The numbers of these inbox items."""


async def unread_input(tx: Transaction, run: Row) -> UnreadInput:
    """Return the unread inbox items from people, of a locked run, oldest first."""
    rows = await tx.all("inbox_of_run", run_key=run["run_key"])
    items = [item for item in map(to_inbox_item, rows) if is_from_person(item) and _is_storable(item)]
    edits = [edit for edit in map(decode_edit, items) if edit is not None]
    plan_edits = [edit.plan for edit in edits if edit.plan is not None]
    messages = [message for message in map(decode_steering_message, items) if message is not None]
    return UnreadInput(
        messages=await _without_used_ids(tx, run, messages),
        values={name: value for edit in edits for name, value in edit.values.items()},
        plan=await plan_with_edits(tx, await run_row_by_key(tx, run["run_key"]), plan_edits) if plan_edits else None,
        numbers=[item.number for item in items],
    )


async def plan_with_edits(tx: Transaction, run: Row, edits: Sequence[PlanEdit]) -> Plan:
    """Return the plan of a run with those edits applied that still fit it; `run` is a row of the run view."""
    return apply_edits(msgspec.convert((await values_of_run(tx, run)).get(PLAN_VALUE) or {}, Plan), edits)


async def save_values(tx: Transaction, run_key: int, values: Mapping[str, Json], plan: Plan | None = None) -> None:
    """Store values, and the plan if there is one, as of the last message of their run."""
    saved = dict(values) if plan is None else {**values, PLAN_VALUE: msgspec.to_builtins(plan)}
    if not saved:
        return
    (last,) = await tx.many("last_sequences", [(run_key,)])
    await tx.many(
        "add_values", [(run_key, name, last["last_sequence"], dump_json(value)) for name, value in saved.items()]
    )


def _is_storable(item: InboxItem) -> bool:
    """Return whether an item can be stored: one that cannot must not prevent the run from ending."""
    message = decode_steering_message(item)
    try:
        return message is None or message_row(message) is not None
    except HoldfastError:
        return False


async def _without_used_ids(tx: Transaction, run: Row, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages with the ids removed that are used already: they must not prevent the run from ending."""
    kept: list[NewMessage] = []
    for message in messages:
        try:
            await check_new_ids(tx, [(ChainTip(run["thread_key"], run["run_key"]), [message_row(message)])])
        except IdTaken:
            message = replace(message, id=None)
        kept.append(replace(message, id=None) if message.id in {each.id for each in kept} else message)
    return kept
