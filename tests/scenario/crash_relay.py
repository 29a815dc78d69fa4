"""A play in the hands of one worker after the other: each dies, and the next goes on where it was."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from holdfast.bootstrap.store import open_store
from holdfast.bootstrap.workspace import DEFAULT_SPACE
from holdfast.bus.local import LocalBus
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.domain.instant import millis
from holdfast.store.store import Store
from tests.scenario.crash_check import check_play
from tests.scenario.crash_history import Told, read
from tests.scenario.crash_play import ANSWER, WATCHED, name_of
from tests.scenario.crash_victim import LEASE_MS, Ahead, Task
from tests.support.counting_server import CountingServer
from tests.support.database_probe import Probe, is_postgres, open_probe
from tests.support.fork_server import Death, ForkServer
from tests.support.log_check import check_log

WORKER: Final = "tests.scenario.crash_victim:work"

# Where nobody has to wait for a lease to run out, it is longer than a machine may be busy with something else.
_LONG_LEASE_MS: Final = 5_000
_LATER_MS: Final = 10_000  # longer than any lease, and than any backoff before the last attempt
_SESSIONS: Final = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'holdfast'
"""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next worker dies.

    At a commit point, at one of some moments, when one of some statements is on disk, or after so many seconds.
    """

    fatal: int | None = None
    moments: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    merciless: bool = False
    """Whether it dies also where that uses up the last attempt of a run; the others live until it does not."""
    life: float | None = None


Fates: TypeAlias = Callable[[], Fate]
"""Chooses the next fate."""

SPARED: Final = Fate()
SECONDS: Final = 0.05
"""By which lives grow that end at any time."""


def at_points(random: Random, *, most: int) -> Fates:
    """Kill at a commit point, one of the first of each life."""
    return lambda: Fate(fatal=random.randint(1, most))


def at_times(random: Random) -> Fates:
    """Kill after ever longer lives, so that a machine that is busy with something else gets somewhere too."""
    lives = count(1)
    return lambda: Fate(life=random.uniform(0, next(lives) * SECONDS))


class Relay:
    """One database, on which plays are played by one process at a time."""

    def __init__(
        self,
        victims: ForkServer,
        server: CountingServer,
        workspace: Path,
        where: str | Path,
        *,
        survivor: "Survivor | None" = None,
    ) -> None:
        self.deaths: list[str | None] = []
        """Those who died by now; of each the moment, if it was one of those that it was told."""
        self._victims = victims
        self._server = server
        self._workspace = workspace
        self._where = where
        self.survivor = survivor

    async def play(self, run: RunId, fates: Fates = lambda: SPARED, *, answer: Json = ANSWER) -> tuple[Told, list[str]]:
        """Play to the end, and return what was left and the points that the last worker came by."""
        await self._server.hold(name_of(run, WATCHED))
        while (death := await self._send(run, fates(), answer)).killed:
            last = death.said[-1] if death.said else {}
            self.deaths.append(last.get("died"))
            if self.survivor is not None:
                await self.survivor.take_back()
        return await self.read(run), death.said[-1]["points"]

    async def check(self, told: Told, undisturbed: Told, *, streams: bool = True) -> None:
        """Assert that a play left what one leaves that nobody disturbed."""
        async with open_probe(self._where) as probe:
            await check_log(probe)
        check_play(told, undisturbed, await self._server.calls(name_of(told.run.id, "")), streams=streams)

    async def read(self, run: RunId) -> Told:
        """Read what there is of a run, while nobody works on it."""
        async with open_store(self._where, bus=LocalBus(), read_only=not is_postgres(self._where)) as store:
            return await read(store, run)

    async def _send(self, run: RunId, fate: Fate, answer: Json) -> Death:
        task = Task(
            where=str(self._where),
            workspace=str(self._workspace),
            server=self._server.path,
            run=run,
            answer=answer,
            fatal=fate.fatal,
            moments=fate.moments,
            after=fate.after,
            merciless=fate.merciless,
            life=fate.life,
            lease_ms=_LONG_LEASE_MS if fate is SPARED or self.survivor else LEASE_MS,
            ahead_ms=None if self.survivor is None else self.survivor.ahead_ms,
        )
        return await self._victims.send(msgspec.to_builtins(task))


@asynccontextmanager
async def relaying(
    victims: ForkServer, server: CountingServer, workspace: Path, where: str | Path
) -> AsyncIterator[Relay]:
    """Relay on a database that is made; on PostgreSQL beside somebody who outlives the workers."""
    async with open_store(where, bus=LocalBus()):
        pass
    if not is_postgres(where):
        yield Relay(victims, server, workspace, where)
        return
    async with surviving(str(where)) as survivor:
        yield Relay(victims, server, workspace, where, survivor=survivor)


class Survivor:
    """Takes back what the dead held on PostgreSQL, without waiting: the clock of each worker is ahead of the last."""

    def __init__(self, store: Store, clock: Ahead, probe: Probe) -> None:
        self.ahead_ms = 0
        self.delays_ms: list[int] = []
        """How long each run that was taken back has to wait."""
        self._store = store
        self._clock = clock
        self._probe = probe
        self._own: set[int] = set()

    async def take_back(self) -> None:
        """Go to a time when the leases of the dead have run out, and then to one when their runs may be claimed."""
        # Until the server has noticed the death, it may still commit what it was sent.
        while await self._sessions() - self._own:  # noqa: ASYNC110 - nobody here is told of it
            await asyncio.sleep(0.002)
        self._clock.by = self.ahead_ms + _LATER_MS
        taken = [await self._store.runs.get(DEFAULT_SPACE, run) for run in await self._store.leases.expire()]
        self.delays_ms += [
            millis(run.wait_until) - millis(run.queued_at) for run in taken if run.wait_until and run.queued_at
        ]
        self.ahead_ms += 2 * _LATER_MS
        await self.look_around()

    async def look_around(self) -> None:
        """Take note of who is there while nobody works."""
        self._own = await self._sessions()

    async def _sessions(self) -> set[int]:
        return {row["pid"] for row in await self._probe.rows(_SESSIONS)}


@asynccontextmanager
async def surviving(url: str) -> AsyncIterator[Survivor]:
    """Be there beside the workers of a PostgreSQL database."""
    clock = Ahead(0)
    async with open_store(url, bus=LocalBus(), clock=clock) as store, open_probe(url) as probe:
        survivor = Survivor(store, clock, probe)
        await survivor.look_around()
        yield survivor
