"""Runs in SQL, for callers other than the worker: create, read, list, count, end, delete."""

import os
from collections.abc import Sequence
from typing import Final

from holdfast.domain.branch import BranchTotals, ForkPoint
from holdfast.domain.errors import Invalid, RunActive
from holdfast.domain.idempotency import check_idempotency_key
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import CreatedRun, NewRun, check_new_run, title_of
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.run import Run, RunError, RunStatus, check_move
from holdfast.domain.timer import TimerClaim
from holdfast.metrics.meters import Meters
from holdfast.ports.queue import ActiveRunCounts
from holdfast.ports.runs import RunFilter
from holdfast.store.branches import branch_point, branch_totals
from holdfast.store.creation import (
    CREATE_RUN_BATCH,
    CreateRunRequest,
    can_be_batched,
    create_run,
    run_of_idempotency_key,
)
from holdfast.store.messages import to_messages
from holdfast.store.recall_items import lock_indexes, remove_run
from holdfast.store.run_end import RunEnd, end_run_trees, lock_run_trees
from holdfast.store.run_rows import list_runs, run_by_key, run_key_of, run_row, to_run, to_usage
from holdfast.store.spaces import space_key
from holdfast.store.timers import settle_timer
from holdfast.store.transaction import Database, RetryTransaction, Row, SqlPort, Transaction, reads, writes


class SqlRuns(SqlPort):
    """Implements `Runs`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        super().__init__(database)
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
        """Create a run with its input and its first event."""
        check_new_run(new)
        request = CreateRunRequest(space, new, body, awaited, thread_agent)
        if fires is None and can_be_batched(new):
            return await self._database.submit_to_batch(CREATE_RUN_BATCH, request)

        async def create(tx: Transaction) -> CreatedRun:
            if fires is not None:
                await settle_timer(tx, fires)
            return await create_run(tx, request)

        return await self._database.write(create, enqueues=True)

    @reads
    async def find_by_idempotency_key(self, tx: Transaction, space: SpaceId, key: str, *, body: str) -> Run | None:
        """Return the run of an idempotency key."""
        check_idempotency_key(key)
        return await run_of_idempotency_key(tx, await space_key(tx, space), key, digest=body)

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return the run."""

        async def find(tx: Transaction) -> Run:
            return to_run(await run_row(tx, space, run))

        return await self._database.read(find, quick=True)

    @reads
    async def get_many(self, tx: Transaction, names: Sequence[tuple[SpaceId, RunId]]) -> list[Run]:
        """Return the named runs that exist."""
        return [to_run(row) for row in await tx.many("runs_named", list(dict.fromkeys(names)))]

    @reads
    async def newest_of_threads(self, tx: Transaction, names: Sequence[tuple[SpaceId, ThreadId]]) -> list[Run]:
        """Return the newest run of each named thread that has one."""
        return [to_run(row) for row in await tx.many("newest_runs", list(dict.fromkeys(names)))]

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        where: RunFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Run]:
        """Return runs, newest first."""
        check_page_size(limit)
        return await list_runs(tx, space, where or RunFilter(), limit=limit, cursor=cursor)

    @reads
    async def tree_usage(self, tx: Transaction, space: SpaceId, runs: Sequence[RunId]) -> dict[RunId, Usage]:
        """Return the usage of runs with their descendants."""
        await space_key(tx, space)
        rows = await tx.many("tree_usage", [(space, run) for run in dict.fromkeys(runs)])
        return {row["root_id"]: to_usage(row) for row in rows}

    @reads
    async def branch_point(self, tx: Transaction, space: SpaceId, a: RunId, b: RunId) -> ForkPoint | None:
        """Return the last message that two chains have in common."""
        found = await branch_point(tx, *await _two_of_thread(tx, space, a, b))
        return None if found is None else found[1]

    @reads
    async def branch_totals(self, tx: Transaction, space: SpaceId, run: RunId, *, other: RunId) -> BranchTotals:
        """Return what a chain did after its last message in common with another one."""
        return await branch_totals(tx, *await _two_of_thread(tx, space, run, other))

    @reads
    async def count_active_children(self, tx: Transaction, space: SpaceId, run: RunId) -> int:
        """Return the number of child runs that have not ended."""
        row = await tx.one("children_at_work", run_key=await run_key_of(tx, space, run))
        assert row is not None
        return int(row["at_work"])

    @reads
    async def children(self, tx: Transaction, space: SpaceId, run: RunId) -> list[Run]:
        """Return the child runs of a run."""
        key = await run_key_of(tx, space, run)
        return [to_run(row) for row in await tx.all("children", run_key=key)]

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
        """End a run and all its active descendants."""
        if to not in (RunStatus.CANCELLED, RunStatus.FAILED):
            raise Invalid("a run is ended from outside as `cancelled` or `failed`", field="to")

        async def end(tx: Transaction) -> list[Run]:
            row = await run_row(tx, space, run)
            if fires is not None:
                await lock_run_trees(tx, [row["run_key"]])  # runs before timers, in the lock order of a commit
                await settle_timer(tx, fires)
            outcome = RunEnd(to=to, reason=reason, error=error, cancelled_by=by)
            ended = await end_run_trees(tx, [row["run_key"]], outcome)
            if not ended or ended[0].id != run:
                check_move(run, RunStatus((await run_row(tx, space, run))["status"]), to)
            return ended

        ended = await self._database.write(end)
        self._meters.ended.of(to).add(len(ended))
        return ended

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, run: RunId) -> None:
        """Delete an ended run with its descendants."""
        key = await run_key_of(tx, space, run)
        await lock_indexes(tx, await space_key(tx, space))
        tree = await tx.all("tree", run_key=key)
        await tx.lock(threads={row["thread_key"] for row in tree}, runs=[row["run_key"] for row in tree])
        await run_row(tx, space, run)
        locked = await tx.all("tree", run_key=key)
        if len(locked) != len(tree):
            raise RetryTransaction
        for row in locked:
            if not RunStatus(row["status"]).terminal or row["lease_owner"] is not None:
                raise RunActive(f"run `{run}` or one of its descendants is active: end it first", run_id=run)
        for row in reversed(locked):
            run_key = row["run_key"]
            await _forget_title(tx, run_key, row["thread_key"])
            await remove_run(tx, run_key)
            await tx.run("drop_outline", thread_key=row["thread_key"])
            for statement in _DELETE_CONTENT_STATEMENTS:
                await tx.run(statement, run_key=run_key)
            if await tx.all("runs_on_base", run_key=run_key):
                await tx.run("erase_run", run_key=run_key)
                await tx.run("erase_head", run_key=run_key)
            else:
                await _delete_row_and_tombstones(tx, run_key)


