"""A play with one worker after the other: each is killed, and the next one continues."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from holdfast.bootstrap.store import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.domain.instant import millis
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.store.store import Store
from tests.scenario.crash_check import check_play
from tests.scenario.crash_history import RunHistory, read
from tests.scenario.crash_play import ANSWER, WATCHED, name_of
from tests.scenario.crash_victim import LEASE_MS, OffsetClock, Task
from tests.support.counting_server import CountingServer
from tests.support.database_probe import Probe, is_postgres, open_probe
from tests.support.fork_server import Death, ForkServer
from tests.support.log_check import check_log

WORKER: Final = "tests.scenario.crash_victim:work"

# The lease where no test waits for its expiry: longer than a busy machine delays a heartbeat.
_LONG_LEASE_MS: Final = 5_000
_LATER_MS: Final = 20_000  # longer than any lease, and than any backoff before the last attempt
_SESSIONS: Final = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'holdfast'
"""
_DELAYS: Final = """
    SELECT wait_until - queued_at AS delay FROM run_heads WHERE status_reason = 'expired' AND wait_until IS NOT NULL
"""


class KillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The point at which the next worker is killed.

    At a commit point, at one of some moments, when one of some statements is on disk, or after so many seconds.
    """

    fatal: int | None = None
    moments: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    on_last_attempt: bool = False
    """Whether it is killed even if that uses up the last attempt of a run."""
    lifetime_seconds: float | None = None


NextKill: TypeAlias = Callable[[], KillPlan]
"""Returns the kill plan of the next worker."""

NO_KILL: Final = KillPlan()
LIFETIME_STEP_SECONDS: Final = 0.05
"""Growth factor of the lifetimes of workers killed at any time."""


def at_points(random: Random, *, max_point: int) -> NextKill:
    """Kill at one of the first commit points of each worker."""
    return lambda: KillPlan(fatal=random.randint(1, max_point))


def at_times(random: Random) -> NextKill:
    """Kill after growing lifetimes, so that a busy machine makes progress too."""
    numbers = count(1)
    return lambda: KillPlan(lifetime_seconds=random.uniform(0, next(numbers) * LIFETIME_STEP_SECONDS))


class Relay:
    """One database, on which one process at a time plays."""

    def __init__(
        self,
        victims: ForkServer,
        server: CountingServer,
        workspace: Path,
        database: str | Path,
        *,
        survivor: "Survivor | NextOpening",
    ) -> None:
        self.deaths: list[str | None] = []
        """The killed workers so far, each with its moment if that was scheduled."""
        self._victims = victims
        self._server = server
        self._workspace = workspace
        self._database = database
        self.survivor = survivor

    async def play(
        self, run: RunId, next_kill: NextKill = lambda: NO_KILL, *, answer: Json = ANSWER
    ) -> tuple[RunHistory, list[str]]:
        """Play to the end, and return the history and the points that the last worker passed."""
        await self._server.hold(name_of(run, WATCHED))
        while (death := await self._send(run, next_kill(), answer)).killed:
            last = death.messages[-1] if death.messages else {}
            self.deaths.append(last.get("died"))
            await self.survivor.expire_leases()
        return await self.read(run), death.messages[-1]["points"]

    async def check(self, history: RunHistory, undisturbed: RunHistory, *, streams: bool = True) -> None:
        """Assert that a play left the same history as an undisturbed one."""
        async with open_probe(self._database) as probe:
            await check_log(probe)
        check_play(history, undisturbed, await self._server.calls(name_of(history.run.id, "")), streams=streams)

    async def read(self, run: RunId) -> RunHistory:
        """Read the history of a run while no worker runs."""
        async with open_store(self._database, bus=LocalBus(), read_only=not is_postgres(self._database)) as store:
            return await read(store, run)

    async def _send(self, run: RunId, plan: KillPlan, answer: Json) -> Death:
        task = Task(
            database=str(self._database),
            workspace=str(self._workspace),
            server=self._server.path,
            run=run,
            answer=answer,
            fatal=plan.fatal,
            moments=plan.moments,
            after=plan.after,
            on_last_attempt=plan.on_last_attempt,
            lifetime_seconds=plan.lifetime_seconds,
            lease_ms=_LONG_LEASE_MS if plan is NO_KILL or is_postgres(self._database) else LEASE_MS,
            ahead_ms=self.survivor.ahead_ms,
        )
        return await self._victims.send(msgspec.to_builtins(task))


@asynccontextmanager
async def open_relay(
    victims: ForkServer, server: CountingServer, workspace: Path, database: str | Path
) -> AsyncIterator[Relay]:
    """Open a relay on a new database; on PostgreSQL with a process that survives the workers."""
    async with open_store(database, bus=LocalBus()):
        pass
    if not is_postgres(database):
        yield Relay(victims, server, workspace, database, survivor=NextOpening(Path(database)))
        return
    async with open_survivor(str(database)) as survivor:
        yield Relay(victims, server, workspace, database, survivor=survivor)


class NextOpening:
    """Frees the leases of killed workers on SQLite, as the next worker would, and moves its clock past the backoff."""

    def __init__(self, database: Path) -> None:
        self.ahead_ms = 0
        self.delays_ms: list[int] = []
        """The backoff of each freed run that has one."""
        self._database = database

    async def expire_leases(self) -> None:
        """Open the file, and move the clock past the backoff of its runs."""
        async with open_store(self._database, bus=LocalBus(), clock=OffsetClock(self.ahead_ms)):
            pass
        async with open_probe(self._database) as probe:
            delays = [row["delay"] for row in await probe.rows(_DELAYS)]
        self.delays_ms += delays
        self.ahead_ms += _LATER_MS if delays else 0


class Survivor:
    """Expires the leases of killed workers on PostgreSQL without waiting: each worker's clock is ahead of the last."""

    def __init__(self, store: Store, clock: OffsetClock, probe: Probe) -> None:
        self.ahead_ms = 0
        self.delays_ms: list[int] = []
        """The backoff of each expired run."""
        self._store = store
        self._clock = clock
        self._probe = probe
        self._own_sessions: set[int] = set()

    async def expire_leases(self) -> None:
        """Move the clock past the expiry of the leases, then past the backoff of their runs."""
        # Until the server has noticed the death, it may still commit a sent transaction.
        while await self._sessions() - self._own_sessions:  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(0.002)
        self._clock.offset_ms = self.ahead_ms + _LATER_MS
        expired = [await self._store.runs.get(DEFAULT_SPACE, run) for run in await self._store.leases.expire()]
        self.delays_ms += [
            millis(run.wait_until) - millis(run.queued_at) for run in expired if run.wait_until and run.queued_at
        ]
        self.ahead_ms += 2 * _LATER_MS
        await self.record_sessions()

    async def record_sessions(self) -> None:
        """Record the sessions that exist without a worker."""
        self._own_sessions = await self._sessions()

    async def _sessions(self) -> set[int]:
        return {row["pid"] for row in await self._probe.rows(_SESSIONS)}


@asynccontextmanager
async def open_survivor(url: str) -> AsyncIterator[Survivor]:
    """Run a survivor beside the workers of a PostgreSQL database."""
    clock = OffsetClock(0)
    async with open_store(url, bus=LocalBus(), clock=clock) as store, open_probe(url) as probe:
        survivor = Survivor(store, clock, probe)
        await survivor.record_sessions()
        yield survivor
