"""The step ledger in SQL."""

import msgspec

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.usage import Usage
from holdfast.store.run_rows import run_key_of
from holdfast.store.transaction import Database, Row, Transaction

_usage = msgspec.json.Decoder(Usage)


class SqlSteps:
    """`Steps`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of a run by number."""

        async def find(tx: Transaction) -> list[Step]:
            return await steps_of_run(tx, await run_key_of(tx, space, run))

        return await self._database.read(find)


async def steps_of_run(tx: Transaction, run_key: int) -> list[Step]:
    """Return the steps of a run by number."""
    return [_step(row) for row in await tx.all("steps_of_run", run_key=run_key)]


def _step(row: Row) -> Step:
    return Step(
        number=row["number"],
        kind=StepKind(row["kind"]),
        name=row["name"],
        key=row["key"],
        state=StepState(row["state"]),
        attempt=row["attempt"],
        tool_call_id=row["tool_call_id"],
        effectful=bool(row["effectful"]),
        request_digest=row["request_digest"],
        waits_for=None if row["waits_for"] is None else WaitsFor(row["waits_for"]),
        usage=None if row["usage"] is None else _usage.decode(row["usage"]),
        started_at=instant(row["started_at"]),
        settled_at=maybe_instant(row["settled_at"]),
    )
