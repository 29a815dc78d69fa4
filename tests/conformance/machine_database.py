"""The database of the state machine: a store on a held clock, and a probe that reads its tables."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.support.database_probe import Probe, open_probe
from tests.support.empty_database import create_database

T = TypeVar("T")


class MachineDatabase:
    """A database that is empty at the start of each example."""

    one_writer: bool
    """Whether a single process applies operations in the order of submission, and its leases end with it."""
    stride: int
    """Steps between full comparisons of runs, which take most of the time on PostgreSQL."""
    store: Store
    probe: Probe

    def __init__(self) -> None:
        # With its own loop factory the runner does not touch the loop of the other tests.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._opened = AsyncExitStack()
        self.clock = HeldClock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def begin(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        raise NotImplementedError

    def open(self, where: str | Path) -> None:
        async def enter() -> None:
            store = open_store(where, bus=LocalBus(), clock=self.clock)
            self.store = await self._opened.enter_async_context(store)
            self.probe = await self._opened.enter_async_context(open_probe(where))

        self.run(enter())

    def close(self) -> None:
        self.run(self._opened.aclose())

    def leave(self) -> None:
        self.close()
        self._runner.close()


class SqliteMachineDatabase(MachineDatabase):
    """A new file for each example."""

    one_writer = True
    stride = 1

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._files = (folder / f"{number}.db" for number in count(1))
        self._file = next(self._files)

    def begin(self) -> None:
        self.open(create_database(self._file))

    def finish(self) -> None:
        self.close()
        self._file = next(self._files)

    def restart(self) -> None:
        self.close()
        self.open(self._file)


class PostgresMachineDatabase(MachineDatabase):
    """One database, emptied before each example."""

    one_writer = False
    stride = 5

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = f"{url}&synchronous_commit=off"  # nothing is killed here
        self.open(self._url)

    def begin(self) -> None:
        self.run(self._empty())

    def finish(self) -> None:
        pass

    async def _empty(self) -> None:
        tables = await self.probe.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [row["tablename"] for row in tables if row["tablename"] != "migrations"]
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute("SET session_replication_role = replica")  # without an order among them
            await connection.execute("; ".join(f"DELETE FROM {name}" for name in names))  # TRUNCATE makes files anew
        finally:
            await connection.close()
