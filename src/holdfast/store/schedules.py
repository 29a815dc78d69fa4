"""Schedules in SQL: firing, its effect and the next due time are one transaction.

A schedule has a timer with its own id. Locks are taken in the order schedule, timer, threads, runs.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from holdfast.domain.errors import Conflict, IdTaken, NotFound
from holdfast.domain.ids import ScheduleId, SpaceId
from holdfast.domain.instant import Millis, instant, maybe_instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.schedule import (
    Firing,
    FiringCause,
    FiringOutcome,
    NewSchedule,
    Schedule,
    ScheduleKind,
    SchedulePatch,
    SchedulePlan,
    ScheduleState,
    check_new_schedule,
    check_schedule_name,
    check_schedule_plan,
    first_due,
    jitter_ms,
)
from holdfast.domain.timer import TimerClaim
from holdfast.ports.schedules import BuildRun, DaemonState
from holdfast.store.encoding import dump_json, parse_cursor, to_page
from holdfast.store.firings import fire_claimed, load_plan, perform, to_firing
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, store_time, writes


class SqlSchedules(SqlPort):
    """Implements `Schedules`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, new: NewSchedule) -> Schedule:
        """Create a schedule."""
        key = await lock_space_shared(tx, space)
        schedule_id = await add_schedule(tx, key, new)
        return to_schedule(await find_row(tx, "schedule", "schedule", space=space, id=schedule_id))

    @reads
    async def get(self, tx: Transaction, space: SpaceId, schedule: ScheduleId) -> Schedule:
        """Return the schedule."""
        return to_schedule(await find_row(tx, "schedule", "schedule", space=space, id=schedule))

    @reads
    async def find_by_hook(self, tx: Transaction, hook_hash: bytes) -> Schedule:
        """Return the schedule with this hook."""
        row = await tx.one("schedule_of_hook", hook_hash=hook_hash)
        if row is None:
            raise NotFound("there is no hook at this address")
        return to_schedule(row)

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        kind: ScheduleKind = ScheduleKind.SCHEDULE,
        state: ScheduleState | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        """Return schedules, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        key = await space_key(tx, space)
        rows = await tx.all(
            "list_schedules", space_key=key, kind=kind.value, state=state, before=before, limit=limit + 1
        )
        return to_page(rows, limit, value=to_schedule, cursor=lambda row: str(row["schedule_key"]))

    @writes
    async def update(self, tx: Transaction, space: SpaceId, schedule: ScheduleId, patch: SchedulePatch) -> Schedule:
        """Change the fields that `patch` sets."""
        row = await find_row(tx, "lock_schedule", "schedule", space=space, id=schedule)
        current = to_schedule(row)
        name = current.name if patch.name is UNSET else patch.name
        hook = row["hook_hash"] if patch.hook_hash is UNSET else patch.hook_hash
        await change_schedule(
            tx, row, name=name, plan=current.plan if patch.plan is UNSET else patch.plan, hook_hash=hook
        )
        return to_schedule(await find_row(tx, "schedule", "schedule", space=space, id=schedule))

    @writes
    async def set_paused(self, tx: Transaction, space: SpaceId, schedule: ScheduleId, *, paused: bool) -> Schedule:
        """Pause or resume a schedule."""
        row = await find_row(tx, "lock_schedule", "schedule", space=space, id=schedule)
        await set_paused(tx, row, paused=paused)
        return to_schedule(await find_row(tx, "schedule", "schedule", space=space, id=schedule))

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, schedule: ScheduleId) -> None:
        """Delete a schedule with its firings."""
        await drop_schedule(tx, await find_row(tx, "lock_schedule", "schedule", space=space, id=schedule))

    @reads
    async def firings(
        self,
        tx: Transaction,
        space: SpaceId,
        schedule: ScheduleId,
        *,
        outcome: FiringOutcome | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Firing]:
        """Return firings, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        key = (await find_row(tx, "schedule", "schedule", space=space, id=schedule))["schedule_key"]
        rows = await tx.all("list_firings", schedule_key=key, before=before, outcome=outcome, limit=limit + 1)
        return to_page(rows, limit, value=to_firing, cursor=lambda row: str(row["firing_key"]))

    async def fire(
        self, claim: TimerClaim, *, build: BuildRun | None = None, failure: str | None = None
    ) -> list[Firing]:
        """Fire a schedule whose timer is claimed."""
        return await self._database.write(
            lambda tx: fire_claimed(tx, claim, build=build, failure=failure), enqueues=True
        )

    async def trigger(
        self,
        space: SpaceId,
        schedule: ScheduleId,
        *,
        cause: FiringCause,
        build: BuildRun | None = None,
        failure: str | None = None,
        hook_id: str | None = None,
        reason: str | None = None,
    ) -> Firing:
        """Fire a schedule now."""

        async def trigger(tx: Transaction) -> Firing:
            row = await find_row(tx, "lock_schedule", "schedule", space=space, id=schedule)
            if hook_id is not None:
                earlier = await tx.one("firing_of_hook", schedule_key=row["schedule_key"], hook_id=hook_id)
                if earlier is not None:
                    return to_firing(earlier)
            firing = await perform(
                tx,
                row,
                due=await store_time(tx),
                cause=cause,
                build=build,
                failure=failure,
                hook_id=hook_id,
                reason=reason,
            )
            assert firing is not None  # only a due time can have a firing already
            return firing

        return await self._database.write(trigger, enqueues=True)

    @reads
    async def daemons(self, tx: Transaction, space: SpaceId) -> list[DaemonState]:
        """Return the daemons that a person stopped or started."""
        rows = await tx.all("daemons_of_space", space_key=await space_key(tx, space))
        return [
            DaemonState(agent=row["agent"], stopped=bool(row["stopped"]), changed_by=row["changed_by"]) for row in rows
        ]

    @writes
    async def set_daemon(self, tx: Transaction, space: SpaceId, daemon: DaemonState) -> None:
        """Record that a person stopped or started a daemon."""
        key = await lock_space_shared(tx, space)
        await tx.run(
            "put_daemon",
            space_key=key,
            agent=daemon.agent,
            stopped=int(daemon.stopped),
            changed_by=daemon.changed_by,
            now=tx.now,
        )
        for row in await tx.all("daemon_schedules", space_key=key):
            if daemon_of(row["name"]) == daemon.agent:
                locked = await find_row(tx, "lock_schedule", "schedule", space=space, id=row["id"])
                if locked["state"] != ScheduleState.ENDED:
                    await set_paused(tx, locked, paused=daemon.stopped)

    @writes
    async def sync_daemons(self, tx: Transaction, space: SpaceId, heartbeats: Sequence[NewSchedule]) -> bool:
        """Create, change and delete the schedules of daemons."""
        key = await lock_space_shared(tx, space)
        wanted = {new.name: new for new in heartbeats}
        stopped = {row["agent"] for row in await tx.all("daemons_of_space", space_key=key) if row["stopped"]}
        changed = False
        for found in await tx.all("daemon_schedules", space_key=key):
            new = wanted.pop(found["name"], None)
            if new is not None and load_plan(found) == new.plan:
                continue
            changed = True
            row = await find_row(tx, "lock_schedule", "schedule", space=space, id=found["id"])
            if new is None:
                await drop_schedule(tx, row)
            else:
                await change_schedule(tx, row, name=new.name, plan=new.plan, hook_hash=None)
        for new in wanted.values():
            try:
                schedule_id = await add_schedule(tx, key, new)
            except IdTaken:  # another process was faster
                continue
            changed = True
            if new.name is not None and daemon_of(new.name) in stopped:
                row = await find_row(tx, "lock_schedule", "schedule", space=space, id=schedule_id)
                await set_paused(tx, row, paused=True)
        return changed


