"""Two writers through every order of their statements that the locks allow.

Whoever runs into the other's lock stays there until the other has committed, so not every order exists. Those that do
are found by walking the tree of choices, one play after the other. Of orders that differ only in which of two unrelated
statements came first, one is played: a branch is left as soon as it could only repeat another ("sleep sets",
Godefroid 1996).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import asyncpg
import msgspec

from holdfast.domain.errors import HoldfastError
from holdfast.store.store import Store
from tests.conformance.interleavings.barriers import Barrier, Statement

Check: TypeAlias = Callable[..., Awaitable[None]]
Scenario: TypeAlias = Callable[[], Awaitable[tuple[Awaitable[Any], Awaitable[Any], Check]]]
"""Sets the stage and returns what two writers do, and what must be true of their outcomes afterwards."""


class _Choice(msgspec.Struct):
    """Who could go on, and who did."""

    ready: dict[int, Statement]
    asleep: set[int]
    """Those who would only repeat what was played before."""
    chosen: int
    tried: set[int] = set()

    def next(self) -> bool:
        """Choose somebody else, if there is anybody left."""
        self.tried.add(self.chosen)
        left = self.ready.keys() - self.asleep - self.tried
        self.chosen = min(left, default=self.chosen)
        return bool(left)

    def asleep_after(self) -> set[int]:
        made = self.ready[self.chosen]
        others = (self.asleep | self.tried) - {self.chosen}
        return {writer for writer in others if self.ready[writer].swaps_with(made)}


class TwoWriters:
    """Two writers."""

    def __init__(self, first: Store, second: Store, *, gates: Sequence[Barrier], watcher: asyncpg.Connection) -> None:
        self.first = first
        self.second = second
        self._gates = gates
        self._watcher = watcher

    async def explore(self, scene: Scenario) -> list[str]:
        """Play `scene` in each order that there is, and return the orders."""
        choices: list[_Choice] = []
        orders: list[str] = []
        while choices or not orders:
            orders.append(await self._play(scene, choices))
            while choices and not choices[-1].next():
                choices.pop()
        return orders

    async def _play(self, scene: Scenario, choices: list[_Choice]) -> str:
        """Run two writers to their end: first by `choices`, to which those are added that had to be made after."""
        first, second, check = await scene()
        made: list[str] = []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_outcome(writer)) for writer in (first, second)]
            depth = 0
            while ready := await self._ready(tasks, choices[depth].chosen if depth < len(choices) else None):
                if depth == len(choices):
                    _choose(choices, ready)
                chosen = choices[depth].chosen if depth < len(choices) else min(ready)
                made.append(f"{'ab'[chosen]}:{ready[chosen].name}")
                self._gates[chosen].let_through()
                depth += 1
        order = " ".join(made)
        try:
            await check(*(task.result() for task in tasks))
        except BaseException as exc:
            exc.add_note(f"in the order {order}")
            raise
        return order

    async def _ready(self, tasks: Sequence[asyncio.Task[Any]], chosen: int | None) -> dict[int, Statement]:
        """Return who may go on, once each is at a gate, behind a lock, or done; nobody when all are done.

        Whoever was chosen is waited for: it may be behind a lock of the server's own for a moment.
        """
        while True:
            await asyncio.sleep(0)
            ready = {writer: gate.at for writer, gate in enumerate(self._gates) if gate.at is not None}
            moving = [writer for writer, task in enumerate(tasks) if not task.done() and writer not in ready]
            if not moving or (chosen not in moving and ready and await self._all_blocked(moving)):
                return ready

    async def _all_blocked(self, moving: Sequence[int]) -> bool:
        pids = [self._gates[writer].pid for writer in moving]
        blocked = await self._watcher.fetchval(
            "SELECT bool_and(cardinality(pg_blocking_pids(pid)) > 0) FROM unnest($1::INT[]) AS p (pid)", pids
        )
        return bool(blocked) and all(self._gates[writer].at is None for writer in moving)


def _choose(choices: list[_Choice], ready: dict[int, Statement]) -> None:
    """Add a choice, unless whoever is ready would only repeat what was played before."""
    asleep = choices[-1].asleep_after() if choices else set[int]()
    if awake := ready.keys() - asleep:
        choices.append(_Choice(ready, asleep & ready.keys(), min(awake)))


async def _outcome(writer: Awaitable[Any]) -> Any:
    try:
        return await writer
    except HoldfastError as exc:
        return exc
