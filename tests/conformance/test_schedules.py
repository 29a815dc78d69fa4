"""Schedules: each due time fires once and leaves a firing; policies for missed times and for overlap."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import Conflict, IdTaken, Invalid, LeaseLost, NotFound
from holdfast.domain.ids import ScheduleId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.schedule import (
    KEEP_FIRINGS,
    KEEP_NEWEST_FIRINGS,
    MAX_MISSED_PER_FIRING,
    MAX_QUEUED_FIRINGS,
    Firing,
    FiringCause,
    FiringOutcome,
    Misfire,
    NewSchedule,
    NotifyAction,
    Overlap,
    RunAction,
    Schedule,
    ScheduleKind,
    SchedulePatch,
    SchedulePlan,
    ScheduleState,
)
from holdfast.domain.thread import NewThread, ThreadPatch, ThreadStatus
from holdfast.ports.schedules import DaemonState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.schedule_builders import HOUR, NOTE, after, build, fire_due, make, outcomes, plan
from tests.conformance.tables import rows_of


async def test_a_due_time_fires_once_and_sets_the_next(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    first, second = after(clock, 0, 1)
    assert (schedule.next_due_at, await fire_due(store)) == (first, [])
    clock.tick(MINUTE)
    (firing,) = await fire_due(store)
    assert (firing.due_at, firing.outcome, firing.cause) == (first, FiringOutcome.FIRED, FiringCause.DUE)
    assert firing.run_id is not None
    run = await store.runs.get(SPACE, firing.run_id)
    assert (run.status, run.root_run_id) == (RunStatus.QUEUED, run.id)
    assert (await store.messages.of_run(SPACE, run.id))[0].content == f"due {first}"
    assert (await store.schedules.get(SPACE, schedule.id)).next_due_at == second
    assert await fire_due(store) == []


async def test_a_schedule_with_one_instant_ends_after_it(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, cron=None, at=instant(Millis(clock.now() + 5_000)))
    clock.tick(MINUTE)
    assert [firing.due_at for firing in await fire_due(store)] == [schedule.at]
    ended = await store.schedules.get(SPACE, schedule.id)
    assert (ended.state, ended.next_due_at) == (ScheduleState.ENDED, None)
    with pytest.raises(Conflict, match="has ended"):
        await store.schedules.set_paused(SPACE, schedule.id, paused=False)
    revived = await store.schedules.update(SPACE, schedule.id, SchedulePatch(plan=plan()))
    assert (revived.state, revived.next_due_at) == (ScheduleState.ACTIVE, after(clock, 0)[0])


async def test_nothing_is_due_after_the_end(store: Store, clock: HeldClock) -> None:
    first, second = after(clock, 0, 1)
    schedule = await make(store, ends_at=Instant(first))
    clock.tick(3 * MINUTE)
    assert [firing.due_at for firing in await fire_due(store)] == [first]
    assert await outcomes(store, schedule.id) == [(first, FiringOutcome.FIRED)]
    assert (await store.schedules.get(SPACE, schedule.id)).state is ScheduleState.ENDED
    assert second > first


async def test_concurrent_owners_fire_a_due_time_once(stores: list[Store], clock: HeldClock) -> None:
    schedules = [await make(stores[0]) for _ in range(5)]
    clock.tick(MINUTE)

    async def work(store: Store, owner: Any) -> list[Firing]:
        claims = await store.timers.claim_due(owner, lease=MINUTE)
        done = await asyncio.gather(*(store.schedules.fire(claim, build=build) for claim in claims))
        return [firing for firings in done for firing in firings]

    found = await asyncio.gather(*(work(store, owner) for store in stores for owner in (FIRST, SECOND)))
    assert sorted(firing.schedule_id for firings in found for firing in firings) == sorted(s.id for s in schedules)


async def test_a_claim_that_was_taken_over_fires_nothing(store: Store, clock: HeldClock, where: str | Path) -> None:
    await make(store)
    clock.tick(MINUTE)
    (stale,) = await store.timers.claim_due(FIRST, lease=timedelta(seconds=1))
    clock.tick(timedelta(seconds=2))
    (fresh,) = await store.timers.claim_due(SECOND, lease=MINUTE)
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await store.schedules.fire(stale, build=build)
    assert await rows_of(where) == before
    assert len(await store.schedules.fire(fresh, build=build)) == 1
    with pytest.raises(LeaseLost):
        await store.schedules.fire(fresh, build=build)


async def test_a_run_that_cannot_be_made_changes_nothing_and_is_then_a_failure(
    store: Store, clock: HeldClock, where: str | Path
) -> None:
    thread = await store.threads.create(SPACE, NewThread())
    schedule = await make(store, action=RunAction(thread_id=thread.id))
    await store.threads.update(SPACE, thread.id, ThreadPatch(status=ThreadStatus.ARCHIVED))
    clock.tick(MINUTE)
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    before = await rows_of(where)
    with pytest.raises(Conflict):
        await store.schedules.fire(claim, build=lambda told: NewRun(thread=thread.id))
    assert await rows_of(where) == before
    (firing,) = await store.schedules.fire(claim, failure="THREAD_CLOSED: archived")
    assert (firing.outcome, firing.reason, firing.run_id) == (FiringOutcome.FAILED, "THREAD_CLOSED: archived", None)
    clock.tick(MINUTE)
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    await store.schedules.fire(claim, failure="THREAD_CLOSED: archived")
    await store.notifications.dispatch()
    news = await store.notifications.latest(SPACE)
    assert [(each.kind, each.data["schedule_id"]) for each in news] == [("schedule.failed", schedule.id)]


@pytest.mark.parametrize(
    ("misfire", "window", "expected"),
    [
        (Misfire.SKIP, None, "m m m m m f"),
        (Misfire.ONCE, None, "m m m m m f"),
        (Misfire.ALL, None, "f f f f f f"),
        (Misfire.ALL, 150, "m m m f f f"),
        (Misfire.ONCE, 150, "m m m m m f"),
    ],
)
async def test_times_that_passed_unnoticed_follow_the_misfire_policy(
    store: Store, clock: HeldClock, misfire: Misfire, window: int | None, expected: str
) -> None:
    schedule = await make(store, misfire=misfire, misfire_window_seconds=window, overlap=Overlap.QUEUE)
    due = after(clock, *range(6))
    clock.tick(timedelta(milliseconds=60_000 - clock.now() % 60_000) + 5 * MINUTE)
    await fire_due(store)
    found = await outcomes(store, schedule.id)
    assert [time for time, _ in found] == due
    assert " ".join(outcome[0] for _, outcome in found) == expected
    assert (await store.schedules.get(SPACE, schedule.id)).next_due_at == after(clock, 0)[0]


async def test_a_late_instant_fires_once_it_is_noticed(store: Store, clock: HeldClock) -> None:
    once = await make(store, cron=None, at=instant(Millis(clock.now() + 1_000)))
    skip = await make(store, cron=None, at=instant(Millis(clock.now() + 1_000)), misfire=Misfire.SKIP)
    clock.tick(2 * HOUR)
    await fire_due(store)
    assert [outcome for _, outcome in await outcomes(store, once.id)] == [FiringOutcome.FIRED]
    (missed,) = (await store.schedules.firings(SPACE, skip.id)).items
    assert (missed.outcome, missed.run_id) == (FiringOutcome.MISSED, None)
    assert "`misfire` is `skip`" in (missed.reason or "")


async def test_a_long_sleep_records_every_missed_time(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, misfire=Misfire.SKIP)
    clock.tick((2 * MAX_MISSED_PER_FIRING + 5) * MINUTE)
    await fire_due(store)
    found = await outcomes(store, schedule.id)
    assert len({time for time, _ in found}) == len(found) == 2 * MAX_MISSED_PER_FIRING + 5


async def test_overlap_skip_leaves_out_a_time_while_the_last_run_is_active(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    for _ in range(2):
        clock.tick(MINUTE)
        await fire_due(store)
    skipped, fired = (await store.schedules.firings(SPACE, schedule.id)).items
    assert (fired.outcome, skipped.outcome) == (FiringOutcome.FIRED, FiringOutcome.SKIPPED)
    assert skipped.reason == f"run `{fired.run_id}` of an earlier time is still active"
    assert fired.run_id is not None
    await store.runs.end(SPACE, fired.run_id)
    clock.tick(MINUTE)
    (again,) = await fire_due(store)
    assert again.outcome is FiringOutcome.FIRED


async def test_overlap_skip_sees_a_run_behind_many_skipped_times(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    for _ in range(MAX_QUEUED_FIRINGS + 2):
        clock.tick(MINUTE)
        await fire_due(store)
    found = [outcome for _, outcome in await outcomes(store, schedule.id)]
    assert found == [FiringOutcome.FIRED] + [FiringOutcome.SKIPPED] * (MAX_QUEUED_FIRINGS + 1)


async def test_overlap_queue_runs_one_after_the_other_on_one_thread(store: Store, clock: HeldClock) -> None:
    await make(store, overlap=Overlap.QUEUE)
    runs = []
    for _ in range(3):
        clock.tick(MINUTE)
        (firing,) = await fire_due(store)
        assert firing.run_id is not None
        runs.append(await store.runs.get(SPACE, firing.run_id))
    assert [run.status for run in runs] == [RunStatus.QUEUED, RunStatus.PENDING, RunStatus.PENDING]
    assert [run.base_run_id for run in runs] == [None, runs[0].id, runs[1].id]
    assert len({run.thread_id for run in runs}) == 1


async def test_overlap_cancel_ends_the_last_run(store: Store, clock: HeldClock) -> None:
    await make(store, overlap=Overlap.CANCEL, action=RunAction(new_thread=True))
    clock.tick(MINUTE)
    (first,) = await fire_due(store)
    clock.tick(MINUTE)
    (second,) = await fire_due(store)
    assert first.run_id is not None and second.run_id is not None
    cancelled, started = [await store.runs.get(SPACE, run) for run in (first.run_id, second.run_id)]
    assert (cancelled.status, started.status) == (RunStatus.CANCELLED, RunStatus.QUEUED)
    assert cancelled.thread_id != started.thread_id


async def test_a_schedule_whose_own_thread_was_deleted_begins_another(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, overlap=Overlap.CANCEL)
    clock.tick(MINUTE)
    (firing,) = await fire_due(store)
    assert firing.run_id is not None
    await store.runs.end(SPACE, firing.run_id)
    thread = (await store.schedules.get(SPACE, schedule.id)).thread_id
    assert thread is not None
    await store.threads.update(SPACE, thread, ThreadPatch(status=ThreadStatus.DELETED))
    clock.tick(MINUTE)
    await fire_due(store)
    assert (await store.schedules.get(SPACE, schedule.id)).thread_id not in (None, thread)


async def test_a_notification_is_sent_when_it_is_due(store: Store, clock: HeldClock) -> None:
    schedule = await store.schedules.create(SPACE, NewSchedule(plan=plan(action=NOTE), name="tea time"))
    clock.tick(MINUTE)
    (firing,) = await fire_due(store)
    await store.notifications.dispatch()
    (news,) = await store.notifications.latest(SPACE)
    assert (news.kind, firing.run_id) == ("schedule.fired", None)
    assert news.data == {"schedule_id": schedule.id, "name": "tea time", "message": "tea"}


async def test_a_paused_schedule_is_not_due_and_resumes_from_now(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    paused = await store.schedules.set_paused(SPACE, schedule.id, paused=True)
    assert (paused.state, paused.next_due_at) == (ScheduleState.PAUSED, None)
    clock.tick(HOUR)
    assert await fire_due(store) == []
    resumed = await store.schedules.set_paused(SPACE, schedule.id, paused=False)
    assert resumed.next_due_at == after(clock, 0)[0]
    clock.tick(MINUTE)
    assert len(await fire_due(store)) == 1
    assert len(await outcomes(store, schedule.id)) == 1


async def test_a_pause_beats_a_claim_that_was_made_before(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    clock.tick(MINUTE)
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    await store.schedules.set_paused(SPACE, schedule.id, paused=True)
    with pytest.raises(LeaseLost):
        await store.schedules.fire(claim, build=build)
    assert await outcomes(store, schedule.id) == []


async def test_jitter_delays_a_due_time_by_the_same_amount_for_everybody(store: Store, clock: HeldClock) -> None:
    schedule = await make(store, jitter_seconds=3600, cron="0 * * * *")
    due = schedule.next_due_at
    next_due = await store.timers.next_due()
    assert due is not None and next_due is not None and due < next_due
    clock.tick(3 * HOUR)
    assert await outcomes(store, schedule.id) == []
    await fire_due(store)
    assert (await outcomes(store, schedule.id))[0][0] == due


async def test_a_trigger_fires_now_and_keeps_the_next_due_time(store: Store, clock: HeldClock) -> None:
    schedule = await make(store)
    manual = await store.schedules.trigger(SPACE, schedule.id, cause=FiringCause.MANUAL, build=build)
    assert (manual.cause, manual.outcome, manual.due_at) == ("manual", "fired", instant(clock.now()))
    assert await store.schedules.get(SPACE, schedule.id) != schedule  # it has a thread now
    assert (await store.schedules.get(SPACE, schedule.id)).next_due_at == schedule.next_due_at


async def test_the_same_delivery_of_a_hook_fires_once(stores: list[Store]) -> None:
    hashed = b"h" * 32
    new = NewSchedule(plan=plan(cron=None, action=RunAction(new_thread=True), overlap=Overlap.CANCEL), hook_hash=hashed)
    schedule = await stores[0].schedules.create(SPACE, new)
    assert schedule.has_hook and await stores[0].schedules.find_by_hook(hashed) == schedule
    fired = await asyncio.gather(
        *(
            store.schedules.trigger(SPACE, schedule.id, cause=FiringCause.HOOK, build=build, hook_id="msg_1")
            for store in stores
            for _ in range(3)
        )
    )
    assert len({firing.id for firing in fired}) == 1
    other = await stores[0].schedules.trigger(SPACE, schedule.id, cause=FiringCause.HOOK, build=build, hook_id="msg_2")
    assert other.run_id != fired[0].run_id
    with pytest.raises(NotFound):
        await stores[0].schedules.find_by_hook(b"x" * 32)


async def test_old_firings_are_dropped_but_the_newest_checks_and_those_of_active_runs(
    store: Store, clock: HeldClock
) -> None:
    far = instant(Millis(clock.now() + 366 * 24 * 3_600_000))
    schedule = await make(store, cron=None, at=far, overlap=Overlap.QUEUE)

    async def fire(cause: FiringCause = FiringCause.MANUAL) -> Firing:
        firing = await store.schedules.trigger(SPACE, schedule.id, cause=cause, build=build)
        assert firing.run_id is not None
        if cause is not FiringCause.HOOK:
            await store.runs.end(SPACE, firing.run_id)
        return firing

    async def kept() -> list[str]:
        return [firing.id for firing in (await store.schedules.firings(SPACE, schedule.id, limit=200)).items]

    old = [await fire(cause) for cause in (FiringCause.HOOK, FiringCause.CHECK, FiringCause.MANUAL)]
    clock.tick(KEEP_FIRINGS)
    newer = [await fire() for _ in range(KEEP_NEWEST_FIRINGS)]
    assert len(await kept()) == len(old) + len(newer)  # none is older than that
    clock.tick(MINUTE)
    last = await fire()
    assert await kept() == [each.id for each in (last, *reversed(newer), *reversed(old[:2]))]
    assert old[0].run_id is not None
    await store.runs.end(SPACE, old[0].run_id)
    latest = await fire()
    assert await kept() == [each.id for each in (latest, last, *reversed(newer), old[1])]
    clock.tick(KEEP_FIRINGS + MINUTE)
    await fire()
    assert len(await kept()) == KEEP_NEWEST_FIRINGS + 1


async def test_a_deleted_schedule_leaves_its_runs(store: Store, clock: HeldClock, where: str | Path) -> None:
    schedule = await make(store)
    clock.tick(MINUTE)
    (firing,) = await fire_due(store)
    await store.schedules.delete(SPACE, schedule.id)
    assert firing.run_id is not None
    assert (await store.runs.get(SPACE, firing.run_id)).status is RunStatus.QUEUED
    rows = await rows_of(where)
    assert [rows[table] for table in ("schedules", "firings", "timers")] == [[], [], []]
    clock.tick(HOUR)
    assert await fire_due(store) == []


async def test_a_space_takes_its_schedules_with_it(store: Store, where: str | Path) -> None:
    await store.schedules.create(OTHER, NewSchedule(plan=plan()))
    await store.schedules.set_daemon(OTHER, DaemonState(agent="bot", stopped=True))
    await store.spaces.delete(OTHER)
    rows = await rows_of(where)
    assert [rows[table] for table in ("schedules", "timers", "daemons")] == [[], [], []]


WRONG = [
    (plan(at=Instant("2030-01-01T00:00:00Z")), "either `at` or `cron`"),
    (plan(cron="x"), "not a cron expression"),
    (plan(cron="0 0 30 2 *"), "not a cron expression"),
    (plan(timezone="Moon"), "not a time zone"),
    (plan(cron=None, at=Instant("2020-01-01T00:00:00Z")), "in the past: 2020-01-01T00:00:00.000Z"),
    (plan(cron=None, at=Instant("noon")), "is not a time"),
    (plan(ends_at=Instant("2020-01-01T00:00:00Z")), "`ends_at` is in the past"),
    (plan(cron="0 0 29 2 *", ends_at=Instant("2027-01-01T00:00:00Z")), "no time is due before `ends_at`"),
    (plan(action=RunAction(new_thread=True), overlap=Overlap.QUEUE), "needs one thread"),
    (plan(misfire_window_seconds=0), "is `misfire: skip`"),
    (plan(action=NotifyAction(message="a\0b")), "message"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
async def test_a_wrong_plan_is_refused_and_changes_nothing(
    store: Store, where: str | Path, wrong: SchedulePlan, message: str
) -> None:
    schedule = await make(store)
    before = await rows_of(where)
    with pytest.raises(Invalid, match=message):
        await store.schedules.create(SPACE, NewSchedule(plan=wrong))
    with pytest.raises(Invalid, match=message):
        await store.schedules.update(SPACE, schedule.id, SchedulePatch(plan=wrong))
    assert await rows_of(where) == before


async def test_an_id_is_used_once(store: Store) -> None:
    new = NewSchedule(plan=plan(), id=ScheduleId("mine"))
    await store.schedules.create(SPACE, new)
    with pytest.raises(IdTaken):
        await store.schedules.create(SPACE, new)
    await store.schedules.create(OTHER, new)


async def test_schedules_are_listed_by_kind_and_state_newest_first(store: Store) -> None:
    made = [(await make(store)).id for _ in range(3)]
    await store.schedules.set_paused(SPACE, made[1], paused=True)
    page = await store.schedules.page(SPACE, limit=2)
    rest = await store.schedules.page(SPACE, limit=2, cursor=page.next_cursor)
    assert [each.id for each in (*page.items, *rest.items)] == made[::-1]
    assert [each.id for each in (await store.schedules.page(SPACE, state=ScheduleState.PAUSED)).items] == [made[1]]
    assert (await store.schedules.page(SPACE, kind=ScheduleKind.DAEMON)).items == []


def heartbeat(name: str, **fields: Any) -> NewSchedule:
    return NewSchedule(kind=ScheduleKind.DAEMON, name=name, plan=plan(**fields))


async def test_daemons_follow_what_is_given(store: Store, clock: HeldClock) -> None:
    async def current() -> dict[str | None, Schedule]:
        return {each.name: each for each in (await store.schedules.page(SPACE, kind=ScheduleKind.DAEMON)).items}

    assert await store.schedules.sync_daemons(SPACE, [heartbeat("bot/a"), heartbeat("bot/b")])
    before = await current()
    clock.tick(timedelta(seconds=30))
    assert not await store.schedules.sync_daemons(SPACE, [heartbeat("bot/a"), heartbeat("bot/b")])
    assert await current() == before
    assert await store.schedules.sync_daemons(SPACE, [heartbeat("bot/a", cron="0 * * * *"), heartbeat("bot/c")])
    after_change = await current()
    assert set(after_change) == {"bot/a", "bot/c"}
    assert after_change["bot/a"].id == before["bot/a"].id and after_change["bot/a"].cron == "0 * * * *"


async def test_a_stopped_daemon_stays_stopped(store: Store, clock: HeldClock) -> None:
    await store.schedules.sync_daemons(SPACE, [heartbeat("bot/a"), heartbeat("other/a")])
    await store.schedules.set_daemon(SPACE, DaemonState(agent="bot", stopped=True, changed_by="ann"))
    await store.schedules.sync_daemons(SPACE, [heartbeat("bot/a"), heartbeat("bot/new"), heartbeat("other/a")])
    found = await store.schedules.page(SPACE, kind=ScheduleKind.DAEMON)
    states = {each.name: each.state for each in found.items}
    paused, active = ScheduleState.PAUSED, ScheduleState.ACTIVE
    assert states == {"bot/a": paused, "bot/new": paused, "other/a": active}
    assert await store.schedules.daemons(SPACE) == [DaemonState(agent="bot", stopped=True, changed_by="ann")]
    await store.schedules.set_daemon(SPACE, DaemonState(agent="bot", stopped=False))
    clock.tick(MINUTE)
    assert len(await fire_due(store)) == 3
