"""Runs in SQL, as callers outside the worker use them: create, read, list, count, end and delete."""

from collections.abc import Sequence
from typing import Final

from holdfast.domain.errors import Invalid, RunActive
from holdfast.domain.idempotency import check_idempotency_key
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import CreatedRun, NewRun, check_new_run
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.run import Run, RunError, RunStatus, check_move
from holdfast.domain.timer import TimerClaim
from holdfast.metrics.meters import Meters
from holdfast.ports.queue import LiveRunCounts
from holdfast.ports.runs import RunFilter
from holdfast.store.creation import (
    CREATE_RUN_BATCH,
    CreateRunRequest,
    can_be_batched,
    create_run,
    run_of_idempotency_key,
)
from holdfast.store.endings import RunEnd, end_run_trees, lock_run_trees
from holdfast.store.run_rows import list_runs, run_key_of, run_row, to_run
from holdfast.store.spaces import space_key
from holdfast.store.timers import settle_timer
from holdfast.store.transaction import Database, RetryTransaction, Row, Transaction


class SqlRuns:
    """`Runs`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        self._database = database
        self._meters = meters

    async def create(
        self,
        space: SpaceId,
        new: NewRun,
        *,
        body: str | None = None,
        fires: TimerClaim | None = None,
        awaited: bool = False,
        thread_agent: str | None = None,
    ) -> CreatedRun:
        """Make a run with its input and its first event."""
        check_new_run(new)

        request = CreateRunRequest(space, new, body, awaited, thread_agent)
        if fires is None and can_be_batched(new):
            return await self._database.submit_to_batch(CREATE_RUN_BATCH, request)

        async def make(tx: Transaction) -> CreatedRun:
            if fires is not None:
                await settle_timer(tx, fires)
            return await create_run(tx, request)

        return await self._database.write(make, enqueues=True)

    async def find_by_idempotency_key(self, space: SpaceId, key: str, *, body: str) -> Run | None:
        """Return the run of an idempotency key."""
        check_idempotency_key(key)

        async def find(tx: Transaction) -> Run | None:
            return await run_of_idempotency_key(tx, await space_key(tx, space), key, digest=body)

        return await self._database.read(find)

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return the run."""

        async def find(tx: Transaction) -> Run:
            return to_run(await run_row(tx, space, run))

        return await self._database.read(find, quick=True)

    async def get_many(self, names: Sequence[tuple[SpaceId, RunId]]) -> list[Run]:
        """Return those runs that are there."""

        async def find(tx: Transaction) -> list[Run]:
            return [to_run(row) for row in await tx.many("runs_named", list(dict.fromkeys(names)))]

        return await self._database.read(find)

    async def page(
        self,
        space: SpaceId,
        *,
        where: RunFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Run]:
        """Return runs, the newest first."""
        check_page_size(limit)
        return await self._database.read(
            lambda tx: list_runs(tx, space, where or RunFilter(), limit=limit, cursor=cursor)
        )

    async def count_active_children(self, space: SpaceId, run: RunId) -> int:
        """Return how many runs that a run spawned have not ended."""

        async def count(tx: Transaction) -> int:
            row = await tx.one("children_at_work", run_key=await run_key_of(tx, space, run))
            assert row is not None
            at_work: int = row["at_work"]
            return at_work

        return await self._database.read(count)

    async def children(self, space: SpaceId, run: RunId) -> list[Run]:
        """Return the runs that a run spawned."""

        async def find(tx: Transaction) -> list[Run]:
            key = await run_key_of(tx, space, run)
            return [to_run(row) for row in await tx.all("children", run_key=key)]

        return await self._database.read(find)

    async def end(
        self,
        space: SpaceId,
        run: RunId,
        *,
        to: RunStatus = RunStatus.CANCELLED,
        reason: str | None = None,
        error: RunError | None = None,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> list[Run]:
        """End a run and every live run below it."""
        if to not in (RunStatus.CANCELLED, RunStatus.FAILED):
            raise Invalid("a run is ended from outside as `cancelled` or `failed`", field="to")
        ending = RunEnd(to=to, reason=reason, error=error, by=by)

        async def finish(tx: Transaction) -> list[Run]:
            row = await run_row(tx, space, run)
            if fires is not None:
                await lock_run_trees(tx, [row["run_key"]])  # before the timer, as a commit that ends the run locks them
                await settle_timer(tx, fires)
            ended = await end_run_trees(tx, [row["run_key"]], ending)
            if not ended or ended[0].id != run:
                now = await run_row(tx, space, run)
                check_move(run, RunStatus(now["status"]), to)
            return ended

        ended = await self._database.write(finish)
        self._meters.ended.of(to).add(len(ended))
        return ended

    async def delete(self, space: SpaceId, run: RunId) -> None:
        """Remove an ended run."""
        await self._database.write(lambda tx: delete_run(tx, space, run))


_DELETE_CONTENT_STATEMENTS: Final = (
    "drop_values_in_tombstones",
    "keep_inherited_values",
    "drop_messages",
    "drop_events",
    "drop_steps",
    "drop_own_values",
    "drop_inbox",
    "drop_interrupts",
    "drop_artifacts",
    "drop_timers",
    "drop_budget",
    "drop_contexts",
    "drop_subscriptions",
    "forget_idempotency_key",
)


async def delete_run(tx: Transaction, space: SpaceId, run: RunId) -> None:
    """Remove an ended run with the runs below it."""
    key = await run_key_of(tx, space, run)
    tree = await tx.all("tree", run_key=key)
    await tx.lock(threads={row["thread_key"] for row in tree}, runs=[row["run_key"] for row in tree])
    await run_row(tx, space, run)
    locked = await tx.all("tree", run_key=key)
    if len(locked) != len(tree):
        raise RetryTransaction
    for row in locked:
        if not RunStatus(row["status"]).terminal or row["lease_owner"] is not None:
            raise RunActive(f"run `{run}` or one below it is not finished: end it first", run_id=run)
    for row in reversed(locked):
        await _delete_content(tx, row)


async def _delete_content(tx: Transaction, row: Row) -> None:
    """Erase a run's content, and the run too if no other stands on it."""
    run_key = row["run_key"]
    for statement in _DELETE_CONTENT_STATEMENTS:
        await tx.run(statement, run_key=run_key)
    if await tx.all("runs_on_base", run_key=run_key):
        await tx.run("erase_run", run_key=run_key)
        await tx.run("erase_head", run_key=run_key)
    else:
        await _delete_row_and_tombstones(tx, run_key)


async def _delete_row_and_tombstones(tx: Transaction, run_key: int) -> None:
    """Remove a run, the bare tombstones it stood on, and the thread that was made for a run if it is empty now."""
    at: int | None = run_key
    while at is not None:
        row = await tx.one("run_identity", run_key=at)
        assert row is not None
        await tx.run("drop_values", run_key=at)
        await tx.run("drop_head", run_key=at)
        await tx.run("drop_run", run_key=at)
        above = row["base_key"]
        bare = None if above is None else await tx.one("bare_tombstone", run_key=above)
        at = None if bare is None else above
        if row["made_for_run"] is not None and await tx.one("any_run_of_thread", thread_key=row["thread_key"]) is None:
            await tx.run("drop_task_numbers", thread_key=row["thread_key"])
            await tx.run("drop_thread", thread_key=row["thread_key"])


class SqlRunCounts:
    """`Census`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self) -> LiveRunCounts:
        """Count the runs that have not ended."""
        return await self._database.read(_count_live_runs)

    async def queued(self, space: SpaceId) -> int:
        """Count the runs of a space that wait."""

        async def count(tx: Transaction) -> int:
            row = await tx.one("queued_runs_of_space", space_key=await space_key(tx, space))
            assert row is not None
            queued: int = row["queued"]
            return queued

        return await self._database.read(count)


async def _count_live_runs(tx: Transaction) -> LiveRunCounts:
    row = await tx.one("live_runs", now=tx.now)
    assert row is not None
    oldest = row["oldest"]
    return LiveRunCounts(
        pending=row["pending"],
        ready=row["ready"] + row["due"],
        delayed=row["delayed"],
        running=row["running"],
        waiting=row["waiting"],
        longest_wait_seconds=0.0 if oldest is None else max(tx.now - oldest, 0) / 1000,
    )
