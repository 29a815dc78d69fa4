"""Two writers on PostgreSQL, driven statement by statement through every order that the locks allow.

Each writer has a process of its own as far as the database can tell. Before each statement, and before its commit, it
stops at a gate. Whoever runs into the other's lock stays there until the other has committed, so that not every order
exists; those that do are found by walking the tree of choices, one run after the other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from holdfast.bus.local import LocalBus
from holdfast.domain.errors import HoldfastError
from holdfast.ports.clock import Clock
from holdfast.store.postgres.batches import Batches
from holdfast.store.postgres.database import PostgresDatabase
from holdfast.store.postgres.sessions import Sessions
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.store import Store
from holdfast.store.transaction import Row

Outcome: TypeAlias = Any
Check: TypeAlias = Callable[..., Awaitable[None]]
Scene: TypeAlias = Callable[[], Awaitable[tuple[Awaitable[Outcome], Awaitable[Outcome], Check]]]
"""Sets the stage and returns what two writers do, and what must be true of their outcomes afterwards."""

_QUICK = {"deadlock_timeout": "20ms", "application_name": "gated"}


class Gate:
    """Where a writer stops before each statement."""

    def __init__(self) -> None:
        self.only: Collection[str] | None = None
        """Where it stops, if not everywhere: what concerns nobody else makes orders that differ in nothing."""
        self.at: str | None = None
        self.pid = 0
        self._passed = asyncio.Event()

    async def reach(self, statement: str, pid: int) -> None:
        """Wait to be let through."""
        self.pid = pid
        if self.only is not None and statement not in self.only:
            return
        self.at = statement
        self._passed.clear()
        await self._passed.wait()

    def let_through(self) -> str:
        """Let the writer make the statement that it has reached."""
        assert self.at is not None
        made, self.at = self.at, None
        self._passed.set()
        return made


class GatedTransaction(PostgresTransaction):
    """A transaction that stops before each of its statements."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate, inner: PostgresTransaction) -> None:
        super().__init__(inner._connection, now=inner.now, lease_now=inner.lease_now)
        self._gate = gate

    async def reach(self, statement: str) -> None:
        await self._gate.reach(statement, self._connection.get_server_pid())

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> None:
        if thread_keys := list(threads):
            await self.reach("lock_threads")
            await super().lock(threads=thread_keys)
        if run_keys := list(runs):
            await self.reach("lock_heads")
            await super().lock(runs=run_keys)

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        await self.reach(name)
        return await super().one(name, **parameters)

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        await self.reach(name)
        return await super().all(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        if rows:
            await self.reach(name)
        return await super().many(name, rows)


class GatedSessions(Sessions):
    """Sessions whose writing transactions stop at a gate."""

    def __init__(self, gate: Gate, pool: asyncpg.Pool, *, clock: Clock) -> None:
        super().__init__(pool, clock=clock, keeps_time=True, bus=LocalBus())
        self._gate = gate

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[PostgresTransaction]:
        async with super().writing() as inner:
            gated = GatedTransaction(self._gate, inner)
            yield gated
            await gated.reach("commit")


@asynccontextmanager
async def gated_store(gate: Gate, url: str, *, clock: Clock) -> AsyncIterator[Store]:
    """Open a store whose every write stops at `gate`."""
    async with asyncpg.create_pool(url, min_size=1, max_size=2, server_settings=_QUICK) as pool:
        sessions = GatedSessions(gate, pool, clock=clock)
        batches = Batches(sessions)
        async with asyncio.TaskGroup() as group:
            group.create_task(batches.work())
            yield Store(PostgresDatabase(sessions, batches))
            batches.close()


class Two:
    """Two writers, whose statements come in every order."""

    def __init__(self, first: Store, second: Store, *, gates: Sequence[Gate], watcher: asyncpg.Connection) -> None:
        self.first = first
        self.second = second
        self._gates = gates
        self._watcher = watcher

    async def explore(
        self, scene: Scene, *, first: Collection[str] | None = None, second: Collection[str] | None = None
    ) -> list[str]:
        """Play `scene` in each order that there is of all statements, or of those named, and return the orders."""
        self._gates[0].only, self._gates[1].only = first, second
        choices: list[int] = []
        orders: list[str] = []
        while choices or not orders:
            order, options = await self._play(scene, choices)
            orders.append(order)
            while choices and choices[-1] == options[len(choices) - 1][-1]:
                choices.pop()
            if choices:
                choices[-1] += 1
        return orders

    async def _play(self, scene: Scene, choices: list[int]) -> tuple[str, list[list[int]]]:
        """Run two writers to their end: first by `choices`, to which those are added that had to be made after."""
        first, second, check = await scene()
        made: list[str] = []
        options: list[list[int]] = []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_outcome(writer)) for writer in (first, second)]
            while ready := await self._ready(tasks):
                if len(options) == len(choices):
                    choices.append(ready[0])
                chosen = choices[len(options)]
                assert chosen in ready, "the same choices led elsewhere"
                options.append(ready)
                made.append(f"{'ab'[chosen]}:{self._gates[chosen].let_through()}")
        order = " ".join(made)
        try:
            await check(*(task.result() for task in tasks))
        except BaseException as exc:
            exc.add_note(f"in the order {order}")
            raise
        return order, options

    async def _ready(self, tasks: Sequence[asyncio.Task[Outcome]]) -> list[int]:
        """Return who may go on, once each is at a gate, behind a lock, or done; nobody when all are done."""
        while True:
            await asyncio.sleep(0)
            moving = [
                index for index, task in enumerate(tasks) if not task.done() and self._gates[index].at is None
            ]
            ready = [index for index, gate in enumerate(self._gates) if gate.at is not None]
            if not moving or (ready and await self._all_blocked(moving)):
                return ready

    async def _all_blocked(self, moving: Sequence[int]) -> bool:
        pids = [self._gates[index].pid for index in moving]
        blocked = await self._watcher.fetchval(
            "SELECT bool_and(cardinality(pg_blocking_pids(pid)) > 0) FROM unnest($1::INT[]) AS p (pid)", pids
        )
        return bool(blocked) and all(self._gates[index].at is None for index in moving)


async def _outcome(writer: Awaitable[Outcome]) -> Outcome:
    try:
        return await writer
    except HoldfastError as exc:
        return exc