def daemon_of(name: str) -> str:
    """Return the agent of a heartbeat, whose schedule is named `agent/heartbeat`."""
    return name.partition("/")[0]


async def add_schedule(
    tx: Transaction, space: int, new: NewSchedule, *, decided_at: Millis | None = None
) -> ScheduleId:
    """Insert a schedule and arm its timer. `decided_at` is when its times were found to be in the future, if before."""
    now = await store_time(tx) if decided_at is None else decided_at
    check_new_schedule(new, now=now)
    schedule_id = new.id or ScheduleId(tx.new_id("sch"))
    due = first_due(new.plan, now=now)
    row = await tx.one(
        "add_schedule",
        space_key=space,
        id=schedule_id,
        kind=new.kind.value,
        name=new.name,
        state=ScheduleState.ACTIVE.value,
        plan=dump_json(new.plan),
        due_at=due,
        hook_hash=new.hook_hash,
        created_by=new.created_by,
        now=tx.now,
    )
    if row is None:
        raise IdTaken(f"there is a schedule `{new.id or new.name}` already: choose another id", id=schedule_id)
    await _arm(tx, space, schedule_id, new.plan, due)
    return schedule_id


async def change_schedule(
    tx: Transaction, row: Row, *, name: str | None, plan: SchedulePlan, hook_hash: bytes | None
) -> None:
    """Change a locked schedule; another plan is due from now on, and revives a schedule that has ended."""
    now = await store_time(tx)
    state, due = ScheduleState(row["state"]), row["due_at"]
    check_schedule_name(name)
    if plan != load_plan(row):
        check_schedule_plan(plan, now=now)
        state = ScheduleState.PAUSED if state is ScheduleState.PAUSED else ScheduleState.ACTIVE
        due = first_due(plan, now=now) if state is ScheduleState.ACTIVE else None
        await _arm(tx, row["space_key"], row["id"], plan, due)
    await tx.run(
        "update_schedule",
        schedule_key=row["schedule_key"],
        name=name,
        plan=dump_json(plan),
        state=state.value,
        due_at=due,
        hook_hash=hook_hash,
        now=tx.now,
    )


