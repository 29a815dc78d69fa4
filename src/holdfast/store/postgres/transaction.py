"""A transaction on PostgreSQL."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.domain.ids import ENTROPY_BYTES, SpaceId, ThreadId, sortable_id
from holdfast.domain.instant import Millis
from holdfast.ports.clock import Clock
from holdfast.store.postgres.block import Block
from holdfast.store.statements import load
from holdfast.store.transaction import Entry, Newborn, Row
from holdfast.store.waking import Waking

STATEMENTS: Final = load("postgres", lambda index: f"${index}")


class PostgresTransaction:
    """`Transaction`."""

    __slots__ = ("_block", "_clock", "_keeps_time", "born", "lease_now", "now", "wake", "waking")

    def __init__(self, block: Block, clock: Clock, *, keeps_time: bool) -> None:
        """Begin; with `keeps_time` leases are measured by `clock`."""
        self._block = block
        self._clock = clock
        self._keeps_time = keeps_time
        self._look_at_clock()
        self.born: dict[int, Newborn] = {}
        self.waking = Waking()
        self.wake = self.waking.add

    async def lock_named(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Take row locks, by the keys that the names stand for."""
        await self.many("lock_named_threads", threads)
        self._look_at_clock()

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Take row locks, in the one order that everybody takes them in."""
        if thread_keys := list(threads):
            await self._block.fetch(STATEMENTS["lock_threads"].sql, thread_keys)
        if run_keys := list(runs):
            await self._block.fetch(STATEMENTS["lock_heads"].sql, run_keys)
        self._look_at_clock()
        return True

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row."""
        rows = await self._block.fetch(STATEMENTS[name].sql, *_ordered(name, parameters))
        return rows[0] if rows else None

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""
        return await self._block.fetch(STATEMENTS[name].sql, *_ordered(name, parameters))

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""
        await self.one(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        """Run a statement once, with an array for each parameter."""
        if not rows:
            return []
        return await self._block.fetch(STATEMENTS[name].sql, *map(list, zip(*rows, strict=True)))

    async def append(self, entries: Sequence[Entry], *, alone: bool = False) -> Sequence[Row]:
        """Fence, number and add in one statement, which alone needs no transaction around it."""
        values = _ordered("append", _columns(entries) | {"now": self.now})
        fetch = self._block.fetch_alone if alone else self._block.fetch
        return await fetch(STATEMENTS["append"].sql, *values)

    def _look_at_clock(self) -> None:
        """Let it be now: what had to wait for others happens after them."""
        self.now = self._clock.now()
        self.lease_now: Millis | None = self.now if self._keeps_time else None

    def new_id(self, prefix: str) -> str:
        """Make an id."""
        return sortable_id(prefix, at=self.now, entropy=os.urandom(ENTROPY_BYTES))


def _ordered(name: str, parameters: Mapping[str, Any]) -> list[Any]:
    return [parameters[parameter] for parameter in STATEMENTS[name].parameters]


def _columns(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """Return an array for each column of the heads, and of the events."""
    return {
        "run_key": [entry.run_key for entry in entries],
        "lease_number": [entry.lease_number for entry in entries],
        "added": [len(entry.events) for entry in entries],
        "consumed": [entry.consumed for entry in entries],
        "progresses": [entry.progresses for entry in entries],
        "stops": [entry.stops for entry in entries],
        "run_of_event": [entry.run_key for entry in entries for _ in entry.events],
        "following": [following for entry in entries for following in reversed(range(len(entry.events)))],
        "type": [type_ for entry in entries for type_, _ in entry.events],
        "data": [data for entry in entries for _, data in entry.events],
    }
