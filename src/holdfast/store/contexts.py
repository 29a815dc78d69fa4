"""Contexts in SQL."""

from collections.abc import Sequence

import msgspec

from holdfast.domain.context_snapshot import ContextSnapshot, ReadContext, SentRange, read_back, text_names
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.message import Message
from holdfast.store.messages import chain_before, chain_end
from holdfast.store.run_rows import run_row
from holdfast.store.transaction import Database, Row, Transaction

_PAGE = 500
_snapshot = msgspec.json.Decoder(ContextSnapshot)


class SqlContexts:
    """`Contexts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        """Return the steps whose context is kept."""

        async def find(tx: Transaction) -> list[int]:
            row = await run_row(tx, space, run)
            return [found["step"] for found in await tx.all("contexts_of_run", run_key=row["run_key"])]

        return await self._database.read(find)

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return what the model was told in a step."""

        async def find(tx: Transaction) -> ReadContext:
            row = await run_row(tx, space, run)
            found = await tx.one("context", run_key=row["run_key"], step=step)
            if found is None:
                raise NotFound(f"there is no context of step {step} of run `{run}`", step=step)
            snapshot = _snapshot.decode(found["snapshot"])
            texts = {name: text for name in text_names(snapshot) if (text := await _text(tx, row, name)) is not None}
            return read_back(snapshot, texts, await _messages(tx, row, snapshot))

        return await self._database.read(find)


async def _text(tx: Transaction, run: Row, name: str) -> str | None:
    row = await tx.one("text", space_key=run["space_key"], digest=name)
    return None if row is None else row["content"]


async def _messages(tx: Transaction, run: Row, snapshot: ContextSnapshot) -> Sequence[Message]:
    """Return the messages of the chain from the oldest that was sent on."""
    ranges = [sent for sent in snapshot.conversation if isinstance(sent, SentRange)]
    if not ranges:
        return []
    first = min(each.first for each in ranges)
    found = await chain_end(tx, run["run_key"], limit=_PAGE)
    while found and found[0].sequence is not None and found[0].sequence > first:
        earlier = await chain_before(tx, run["run_key"], run["thread_key"], before=found[0].sequence, limit=_PAGE)
        if not earlier:
            break
        found = [*earlier, *found]
    return found