async def set_paused(tx: Transaction, row: Row, *, paused: bool) -> None:
    """Pause or resume a locked schedule."""
    if row["state"] == ScheduleState.ENDED:
        raise Conflict(f"schedule `{row['id']}` has ended: change its plan to use it again", id=row["id"])
    if (row["state"] == ScheduleState.PAUSED) == paused:
        return
    plan = load_plan(row)
    due = None if paused else first_due(plan, now=await store_time(tx))
    state = ScheduleState.PAUSED if paused else ScheduleState.ACTIVE
    await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state.value, due_at=due)
    await _arm(tx, row["space_key"], row["id"], plan, due)


async def arm_schedule(tx: Transaction, row: Row, due: Millis | None) -> None:
    """Make a locked schedule due at another time, or at none."""
    state = ScheduleState.ACTIVE.value
    await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state, due_at=due)
    await _arm(tx, row["space_key"], row["id"], load_plan(row), due)


async def drop_schedule(tx: Transaction, row: Row) -> None:
    """Delete a locked schedule with its firings and its timer."""
    await tx.run("drop_timer", space_key=row["space_key"], id=row["id"])
    await tx.run("drop_firings", schedule_key=row["schedule_key"])
    await tx.run("drop_schedule", schedule_key=row["schedule_key"])


async def _arm(tx: Transaction, space: int, schedule: ScheduleId, plan: SchedulePlan, due: Millis | None) -> None:
    if due is None:
        await tx.run("disarm_timer", space_key=space, id=schedule)
        return
    look_at = due + jitter_ms(schedule, plan, due)
    await tx.run("arm_timer", space_key=space, id=schedule, due_at=look_at, now=tx.now)
    tx.hints.add(timers=True)


def to_schedule(row: Row) -> Schedule:
    """Return the schedule of a row."""
    return Schedule(
        id=row["id"],
        space_id=row["space_id"],
        kind=ScheduleKind(row["kind"]),
        name=row["name"],
        state=ScheduleState(row["state"]),
        **msgspec.structs.asdict(load_plan(row)),
        next_due_at=maybe_instant(row["due_at"]),
        thread_id=row["thread_id"],
        has_hook=row["hook_hash"] is not None,
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )
