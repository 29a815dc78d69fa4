"""Runs and their plans in SQL, for callers other than the worker: create, read, list, count, end, delete, edit."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.errors import Conflict, Invalid, RunActive
from holdfast.domain.idempotency import check_idempotency_key
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.inbox import InboxKind, decode_edit
from holdfast.domain.new_run import CreatedRun, NewRun, check_new_run
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.plan import Plan, PlanItem, find
from holdfast.domain.plan_edit import AddPlanItem, PlanEdit, apply_edit, check_plan_edit
from holdfast.domain.run import Run, RunError, RunStatus, check_move
from holdfast.domain.thread import ThreadStatus, check_accepts_runs
from holdfast.domain.timer import TimerClaim
from holdfast.metrics.meters import Meters
from holdfast.ports.queue import ActiveRunCounts
from holdfast.ports.runs import RunFilter
from holdfast.store.creation import (
    CREATE_RUN_BATCH,
    CreateRunRequest,
    can_be_batched,
    create_run,
    run_of_idempotency_key,
)
from holdfast.store.encoding import dump_json
from holdfast.store.inbox import put_inbox_item, to_inbox_item
from holdfast.store.run_end import PLAN_VALUE, RunEnd, end_run_trees, lock_run_trees, plan_with_edits, save_values
from holdfast.store.run_rows import list_runs, run_key_of, run_row, to_run
from holdfast.store.spaces import space_key
from holdfast.store.threads import thread_row
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
            for statement in _DELETE_CONTENT_STATEMENTS:
                await tx.run(statement, run_key=run_key)
            if await tx.all("runs_on_base", run_key=run_key):
                await tx.run("erase_run", run_key=run_key)
                await tx.run("erase_head", run_key=run_key)
            else:
                await _delete_row_and_tombstones(tx, run_key)


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


class SqlPlans(SqlPort):
    """Implements `Plans`."""

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> Plan:
        """Return the plan of a run."""
        return await _current_plan(tx, await run_row(tx, space, run))

    @writes
    async def edit(
        self, tx: Transaction, space: SpaceId, thread: ThreadId, edit: PlanEdit, *, by: str | None = None
    ) -> PlanItem:
        """Edit the plan of a thread's newest run."""
        check_plan_edit(edit)
        key = (await thread_row(tx, space, thread))["thread_key"]
        await tx.lock(threads=[key])  # so that no run is created on it meanwhile
        check_accepts_runs(thread, ThreadStatus((await thread_row(tx, space, thread))["status"]))
        run = await _lock_newest_run(tx, space, thread)
        if isinstance(edit, AddPlanItem):
            row = await tx.one("take_task_number", thread_key=key, step=tx.new_id("edit"))
            assert row is not None
            edit = replace(edit, task_id=row["number"])
        plan = apply_edit(await _current_plan(tx, run), edit)
        data = dump_json({PLAN_VALUE: msgspec.to_builtins(edit)})
        if await put_inbox_item(tx, run["run_key"], kind=InboxKind.EDIT, data=data, created_by=by) is not None:
            tx.hints.add(run=(space, run["id"]), queue=True)
        else:  # the run has ended and reads no inbox: change its plan directly
            await save_values(tx, run["run_key"], {}, plan)
        return find(plan, edit.task_id)


async def _lock_newest_run(tx: Transaction, space: SpaceId, thread: ThreadId) -> Row:
    runs = await list_runs(tx, space, RunFilter(thread_id=thread), limit=1, cursor=None)
    if not runs.items:
        raise Conflict(f"thread `{thread}` has no run yet, and so no plan: start a run first")
    newest = runs.items[0].id
    await tx.lock(runs=[(await run_row(tx, space, newest))["run_key"]])
    return await run_row(tx, space, newest)


async def _current_plan(tx: Transaction, run: Row) -> Plan:
    """Return the plan of a run, including the unread edits of an active run."""
    if RunStatus(run["status"]).terminal:
        return await plan_with_edits(tx, run, [])
    items = map(to_inbox_item, await tx.all("inbox_of_run", run_key=run["run_key"]))
    edits = filter(None, map(decode_edit, items))
    return await plan_with_edits(tx, run, [edit.plan for edit in edits if edit.plan is not None])
