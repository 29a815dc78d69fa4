"""The event log in SQL."""

from collections.abc import Sequence
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant
from holdfast.domain.page import check_limit
from holdfast.domain.run import RunStatus
from holdfast.ports.event_log import Head, LoggedEvent
from holdfast.store.encoding import dump
from holdfast.store.run_rows import run_key_of
from holdfast.store.transaction import Database, Row, Transaction

FEW: Final = 4
"""Heads that are read at once."""


class SqlEventLog:
    """`EventLog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def after(
        self,
        space: SpaceId,
        run: RunId,
        *,
        seq: int = 0,
        limit: int = 1000,
        types: Sequence[str] | None = None,
    ) -> list[LoggedEvent]:
        """Return events above a number, in order."""
        check_limit(limit, most=10_000)
        if seq < 0:
            raise Invalid("`seq` must be 0 or more", field="seq")

        async def find(tx: Transaction) -> list[LoggedEvent]:
            key = await run_key_of(tx, space, run)
            if types is None:
                rows = await tx.all("events_after", run_key=key, seq=seq, limit=limit)
            else:
                wanted = dump(list(types))
                rows = await tx.all("events_of_types_after", run_key=key, seq=seq, types=wanted, limit=limit)
            return [_event(row) for row in rows]

        return await self._database.read(find)

    async def heads(self, runs: Sequence[tuple[SpaceId, RunId]]) -> list[Head]:
        """Return how far each run is, in one query."""
        return await self._database.read(lambda tx: _heads(tx, runs), quick=len(runs) <= FEW)


async def _heads(tx: Transaction, runs: Sequence[tuple[SpaceId, RunId]]) -> list[Head]:
    return [_head(row) for row in await tx.many("heads_of", list(dict.fromkeys(runs)))]


def _event(row: Row) -> LoggedEvent:
    return LoggedEvent(
        seq=row["seq"], type=row["type"], data=row["data"].encode(), created_at=instant(row["created_at"])
    )


def _head(row: Row) -> Head:
    return Head(
        space_id=row["space_id"],
        run_id=row["id"],
        status=RunStatus(row["status"]),
        last_event_seq=row["last_event_seq"],
    )
