"""Firings in SQL: what a schedule does at a due time, recorded in the transaction that does it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.condition import MESSAGE_EVENT
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import FiringId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.limits import nanodollars, usd
from holdfast.domain.new_run import check_new_run
from holdfast.domain.notification import NotificationKind
from holdfast.domain.placement import OnBusy
from holdfast.domain.reminder import TriggerType, priority_of_rank
from holdfast.domain.run import RunStatus, WaitsFor
from holdfast.domain.schedule import (
    KEEP_FIRINGS,
    KEEP_NEWEST_FIRINGS,
    MAX_QUEUED_FIRINGS,
    Firing,
    FiringCause,
    FiringInput,
    FiringOutcome,
    NotifyAction,
    Overlap,
    RemindAction,
    RunAction,
    ScheduleKind,
    SchedulePlan,
    ScheduleState,
    decide_firing,
    jitter_ms,
)
from holdfast.domain.thread import ThreadStatus
from holdfast.domain.timer import TimerClaim
from holdfast.ports.schedules import BuildRun
from holdfast.store.conditions import silence_ends_at, silence_seconds
from holdfast.store.creation import CreateRunRequest, create_run
from holdfast.store.notifications import event_row
from holdfast.store.run_end import RunEnd, end_run_trees
from holdfast.store.threads import thread_row
from holdfast.store.timers import settle_timer
from holdfast.store.transaction import Row, Transaction, store_time

DROP_BATCH: Final = 100
"""Old firings that each new one looks at: few, so that no firing waits for it."""
_plan_decoder = msgspec.json.Decoder(SchedulePlan)


class _Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule did at a due time."""

    outcome: FiringOutcome = FiringOutcome.FIRED
    reason: str | None
    run_id: RunId | None = None
    thread_id: ThreadId | None
    """The schedule's own thread."""


async def fire_claimed(
    tx: Transaction, claim: TimerClaim, *, build: BuildRun | None, failure: str | None
) -> list[Firing]:
    """Fire the schedule of a claimed timer: at most one due time, and record those that were missed."""
    timer = claim.timer
    row = await tx.one("lock_schedule", space=timer.space_id, id=timer.id)
    if row is None:
        await settle_timer(tx, claim)
        return []
    active = row["state"] == ScheduleState.ACTIVE
    condition = await _condition_row(tx, row)
    # A condition that is met counts also after its judge has used up its budget.
    if condition is not None and (condition["met_at"] is not None or (condition["armed"] and active)):
        return await _fire_condition(tx, row, condition, claim, build=build, failure=failure)
    if not active or row["due_at"] is None:
        await settle_timer(tx, claim)
        return []
    return await _fire_due(tx, row, claim, cause=FiringCause.DUE, build=build, failure=failure)


async def _fire_condition(
    tx: Transaction, row: Row, condition: Row, claim: TimerClaim, *, build: BuildRun | None, failure: str | None
) -> list[Firing]:
    """Fire a reminder whose condition is met; let its judge be asked; or wait until a silence is long enough."""
    now = await store_time(tx)
    due, reason = condition["met_at"], condition["reason"]
    if due is None:
        due = silence_ends_at(condition)
        if due is None:
            return await _fire_due(tx, row, claim, cause=FiringCause.CHECK, build=build, failure=failure)
        if due > now:
            await settle_timer(tx, claim, next_due=due)
            await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=row["state"], due_at=due)
            return []
        reason = f"`{condition['event']}` did not happen for {silence_seconds(condition)} s"
    await settle_timer(tx, claim)
    cause = FiringCause.CONTEXT if condition["event"] == MESSAGE_EVENT else FiringCause.CONDITION
    firing = await perform(tx, row, due=due, cause=cause, build=build, failure=failure, reason=reason)
    return [] if firing is None else [firing]


