"""Victims killed one after the other on one database, and the state that each must leave.

A play changes its space step by step, and the same play leaves the same rows wherever it is played. So after a death in
the middle there is exactly what was there after the last step that the victim acknowledged, or after the one that it
was at: nothing lost, nothing doubled, nothing in part.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.scenario.snapshot import Snapshot, snapshot
from tests.scenario.stage import START, Stage
from tests.scenario.victim import CLEANUP_DELAY, Task, tidy_up
from tests.scenario.workload import PLAYS
from tests.support.database_probe import Probe, is_postgres, open_probe
from tests.support.fork_server import ForkServer
from tests.support.log_check import check_log, check_rows

Script: TypeAlias = Sequence[Snapshot]
"""Snapshots before the first step of a play and after each step."""

VICTIM: Final = "tests.scenario.victim:work"

_SESSIONS: Final = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'holdfast'
"""
_LEASES: Final = "SELECT run_key FROM run_heads WHERE lease_owner IS NOT NULL"


async def write_script(database: str | Path, name: str) -> Script:
    """Play undisturbed on an empty database, and take a snapshot after each step."""
    space = SpaceId("rehearsal")
    clock = HeldClock(START)
    states: list[Snapshot] = [{}]
    async with open_store(database, bus=LocalBus(), clock=clock) as store, open_probe(database) as probe:

        async def note() -> None:
            states.append(await snapshot(probe, space))

        await PLAYS[name](Stage(store, space, clock=clock, queue=asyncio.Lock(), note=note))
        await check_log(probe)
    return states


class Hunt:
    """One database, and the victims killed on it."""

    def __init__(
        self,
        server: ForkServer,
        database: str | Path,
        scripts: Mapping[str, Script],
        *,
        probe: Probe | None = None,
        survivor: Store | None = None,
    ) -> None:
        self.kills = 0
        self._server = server
        self._database = database
        self._scripts = scripts
        self._probe = probe
        self._survivor = survivor
        self._spaces = count(1)
        self._spaces_to_clean: list[SpaceId] = []

    async def rehearse(self, *plays: str) -> list[str]:
        """Let a victim play to the end, and return the commit points that it passed."""
        messages = await self._send(self._task(plays))
        names: list[str] = messages[-1]["points"]
        return names

    async def kill_at(self, fatal: int, *plays: str) -> None:
        """Kill a victim at a commit point."""
        await self._send(self._task(plays, fatal=fatal))

    async def kill_during_open(self, fatal: int) -> None:
        """Kill a victim at a commit point of opening the store and cleaning up."""
        await self._send(msgspec.structs.replace(self._task((), fatal=fatal), count_opening=True))

    async def kill_after(self, seconds: float, *plays: str) -> None:
        """Kill a victim after some time."""
        await self._send(self._task(plays), seconds=seconds)

    async def record_sessions(self) -> None:
        """Check everything again after a cleanup: no lease of a dead process is left, and every run has ended."""
        await self.rehearse()
        async with self._look() as probe:
            await check_log(probe)
            assert not await probe.rows(_LEASES), "a lease of a dead process was not freed"

    async def _send(self, task: Task, *, seconds: float | None = None) -> list[Any]:
        other_sessions = set() if self._probe is None else await _sessions(self._probe)
        death = await self._server.send(msgspec.to_builtins(task), seconds=seconds)
        self.kills += death.killed
        if {"tidy": True} in death.messages:
            self._spaces_to_clean.clear()
        self._spaces_to_clean += task.parts
        async with self._look() as probe:
            await self._examine(probe, task, death.messages, other_sessions)
        if self._survivor:
            await tidy_up(self._survivor, self._spaces_to_clean)
            self._spaces_to_clean.clear()
        return death.messages

    async def _examine(self, probe: Probe, task: Task, messages: list[Any], other_sessions: set[int]) -> None:
        if self._probe:
            # Until the server has noticed the death, it may still commit a sent transaction.
            while await _sessions(probe) - other_sessions:  # noqa: ASYNC110 - there is no notification
                await asyncio.sleep(0.001)
        else:
            assert [tuple(row.values()) for row in await probe.rows("PRAGMA integrity_check")] == [("ok",)]
        await check_rows(probe)
        for space, play in task.parts.items():
            completed_steps = messages.count({"done": space})
            actual = await snapshot(probe, space)
            states = self._scripts[play][completed_steps : completed_steps + 2]
            assert actual in states, (
                f"`{play}` was killed after {completed_steps} steps:\n{_difference(states[0], actual)}"
            )

    def _task(self, plays: Sequence[str], *, fatal: int | None = None) -> Task:
        parts = {SpaceId(f"space-{next(self._spaces)}"): play for play in plays}
        return Task(database=str(self._database), parts=parts, spaces_to_clean=self._spaces_to_clean, fatal=fatal)

    def _look(self) -> AbstractAsyncContextManager[Probe]:
        # An open connection would recover a SQLite file for the next victim.
        return open_probe(self._database) if self._probe is None else nullcontext(self._probe)


@asynccontextmanager
async def hunting(server: ForkServer, database: str | Path, scripts: Mapping[str, Script]) -> AsyncIterator[Hunt]:
    """Hunt on an empty database; on PostgreSQL with a surviving process that cleans up."""
    if not is_postgres(database):
        yield Hunt(server, database, scripts)
        return
    clock = HeldClock(START)
    clock.tick(CLEANUP_DELAY)
    async with open_store(database, bus=LocalBus(), clock=clock) as survivor, open_probe(database) as probe:
        yield Hunt(server, database, scripts, probe=probe, survivor=survivor)


async def _sessions(probe: Probe) -> set[int]:
    return {row["pid"] for row in await probe.rows(_SESSIONS)}


def _difference(expected: Snapshot, actual: Snapshot) -> str:
    expected_rows, actual_rows = (
        [f"{table}: {row}" for table in sorted(state) for row in state[table]] for state in (expected, actual)
    )
    return "\n".join(unified_diff(expected_rows, actual_rows, "acknowledged", "found", lineterm="", n=0))
