"""The census in SQL."""

from holdfast.domain.ids import SpaceId
from holdfast.ports.census import LiveRuns
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Database, Transaction


class SqlCensus:
    """`Census`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def live(self) -> LiveRuns:
        """Count the runs that have not ended."""
        return await self._database.read(_count)

    async def queued(self, space: SpaceId) -> int:
        """Count the runs of a space that wait."""

        async def count(tx: Transaction) -> int:
            row = await tx.one("queued_runs_of_space", space_key=await space_key(tx, space))
            assert row is not None
            queued: int = row["queued"]
            return queued

        return await self._database.read(count)


async def _count(tx: Transaction) -> LiveRuns:
    row = await tx.one("live_runs", now=tx.now)
    assert row is not None
    oldest = row["oldest"]
    return LiveRuns(
        pending=row["pending"],
        ready=row["ready"] + row["due"],
        delayed=row["delayed"],
        running=row["running"],
        waiting=row["waiting"],
        longest_wait=0.0 if oldest is None else max(tx.now - oldest, 0) / 1000,
    )