async def _two_of_thread(tx: Transaction, space: SpaceId, a: RunId, b: RunId) -> tuple[Row, Row]:
    rows = await run_row(tx, space, a), await run_row(tx, space, b)
    if rows[0]["thread_key"] != rows[1]["thread_key"]:
        raise Invalid(f"runs `{a}` and `{b}` are of two threads: name two branches of one", field="b")
    return rows


async def _forget_title(tx: Transaction, run_key: int, thread_key: int) -> None:
    """Remove the title of a thread if it was derived from a run that is deleted."""
    run = await run_by_key(tx, run_key)
    messages = to_messages(await tx.all("messages_of_run", run_key=run_key))
    if (title := title_of(messages, input=run.input)) is not None:
        await tx.run("forget_title", thread_key=thread_key, title=title)


_DELETE_CONTENT_STATEMENTS: Final = (
    "drop_values_in_tombstones",
    "keep_inherited_values",
    "drop_messages",
    "drop_events",
    "drop_steps",
    "drop_own_values",
    "drop_uses",
    "drop_inbox",
    "drop_interrupts",
    "drop_artifacts",
    "drop_timers",
    "drop_budget",
    "drop_contexts",
    "drop_subscriptions",
    "drop_worker_lease",
    "forget_idempotency_key",
)


async def _delete_row_and_tombstones(tx: Transaction, run_key: int) -> None:
    """Delete a run, the unused tombstones it was based on, and a thread created for a run if it is empty now."""
    key: int | None = run_key
    while key is not None:
        row = await tx.one("run_identity", run_key=key)
        assert row is not None
        for statement in ("drop_values", "drop_head", "drop_run"):
            await tx.run(statement, run_key=key)
        base_key = row["base_key"]
        unused = None if base_key is None else await tx.one("bare_tombstone", run_key=base_key)
        key = None if unused is None else base_key
        if row["made_for_run"] is not None and await tx.one("any_run_of_thread", thread_key=row["thread_key"]) is None:
            await tx.run("drop_task_numbers", thread_key=row["thread_key"])
            await tx.run("drop_usage_of_thread", thread_key=row["thread_key"])
            await tx.run("drop_thread", thread_key=row["thread_key"])


class SqlRunCounts(SqlPort):
    """Implements `RunCounts`."""

    @reads
    async def active(self, tx: Transaction) -> ActiveRunCounts:
        """Count the runs that have not ended."""
        row = await tx.one("live_runs", now=tx.now)
        assert row is not None
        oldest = row["oldest"]
        return ActiveRunCounts(
            pending=row["pending"],
            ready=row["ready"] + row["due"],
            delayed=row["delayed"],
            running=row["running"],
            waiting=row["waiting"],
            longest_wait_seconds=0.0 if oldest is None else max(tx.now - oldest, 0) / 1000,
        )

    @reads
    async def queued(self, tx: Transaction, space: SpaceId) -> int:
        """Count the runs of a space that wait for a worker or their base."""
        row = await tx.one("queued_runs_of_space", space_key=await space_key(tx, space))
        assert row is not None
        return int(row["queued"])


WRITE_CHECK_BYTES: Final = 16 * 1024
"""Bytes of one check: more than the free rest of a page that a full disk may still have."""


class SqlStoreHealth(SqlPort):
    """Implements `StoreHealth`."""

    @writes
    async def check_write(self, tx: Transaction) -> None:
        """Rewrite a row with random bytes, which no database compresses away."""
        await tx.run("check_write", data=os.urandom(WRITE_CHECK_BYTES), now=tx.now)
