"""Values of a run in SQL."""

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.taint import TAINT, taint_of
from holdfast.store.encoding import load
from holdfast.store.messages import END
from holdfast.store.run_rows import base_run, run_row
from holdfast.store.transaction import Database, Row, Transaction


class SqlValues:
    """`Values`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of a run."""

        async def find(tx: Transaction) -> dict[str, Json]:
            return await values_of(tx, await run_row(tx, space, run))

        return await self._database.read(find)


async def values_of(tx: Transaction, run: Row) -> dict[str, Json]:
    """Return the values of a run as the view shows it."""
    own = await _values(tx, run["run_key"], END)
    # A run that has not begun has not taken over its base's values yet, for they may still change.
    at: Row | None = run
    while at is not None and at["queued_at"] is None and at["base_key"] is not None:
        cut = END if at["base_sequence"] is None else at["base_sequence"]
        at = await base_run(tx, at["base_key"])
        own = own if at is None else {**await _values(tx, at["run_key"], cut), **own}
    return own


async def values_at_end(tx: Transaction, run_key: int) -> dict[str, Json]:
    """Return the values of a run that has begun."""
    return await _values(tx, run_key, END)


async def taint_at_end(tx: Transaction, run_key: int) -> list[str]:
    """Return what a run that has begun has read of others."""
    row = await tx.one("value_at_end", run_key=run_key, name=TAINT)
    return [] if row is None else taint_of({TAINT: load(row["value"])}).names()


async def inherit(tx: Transaction, run_key: int, *, base_key: int, base_sequence: int | None) -> None:
    """Give a run the values that its base had where it was cut."""
    cut = END if base_sequence is None else base_sequence
    await tx.many("inherit_values", [(run_key, base_key, cut)])


async def _values(tx: Transaction, run_key: int, cut: int) -> dict[str, Json]:
    return {row["name"]: load(row["value"]) for row in await tx.all("values_at", run_key=run_key, cut=cut)}