async def _condition_row(tx: Transaction, row: Row) -> Row | None:
    if row["kind"] != ScheduleKind.REMINDER:
        return None
    reminder = await tx.one("reminder_of_schedule", space_key=row["space_key"], id=row["id"])
    return None if reminder is None else await tx.one("condition_of_schedule", reminder_key=reminder["reminder_key"])


async def _fire_due(
    tx: Transaction,
    row: Row,
    claim: TimerClaim,
    *,
    cause: FiringCause,
    build: BuildRun | None,
    failure: str | None,
) -> list[Firing]:
    plan = load_plan(row)
    decision = decide_firing(row["id"], plan, due=row["due_at"], now=await store_time(tx))
    following = decision.next_due
    look_at = None if following is None else Millis(following + jitter_ms(row["id"], plan, following))
    await settle_timer(tx, claim, next_due=look_at)
    state = ScheduleState.ENDED if following is None else ScheduleState.ACTIVE
    await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state.value, due_at=following)
    await tx.many(
        "add_missed",
        [
            (row["schedule_key"], tx.new_id("fir"), due, FiringOutcome.MISSED.value, reason, tx.now)
            for due, reason in decision.missed
        ],
    )
    if decision.fires is None:
        await _drop_old_firings(tx, row)
        return []
    firing = await perform(tx, row, due=decision.fires, cause=cause, build=build, failure=failure)
    return [] if firing is None else [firing]


async def perform(
    tx: Transaction,
    row: Row,
    *,
    due: Millis,
    cause: FiringCause,
    build: BuildRun | None,
    failure: str | None = None,
    hook_id: str | None = None,
    reason: str | None = None,
) -> Firing | None:
    """Do what a locked schedule does, and record the firing; `None` if this due time has one already."""
    if cause is FiringCause.DUE:
        key = row["schedule_key"]
        if await tx.one("firing_due", schedule_key=key, due_at=due) is not None:
            return None
    plan = load_plan(row)
    done = _Effect(thread_id=row["thread_id"], reason=reason)
    if failure is None:
        done = await _act(tx, row, plan, build, due=due, cause=cause, reason=reason)
    else:
        done = replace(done, outcome=FiringOutcome.FAILED, reason=failure)
    if isinstance(plan.action, RemindAction) and cause is not FiringCause.CHECK:
        # Also if its run could not be made: a reminder is not lost because an agent is broken.
        await _trigger_reminder(tx, row, reason=reason, run_id=done.run_id)
    added = await tx.one(
        "add_firing",
        schedule_key=row["schedule_key"],
        id=FiringId(tx.new_id("fir")),
        due_at=due,
        cause=cause.value,
        outcome=done.outcome.value,
        reason=done.reason,
        run_id=done.run_id,
        hook_id=hook_id,
        now=tx.now,
    )
    assert added is not None
    if done.outcome is FiringOutcome.FAILED and row["last_outcome"] != FiringOutcome.FAILED:
        data = {"schedule_id": row["id"], "name": row["name"], "reason": done.reason}
        await tx.many("add_to_outbox", [event_row(tx, row["space_key"], NotificationKind.SCHEDULE_FAILED, data=data)])
        tx.hints.add(news=True)
    await tx.run(
        "note_firing",
        schedule_key=row["schedule_key"],
        run_id=done.run_id,
        thread_id=done.thread_id,
        outcome=done.outcome.value,
    )
    await _drop_old_firings(tx, row)
    found = await tx.one("firing", firing_key=added["firing_key"])
    assert found is not None
    return to_firing(found)


async def _drop_old_firings(tx: Transaction, row: Row) -> None:
    await tx.run(
        "drop_old_firings",
        schedule_key=row["schedule_key"],
        space_key=row["space_key"],
        before=tx.now - KEEP_FIRINGS // timedelta(milliseconds=1),
        newest=KEEP_NEWEST_FIRINGS - 1,
        limit=DROP_BATCH,
    )


