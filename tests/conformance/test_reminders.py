"""Reminders: triggered by a time, a condition or a context, exactly once, and shown until they are settled."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Commit
from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, Invalid, NotFound
from holdfast.domain.ids import ReminderId, ScheduleId, ThreadId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.limits import Usage
from holdfast.domain.notification import NotificationKind
from holdfast.domain.reminder import (
    ReminderFilter,
    ReminderPatch,
    ReminderPriority,
    TriggerType,
)
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.schedule import FiringCause, FiringOutcome, RunAction, ScheduleState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.reminder_builders import (
    COMPLETED,
    CONDITION,
    CONTEXT,
    DISMISSED,
    HOUR,
    PENDING,
    TIME,
    TRIGGERED,
    end,
    finish,
    fire_due,
    firings,
    remind,
    start,
    status,
)
from tests.conformance.tables import rows_of


async def test_a_reminder_is_triggered_at_its_time_and_shown_until_it_is_settled(
    store: Store, clock: HeldClock
) -> None:
    made = await remind(store, "in 2 h", priority=ReminderPriority.HIGH)
    assert (made.status, made.next_due_at) == (PENDING, instant(Millis(clock.now() + 7_200_000)))
    clock.tick(HOUR)
    assert (await fire_due(store), await status(store, made)) == ([], PENDING)
    clock.tick(HOUR)
    (firing,) = await fire_due(store)
    assert (firing.cause, firing.outcome, firing.due_at) == (FiringCause.DUE, FiringOutcome.FIRED, made.next_due_at)
    shown = await store.reminders.get(SPACE, made.id)
    assert (shown.status, shown.triggered_at, shown.next_due_at) == (TRIGGERED, instant(clock.now()), None)
    await store.notifications.dispatch()
    (notification,) = await store.notifications.after(SPACE)
    assert (notification.kind, notification.data["reminder_id"]) == (NotificationKind.REMINDER_TRIGGERED, made.id)
    thread = ThreadId("any")
    assert [each.id for each in await store.reminders.of_turn(SPACE, thread, owner=None)] == [made.id]
    done = await store.reminders.settle(SPACE, made.id, to=COMPLETED)
    assert done.status is COMPLETED and await store.reminders.settle(SPACE, made.id, to=COMPLETED) == done
    assert await store.reminders.of_turn(SPACE, thread, owner=None) == []
    with pytest.raises(Conflict, match="was completed"):
        await store.reminders.settle(SPACE, made.id, to=DISMISSED)


async def test_a_reminder_reaches_its_thread_or_its_owner(store: Store) -> None:
    mine = await remind(store, "call", CONTEXT, owner="ada")
    here = await remind(store, "call", CONTEXT, owner="ada", thread_id=ThreadId("thr-here"))
    for each in (mine, here):
        await store.schedules.trigger(SPACE, ScheduleId(each.id), cause=FiringCause.MANUAL)

    async def of_turn(thread: str, owner: str | None) -> set[str]:
        return {each.id for each in await store.reminders.of_turn(SPACE, ThreadId(thread), owner=owner)}

    assert await of_turn("thr-here", "ada") == {mine.id, here.id}
    assert await of_turn("thr-here", "bob") == {here.id}
    assert await of_turn("thr-other", "ada") == {mine.id}
    assert await of_turn("thr-other", None) == set()
    assert await store.reminders.of_turn(OTHER, ThreadId("thr-here"), owner="ada") == []


async def test_the_newest_comes_first_among_equals_and_what_the_message_is_about_before_it(
    store: Store, clock: HeldClock
) -> None:
    """A reminder that nobody settles hides none that are triggered later."""
    about = await remind(store, "invoices", CONTEXT)
    made = [await remind(store, "in 1 h") for _ in range(3)]
    for each in (made[1], made[0], made[2]):
        clock.tick(MINUTE)
        await store.schedules.trigger(SPACE, ScheduleId(each.id), cause=FiringCause.MANUAL)
    clock.tick(MINUTE)
    lease = await start(store, text="Where are the invoices?")
    found = await store.reminders.of_turn(SPACE, lease.thread_id, owner=None)
    assert [each.id for each in found] == [each.id for each in (about, made[2], made[0], made[1])]


async def test_the_highest_priority_comes_first(store: Store) -> None:
    order = [ReminderPriority.LOW, ReminderPriority.CRITICAL, ReminderPriority.NORMAL, ReminderPriority.HIGH]
    made = {each: await remind(store, "in 1 h", priority=each) for each in order}
    for each in made.values():
        await store.schedules.trigger(SPACE, ScheduleId(each.id), cause=FiringCause.MANUAL)
    expected = ["critical", "high", "normal", "low"]
    assert [each.priority for each in await store.reminders.of_turn(SPACE, ThreadId("t"), owner=None)] == expected
    found: list[str] = []
    cursor = None
    while True:
        page = await store.reminders.page(SPACE, limit=1, cursor=cursor)
        found += [each.priority for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == expected
    high = ReminderFilter(priority=ReminderPriority.HIGH, status=TRIGGERED, trigger_type=TIME)
    assert [each.id for each in (await store.reminders.page(SPACE, where=high)).items] == [made[order[3]].id]


async def test_runs_of_a_reminder_queue_up_to_a_limit_and_it_is_triggered_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch, clock: HeldClock
) -> None:
    monkeypatch.setattr("holdfast.store.firings.MAX_QUEUED_FIRINGS", 2)
    made = await remind(store, "* * * * *", action=RunAction(agent="bot", new_thread=True))
    for _ in range(3):
        clock.tick(MINUTE)
        await fire_due(store)
    full, *fired = await firings(store, made)
    assert [each.outcome for each in fired] == [FiringOutcome.FIRED] * 2
    assert (full.outcome, full.reason) == (FiringOutcome.SKIPPED, "2 runs of the schedule are queued already")
    assert await status(store, made) is TRIGGERED


async def test_an_action_starts_exactly_one_run(store: Store, clock: HeldClock) -> None:
    made = await remind(store, "in 1 min", action=RunAction(agent="bot"), context="at home")
    clock.tick(MINUTE)
    (firing,) = await fire_due(store)
    assert firing.run_id is not None and await fire_due(store) == []
    assert (await store.messages.of_run(SPACE, firing.run_id))[0].content == "due call mum\n\nat home"
    assert await status(store, made) is TRIGGERED


async def test_a_reminder_whose_run_cannot_be_made_is_triggered_all_the_same(store: Store, clock: HeldClock) -> None:
    made = await remind(store, "in 1 min", action=RunAction(agent="bot"))
    clock.tick(MINUTE)
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    (firing,) = await store.schedules.fire(claim, failure="NOT_FOUND: no agent")
    assert (firing.outcome, await status(store, made)) == (FiringOutcome.FAILED, TRIGGERED)


async def test_a_recurring_reminder_waits_for_its_next_time_until_it_is_dismissed(
    store: Store, clock: HeldClock
) -> None:
    made = await remind(store, "0 9 * * *", timezone="Asia/Tokyo")
    assert made.recurrence == "0 9 * * *" and made.next_due_at is not None
    for _ in range(2):
        clock.tick(timedelta(days=1))
        assert len(await fire_due(store)) == 1
        assert await status(store, made) is TRIGGERED
        again = await store.reminders.settle(SPACE, made.id, to=COMPLETED)
        assert again.status is PENDING and again.next_due_at is not None
        assert await store.reminders.settle(SPACE, made.id, to=COMPLETED) == again
    ended = await store.reminders.settle(SPACE, made.id, to=DISMISSED)
    assert (ended.status, ended.next_due_at) == (DISMISSED, None)
    clock.tick(timedelta(days=2))
    assert await fire_due(store) == []


async def test_a_first_time_and_a_recurrence(store: Store, clock: HeldClock) -> None:
    made = await remind(store, "in 90 s", recurrence="0 * * * *")
    assert made.next_due_at == instant(Millis(clock.now() + 90_000))
    clock.tick(timedelta(seconds=90))
    assert len(await fire_due(store)) == 1
    following = (await store.reminders.get(SPACE, made.id)).next_due_at
    assert following is not None and following.endswith(":00:00.000Z")


async def test_a_snoozed_reminder_is_triggered_at_the_end_of_the_snooze(store: Store, clock: HeldClock) -> None:
    made = await remind(store, {"event": "run.failed"}, CONDITION)
    await finish(store, to=RunStatus.FAILED)
    assert len(await fire_due(store)) == 1
    snoozed = await store.reminders.snooze(SPACE, made.id, until="in 10 min")
    assert (snoozed.status, snoozed.snoozed_until) == (PENDING, instant(Millis(clock.now() + 600_000)))
    assert await store.reminders.of_turn(SPACE, ThreadId("t"), owner=None) == []
    await finish(store, to=RunStatus.FAILED)
    assert await fire_due(store) == []  # its condition waits too
    clock.tick(timedelta(minutes=10))
    (firing,) = await fire_due(store)
    assert (firing.cause, await status(store, made)) == (FiringCause.DUE, TRIGGERED)
    with pytest.raises(Invalid, match="in the past: it was understood as"):
        await store.reminders.snooze(SPACE, made.id, until="2020-01-01T00:00:00Z")


async def test_an_event_triggers_the_conditions_that_name_it(store: Store) -> None:
    failed = await remind(store, {"event": "run.failed", "agent": "bot"}, CONDITION)
    other = await remind(store, {"event": "run.failed", "agent": "other"}, CONDITION)
    tagged = await remind(store, {"event": "run.failed", "tag": "nightly"}, CONDITION)
    completed = await remind(store, {"event": "run.completed"}, CONDITION)
    run = await finish(store, to=RunStatus.FAILED)
    (firing,) = await fire_due(store)
    assert (firing.cause, firing.reason) == (FiringCause.CONDITION, f"`run.failed`, run `{run.id}`")
    states = [await status(store, each) for each in (failed, other, tagged, completed)]
    assert states == [TRIGGERED, PENDING, PENDING, PENDING]
    assert (await store.reminders.get(SPACE, failed.id)).trigger_reason == firing.reason
    await finish(store, "other", to=RunStatus.FAILED, tags=["nightly"])
    await finish(store)
    assert len(await fire_due(store)) == 3
    await finish(store, to=RunStatus.FAILED)
    assert await fire_due(store) == []  # each fires once


async def test_a_run_that_is_ended_from_outside_is_an_event_too(store: Store) -> None:
    made = await remind(store, {"event": "run.cancelled"}, CONDITION)
    lease = await start(store)
    await store.runs.end(SPACE, lease.run_id, to=RunStatus.CANCELLED, reason="enough")
    assert len(await fire_due(store)) == 1 and await status(store, made) is TRIGGERED


async def test_events_are_counted_within_their_window(store: Store, clock: HeldClock) -> None:
    made = await remind(store, {"event": "run.failed", "count": 3, "within_seconds": 600}, CONDITION)
    for minutes in (0, 6, 6):  # the first is out of the window when the third comes
        clock.tick(minutes * MINUTE)
        await finish(store, to=RunStatus.FAILED)
    assert await fire_due(store) == []
    await finish(store, to=RunStatus.FAILED)
    assert len(await fire_due(store)) == 1 and await status(store, made) is TRIGGERED


async def test_usage_within_a_window_meets_a_threshold(store: Store, clock: HeldClock) -> None:
    tokens = await remind(store, {"metric": "tokens", "above": 100, "within_seconds": 3600}, CONDITION)
    cost = await remind(store, {"metric": "cost_usd", "above": 0.5, "within_seconds": 3600, "agent": "bot"}, CONDITION)

    async def use(count: int, cost_usd: float) -> None:
        lease = await start(store)
        usage = Usage(input_tokens=count, cost_usd=cost_usd)
        await store.journal.commit(Commit(lease=lease, usage=usage, move=Move(to=RunStatus.COMPLETED)))

    await use(60, 0.2)
    clock.tick(timedelta(hours=2))
    await use(60, 0.2)
    assert await fire_due(store) == []
    await use(50, 0.2)
    (firing,) = await fire_due(store)
    assert (str(firing.schedule_id), firing.reason) == (tokens.id, "`tokens` reached 110 within 3600 s")
    await use(0, 0.2)
    assert [str(each.schedule_id) for each in await fire_due(store)] == [cost.id]


async def test_silence_triggers_a_reminder_and_an_event_puts_it_off(store: Store, clock: HeldClock) -> None:
    made = await remind(store, {"silence": "run.completed", "for_seconds": 3600, "agent": "bot"}, CONDITION)
    clock.tick(timedelta(minutes=50))
    await finish(store)
    await finish(store, "other")
    clock.tick(timedelta(minutes=50))
    assert (await fire_due(store), await status(store, made)) == ([], PENDING)
    clock.tick(timedelta(minutes=9))
    assert await fire_due(store) == []
    clock.tick(timedelta(minutes=1))
    (firing,) = await fire_due(store)
    assert (firing.cause, firing.reason) == (FiringCause.CONDITION, "`run.completed` did not happen for 3600 s")


async def test_artifacts_and_plans_are_events(store: Store) -> None:
    report = await remind(store, {"event": "artifact.created", "type": "report"}, CONDITION)
    plan = await remind(store, {"event": "plan.completed"}, CONDITION)
    lease = await start(store)
    await store.artifacts.create(SPACE, lease.run_id, NewArtifact(type=ArtifactType.CODE, title="x", content="x"))
    assert await fire_due(store) == []
    made = NewArtifact(type=ArtifactType.REPORT, title="x", content="x")
    open_plan = {"items": [{"status": "completed"}, {"status": "planned"}]}
    await store.journal.commit(Commit(lease=lease, artifacts=[made], values={"plan": open_plan}))
    assert [str(each.schedule_id) for each in await fire_due(store)] == [report.id]
    await store.journal.commit(Commit(lease=lease, values={"plan": {"items": [{"status": "completed"}]}}))
    assert [str(each.schedule_id) for each in await fire_due(store)] == [plan.id]


async def test_a_condition_that_recurs_is_watched_again_but_not_for_its_own_runs(store: Store) -> None:
    made = await remind(store, {"event": "run.completed"}, CONDITION, recurrence="always")
    await finish(store)
    await finish(store)
    assert len(await fire_due(store)) == 1
    assert (await store.reminders.settle(SPACE, made.id, to=COMPLETED)).status is PENDING
    await finish(store, tags=[f"reminder:{made.id}"])
    assert await fire_due(store) == []
    await finish(store)
    assert len(await fire_due(store)) == 1


async def test_a_judge_is_asked_within_its_budget_and_yes_triggers_the_reminder(store: Store, clock: HeldClock) -> None:
    value = {"judge": "is it out?", "schedule": "0 * * * *", "token_budget": 100}
    made = await remind(store, value, CONDITION)

    async def answer(said: bool, tokens: int) -> Run:
        clock.tick(HOUR)
        (firing,) = await fire_due(store)
        assert (firing.cause, firing.outcome) == (FiringCause.CHECK, FiringOutcome.FIRED)
        (lease,) = await store.leases.claim(FIRST, lease=MINUTE)
        move = Move(to=RunStatus.COMPLETED, output={"answer": said, "reason": "seen"})
        usage = Usage(input_tokens=tokens, cost_usd=0.0)
        await store.journal.commit(Commit(lease=lease, usage=usage, move=move))
        return lease.run

    assert (await answer(False, 60)).limits.token_budget == 100
    assert await status(store, made) is PENDING
    run = await answer(True, 10)
    assert run.limits.token_budget == 40
    (firing,) = await fire_due(store)
    assert firing.cause is FiringCause.CONDITION
    assert firing.reason == f"the judge answered yes in run `{run.id}`: seen"
    assert await status(store, made) is TRIGGERED
    clock.tick(2 * HOUR)
    assert await fire_due(store) == []  # a triggered reminder is not asked about


async def test_a_judge_without_budget_left_is_not_asked(store: Store, clock: HeldClock) -> None:
    made = await remind(store, {"judge": "is it out?", "token_budget": 5}, CONDITION)
    clock.tick(HOUR)
    await fire_due(store)
    (lease,) = await store.leases.claim(FIRST, lease=MINUTE)
    usage = Usage(input_tokens=9, cost_usd=0.0)
    move = Move(to=RunStatus.COMPLETED, output={"answer": False})
    await store.journal.commit(Commit(lease=lease, usage=usage, move=move))
    clock.tick(HOUR)
    (firing,) = await fire_due(store)
    assert firing.outcome is FiringOutcome.FAILED and "budget" in (firing.reason or "")
    assert (await store.schedules.get(SPACE, ScheduleId(made.id))).state is ScheduleState.ENDED
    clock.tick(2 * HOUR)
    assert await fire_due(store) == [] and await status(store, made) is PENDING


async def test_a_late_yes_counts_although_the_budget_is_used_up(store: Store, clock: HeldClock) -> None:
    made = await remind(store, {"judge": "is it out?", "token_budget": 5}, CONDITION)
    clock.tick(HOUR)
    await fire_due(store)
    (first,) = await store.leases.claim(FIRST, lease=2 * HOUR)
    await store.journal.commit(Commit(lease=first, usage=Usage(input_tokens=9, cost_usd=0.0)))
    clock.tick(HOUR)
    (firing,) = await fire_due(store)
    assert firing.outcome is FiringOutcome.SKIPPED  # the first check has not answered yet
    await end(store, first, output={"answer": True})
    assert [each.cause for each in await fire_due(store)] == [FiringCause.CONDITION]
    assert await status(store, made) is TRIGGERED


async def test_a_run_that_only_pretends_to_be_a_judge_triggers_nothing(store: Store) -> None:
    made = await remind(store, {"judge": "is it out?", "token_budget": 5}, CONDITION)
    lease = await start(store, tags=[f"judge:{made.id}"])
    await end(store, lease, output={"answer": True})
    assert await fire_due(store) == []


async def test_another_trigger_revives_a_reminder(store: Store, clock: HeldClock) -> None:
    made = await remind(store, "in 1 min")
    clock.tick(MINUTE)
    await fire_due(store)
    renamed = await store.reminders.update(SPACE, made.id, ReminderPatch(content="call dad"))
    assert (renamed.content, renamed.status) == ("call dad", TRIGGERED)
    await store.reminders.settle(SPACE, made.id, to=COMPLETED)
    patch = ReminderPatch(trigger_type=CONDITION, trigger_value={"event": "run.completed"})
    assert (await store.reminders.update(SPACE, made.id, patch)).status is PENDING
    await finish(store)
    assert len(await fire_due(store)) == 1
    back = ReminderPatch(trigger_type=TIME, trigger_value="in 1 min")
    again = await store.reminders.update(SPACE, made.id, back)
    assert again.next_due_at == instant(Millis(clock.now() + 60_000))
    await finish(store)
    assert await fire_due(store) == []
    clock.tick(MINUTE)
    assert len(await fire_due(store)) == 1


async def test_a_deleted_reminder_leaves_nothing(store: Store, where: str | Path) -> None:
    before = await rows_of(where)
    made = await remind(store, "invoices", CONTEXT)
    await store.reminders.delete(SPACE, made.id)
    assert await rows_of(where) == before
    with pytest.raises(NotFound):
        await store.reminders.get(SPACE, made.id)


WRONG: list[tuple[TriggerType, Any, dict[str, Any], str]] = [
    (TIME, None, {}, "is text"),
    (TIME, "", {}, "is text"),
    (TIME, "soon", {}, "is not a time"),
    (TIME, "2020-01-01T00:00:00Z", {}, "in the past: it was understood as 2020-01-01T00:00:00.000Z"),
    (TIME, "2090-01-01T00:00:00", {}, "has no time zone"),
    (TIME, "2090-01-01T00:00:00", {"timezone": "Mars"}, "not a time zone"),
    (TIME, "61 * * * *", {}, "not a cron expression"),
    (TIME, "in 1 h", {"recurrence": "often"}, "not a cron expression"),
    (TIME, "in 99 y", {}, "is not a time"),
    (CONDITION, None, {}, "one of `event`, `metric`, `silence` and `judge`"),
    (CONDITION, "when it rains", {}, "one of `event`"),
    (CONDITION, {}, {}, "one of `event`"),
    (CONDITION, {"event": "run.failed", "metric": "tokens"}, {}, "one of `event`"),
    (CONDITION, {"event": "run.exploded"}, {}, "not valid"),
    (CONDITION, {"event": "run.failed", "colour": "red"}, {}, "unknown field"),
    (CONDITION, {"event": "run.failed", "count": 2}, {}, "needs a window"),
    (CONDITION, {"event": "run.failed", "count": 0}, {}, "not valid"),
    (CONDITION, {"metric": "tokens", "above": 0, "within_seconds": 1}, {}, "not valid"),
    (CONDITION, {"metric": "tokens", "above": 1}, {}, "within_seconds"),
    (CONDITION, {"silence": "any"}, {}, "for_seconds"),
    (CONDITION, {"judge": "is it?"}, {}, "needs a budget"),
    (CONDITION, {"judge": "is it?", "token_budget": 9, "schedule": "x"}, {}, "not a cron expression"),
    (CONDITION, {"event": "run.failed"}, {"recurrence": "daily"}, "`always` or null"),
    (CONTEXT, {"threshold": 0.5}, {}, "about"),
    (CONTEXT, {"about": "x", "threshold": 2}, {}, "not valid"),
    (CONTEXT, " !? ", {}, "needs a word"),
    (CONTEXT, "x", {"content": " "}, "is empty"),
    (CONTEXT, "x", {"content": "a\x00b"}, "content"),
    (CONTEXT, "x", {"id": ReminderId("a b")}, "letters"),
]


@pytest.mark.parametrize(("kind", "value", "fields", "message"), WRONG)
async def test_a_wrong_reminder_is_refused_and_changes_nothing(
    store: Store, where: str | Path, kind: TriggerType, value: Any, fields: dict[str, Any], message: str
) -> None:
    before = await rows_of(where)
    with pytest.raises(HoldfastError, match=message):
        await remind(store, value, kind, **fields)
    assert await rows_of(where) == before


async def test_a_taken_id_is_refused(store: Store) -> None:
    await remind(store, "in 1 h", id=ReminderId("tea"))
    with pytest.raises(IdTaken):
        await remind(store, "in 1 h", id=ReminderId("tea"))
