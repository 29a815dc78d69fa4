"""Runs two writers in every order of their statements that the locks allow.

A writer that is blocked by the other's lock waits until the other has committed, so not every order is possible. The
possible ones are found by walking the tree of choices, one order at a time. Of orders that differ only in the order of
two unrelated statements, one is run: a branch is left as soon as it could only repeat another ("sleep sets", Godefroid
1996).
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
"""Prepares the data, and returns the operations of two writers and a check of their outcomes."""


class _Choice(msgspec.Struct):
    """The writers that could continue, and the one that did."""

    ready: dict[int, Statement]
    asleep: set[int]
    """Writers whose next statement would only repeat an earlier order."""
    chosen: int
    tried: set[int] = set()

    def next(self) -> bool:
        """Choose another writer, if there is one left."""
        self.tried.add(self.chosen)
        left = self.ready.keys() - self.asleep - self.tried
        self.chosen = min(left, default=self.chosen)
        return bool(left)

    def asleep_after(self) -> set[int]:
        made = self.ready[self.chosen]
        others = (self.asleep | self.tried) - {self.chosen}
        return {writer for writer in others if self.ready[writer].swaps_with(made)}


class TwoWriters:
    """Two writers and the exploration of their orders."""

    def __init__(
        self, first: Store, second: Store, *, barriers: Sequence[Barrier], watcher: asyncpg.Connection
    ) -> None:
        self.first = first
        self.second = second
        self._barriers = barriers
        self._watcher = watcher

    async def explore(self, scene: Scenario) -> list[str]:
        """Run `scene` in each possible order, and return the orders."""
        choices: list[_Choice] = []
        orders: list[str] = []
        while choices or not orders:
            orders.append(await self._play(scene, choices))
            while choices and not choices[-1].next():
                choices.pop()
        return orders

    async def _play(self, scene: Scenario, choices: list[_Choice]) -> str:
        """Run two writers to their end: first by `choices`, then by new choices, which are added to them."""
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
                self._barriers[chosen].release()
                depth += 1
        order = " ".join(made)
        try:
            await check(*(task.result() for task in tasks))
        except BaseException as exc:
            exc.add_note(f"in the order {order}")
            raise
        return order

    async def _ready(self, tasks: Sequence[asyncio.Task[Any]], chosen: int | None) -> dict[int, Statement]:
        """Return the writers that may continue, once each is at a barrier, blocked by a lock, or done.

        The result is empty when all are done. It waits for the chosen writer, which a lock of the server itself may
        block for a moment.
        """
        while True:
            await asyncio.sleep(0)
            ready = {writer: barrier.at for writer, barrier in enumerate(self._barriers) if barrier.at is not None}
            moving = [writer for writer, task in enumerate(tasks) if not task.done() and writer not in ready]
            if not moving or (chosen not in moving and ready and await self._all_blocked(moving)):
                return ready

    async def _all_blocked(self, moving: Sequence[int]) -> bool:
        pids = [self._barriers[writer].pid for writer in moving]
        blocked = await self._watcher.fetchval(
            "SELECT bool_and(cardinality(pg_blocking_pids(pid)) > 0) FROM unnest($1::INT[]) AS p (pid)", pids
        )
        return bool(blocked) and all(self._barriers[writer].at is None for writer in moving)


def _choose(choices: list[_Choice], ready: dict[int, Statement]) -> None:
    """Add a choice, unless every ready writer would only repeat an earlier order."""
    asleep = choices[-1].asleep_after() if choices else set[int]()
    if awake := ready.keys() - asleep:
        choices.append(_Choice(ready, asleep & ready.keys(), min(awake)))


async def _outcome(writer: Awaitable[Any]) -> Any:
    try:
        return await writer
    except HoldfastError as exc:
        return exc