async def _act(
    tx: Transaction,
    row: Row,
    plan: SchedulePlan,
    build: BuildRun | None,
    *,
    due: Millis,
    cause: FiringCause,
    reason: str | None,
) -> _Effect:
    """Start the run of a schedule, or send its notification."""
    action = plan.action
    done = _Effect(thread_id=row["thread_id"], reason=reason)
    if isinstance(action, NotifyAction):
        data = {"schedule_id": row["id"], "name": row["name"], "message": action.message}
        await tx.many("add_to_outbox", [event_row(tx, row["space_key"], NotificationKind.SCHEDULE_FIRED, data=data)])
        tx.hints.add(news=True)
        return done
    if isinstance(action, RemindAction) and cause is FiringCause.CHECK:
        outcome, reason, run_id = await _ask_judge(tx, row, action, build, due=due)
        return replace(done, outcome=outcome, reason=reason, run_id=run_id)
    run = action.run if isinstance(action, RemindAction) else action
    if run is None:
        return done
    # The runs of a reminder queue up, within the limit.
    overlap = Overlap.QUEUE if isinstance(action, RemindAction) else plan.overlap
    skipped = await _apply_overlap(tx, row, overlap)
    if skipped is not None:
        return replace(done, outcome=FiringOutcome.SKIPPED, reason=skipped)
    assert build is not None
    run_id, thread_id = await _start_run(tx, row, run, build, due=due, cause=cause, reason=reason)
    return replace(done, run_id=run_id, thread_id=thread_id)


async def _apply_overlap(tx: Transaction, row: Row, overlap: Overlap) -> str | None:
    """Apply the overlap policy to the active runs of a schedule; return why the due time is skipped, if it is."""
    active = await tx.all(
        "active_runs_of_schedule",
        schedule_key=row["schedule_key"],
        space_key=row["space_key"],
        limit=MAX_QUEUED_FIRINGS,
    )
    if not active:
        return None
    if overlap is Overlap.CANCEL:
        end = RunEnd(to=RunStatus.CANCELLED, reason=f"replaced by the next run of schedule `{row['id']}`")
        await end_run_trees(tx, [each["run_key"] for each in active], end)
        return None
    newest = active[-1]
    waits = newest["status"] == RunStatus.WAITING and newest["status_reason"] == WaitsFor.PERSON
    if overlap is Overlap.QUEUE and not waits:
        full = len(active) >= MAX_QUEUED_FIRINGS
        return f"{len(active)} runs of the schedule are queued already" if full else None
    state = "waits for a person" if waits else "is still active"
    return f"run `{newest['id']}` of an earlier time {state}"


async def _trigger_reminder(tx: Transaction, row: Row, *, reason: str | None, run_id: RunId | None) -> None:
    """Mark the reminder of a schedule as triggered, and send its notification."""
    reminder = await tx.one("reminder_of_schedule", space_key=row["space_key"], id=row["id"])
    assert reminder is not None
    key = reminder["reminder_key"]
    now = await store_time(tx)
    if await tx.one("trigger_reminder", reminder_key=key, reason=reason, now=now) is None:
        return
    await tx.run("disarm_condition", reminder_key=key)
    if reminder["recurrence"] is None or reminder["trigger_type"] != TriggerType.TIME:
        state = ScheduleState.ENDED.value
        await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state, due_at=None)
        await tx.run("disarm_timer", space_key=row["space_key"], id=row["id"])
    data = {
        "reminder_id": row["id"],
        "content": reminder["content"],
        "priority": priority_of_rank(reminder["priority"]),
        "reason": reason,
    }
    event = event_row(
        tx,
        row["space_key"],
        NotificationKind.REMINDER_TRIGGERED,
        data=data,
        run_id=run_id,
        thread_id=reminder["thread_id"],
    )
    await tx.many("add_to_outbox", [event])
    tx.hints.add(news=True)


