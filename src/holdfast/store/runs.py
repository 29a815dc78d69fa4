"""Runs in SQL, from outside."""

from collections.abc import Sequence

from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import check_key
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import Created, NewRun, check_new_run
from holdfast.domain.page import DEFAULT_LIMIT, Page, check_limit
from holdfast.domain.run import Run, RunError, RunStatus, check_move
from holdfast.domain.timer import TimerClaim
from holdfast.metrics.meters import Meters
from holdfast.ports.runs import RunFilter
from holdfast.store.creation import CREATIONS, Request, create_run, is_plain, run_under_key
from holdfast.store.deletion import delete_run
from holdfast.store.endings import Ending, end_trees, lock_trees
from holdfast.store.run_rows import list_runs, run_key_of, run_row, to_run
from holdfast.store.spaces import space_key
from holdfast.store.timers import settle_claim
from holdfast.store.transaction import Database, Transaction


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
    ) -> Created:
        """Make a run with its input and its first event."""
        check_new_run(new)

        request = Request(space, new, body, awaited, thread_agent)
        if fires is None and is_plain(new):
            return await self._database.together(CREATIONS, request)

        async def make(tx: Transaction) -> Created:
            if fires is not None:
                await settle_claim(tx, fires)
            return await create_run(tx, request)

        return await self._database.write(make, queues=True)

    async def made_under(self, space: SpaceId, key: str, *, body: str) -> Run | None:
        """Return the run of an idempotency key."""
        check_key(key)

        async def find(tx: Transaction) -> Run | None:
            return await run_under_key(tx, await space_key(tx, space), key, digest=body)

        return await self._database.read(find)

    async def get(self, space: SpaceId, run: RunId) -> Run:
        """Return the run."""

        async def find(tx: Transaction) -> Run:
            return to_run(await run_row(tx, space, run))

        return await self._database.read(find, quick=True)

    async def named(self, names: Sequence[tuple[SpaceId, RunId]]) -> list[Run]:
        """Return those runs that are there."""

        async def find(tx: Transaction) -> list[Run]:
            return [to_run(row) for row in await tx.many("runs_named", list(dict.fromkeys(names)))]

        return await self._database.read(find)

    async def page(
        self,
        space: SpaceId,
        *,
        where: RunFilter | None = None,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[Run]:
        """Return runs, the newest first."""
        check_limit(limit)
        return await self._database.read(
            lambda tx: list_runs(tx, space, where or RunFilter(), limit=limit, cursor=cursor)
        )

    async def at_work(self, space: SpaceId, run: RunId) -> int:
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
        ending = Ending(to=to, reason=reason, error=error, by=by)

        async def finish(tx: Transaction) -> list[Run]:
            row = await run_row(tx, space, run)
            if fires is not None:
                await lock_trees(tx, [row["run_key"]])  # before the timer, as a commit that ends the run locks them
                await settle_claim(tx, fires)
            ended = await end_trees(tx, [row["run_key"]], ending)
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