async def _ask_judge(
    tx: Transaction, row: Row, action: RemindAction, build: BuildRun | None, *, due: Millis
) -> tuple[FiringOutcome, str | None, RunId | None]:
    """Start the run that answers the question of a judge, within what is left of its budget."""
    judge = action.judge
    assert judge is not None and build is not None
    skipped = await _apply_overlap(tx, row, Overlap.SKIP)
    if skipped is not None:
        return FiringOutcome.SKIPPED, skipped, None
    spent = await tx.one("spent_on_checks", schedule_key=row["schedule_key"], space_key=row["space_key"])
    assert spent is not None
    tokens = None if judge.token_budget is None else judge.token_budget - spent["tokens"]
    cost = None if judge.cost_budget_usd is None else nanodollars(judge.cost_budget_usd) - spent["nanodollars"]
    if (tokens is not None and tokens <= 0) or (cost is not None and cost <= 0):
        state = ScheduleState.ENDED.value
        await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state, due_at=None)
        await tx.run("disarm_timer", space_key=row["space_key"], id=row["id"])
        return FiringOutcome.FAILED, "the budget of the judge is used up: it is not asked any more", None
    left = {"token_budget": tokens, "cost_budget_usd": None if cost is None else usd(cost)}
    run_id, _ = await _start_run(
        tx, row, RunAction(new_thread=True), build, due=due, cause=FiringCause.CHECK, budgets=left
    )
    return FiringOutcome.FIRED, None, run_id


async def _start_run(
    tx: Transaction,
    row: Row,
    action: RunAction,
    build: BuildRun,
    *,
    due: Millis,
    cause: FiringCause,
    reason: str | None = None,
    budgets: Mapping[str, float | None] | None = None,
) -> tuple[RunId, ThreadId | None]:
    """Create the run of a firing; return it, and the schedule's own thread."""
    space, thread_id = row["space_id"], row["thread_id"]
    last = await tx.one("last_firing", schedule_key=row["schedule_key"])
    told = FiringInput(
        schedule_id=row["id"],
        name=row["name"],
        cause=cause,
        due_at=instant(due),
        last=None if last is None else to_firing(last),
        reminder=await _reminder_text(tx, row),
        reason=UNSET if reason is None else reason,
    )
    new = replace(build(told), on_busy=OnBusy.ENQUEUE)
    if budgets is not None:
        new = replace(new, limits=replace(new.limits, **budgets))
    own = action.thread_id is None and not action.new_thread
    if own and thread_id is not None and await _is_usable(tx, space, thread_id):
        new = replace(new, thread=thread_id)
    check_new_run(new)
    run = (await create_run(tx, CreateRunRequest(space, new))).run
    return run.id, run.thread_id if own else thread_id


async def _reminder_text(tx: Transaction, row: Row) -> str | UnsetType:
    if row["kind"] != ScheduleKind.REMINDER:
        return UNSET
    reminder = await tx.one("reminder_of_schedule", space_key=row["space_key"], id=row["id"])
    assert reminder is not None
    return "\n\n".join(filter(None, (reminder["content"], reminder["context"])))


async def _is_usable(tx: Transaction, space: SpaceId, thread: ThreadId) -> bool:
    try:
        return ThreadStatus((await thread_row(tx, space, thread))["status"]) is not ThreadStatus.DELETED
    except NotFound:
        return False


def load_plan(row: Row) -> SchedulePlan:
    """Return the plan of a schedule."""
    return _plan_decoder.decode(row["plan"])


def to_firing(row: Row) -> Firing:
    """Return the firing of a row."""
    return Firing(
        id=row["id"],
        schedule_id=row["schedule_id"],
        due_at=instant(row["due_at"]),
        cause=FiringCause(row["cause"]),
        outcome=FiringOutcome(row["outcome"]),
        reason=row["reason"],
        run_id=row["run_id"],
        run_status=None if row["run_status"] is None else RunStatus(row["run_status"]),
        created_at=instant(row["created_at"]),
    )
