"""Worker processes are stopped, continued and killed: each run always has exactly one owner."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Literal

import asyncpg
import msgspec
import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId
from holdfast.domain.run import Run, RunStatus
from holdfast.engine.leases import MAX_BLOCKED_SECONDS
from holdfast.store.store import Store
from tests.builders import SECOND
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import get, queued, stream
from tests.scenario.load import HANG_TIMEOUT_SECONDS
from tests.scenario.worker_process import HEARTBEAT, LEASE, Play, Report, WorkerTask
from tests.support.postgres import PostgresServer
from tests.unit.engine.workers import HOUR, Actor, complete_run, running_worker, wait_for_status

MODULE: Final = "tests.scenario.worker_process"
MILLISECOND: Final = timedelta(milliseconds=1)


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncIterator[str]:
    url = await postgres.create_store("workers")
    connection = await asyncpg.connect(url)
    # A process stopped inside a transaction would hold its locks.
    await connection.execute("ALTER DATABASE workers SET idle_in_transaction_session_timeout = '500ms'")
    await connection.close()
    yield url
    await postgres.drop_database("workers")


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with open_bus(url) as bus, open_store(url, bus=bus) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


class WorkerProcess:
    """A worker process, and its reports so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.reports: list[Report] = []

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self._process.pid, number)

    async def unblock(self) -> None:
        """End the call that blocks its event loop."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def wait_for_reports(self, satisfied: Callable[[list[Report]], bool]) -> None:
        """Wait until its reports satisfy a condition."""
        while not satisfied(self.reports):
            assert self._process.stdout is not None
            line = await self._process.stdout.readline()
            assert line, "it ended"
            self.reports.append(msgspec.json.decode(line, type=Report))

    async def read_pending_reports(self) -> None:
        """Read the reports that a stopped process had written."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await self.wait_for_reports(lambda _: False)


@asynccontextmanager
async def start_worker(
    url: str, name: str, plays: Play, *, max_blocked_seconds: float = MAX_BLOCKED_SECONDS
) -> AsyncIterator[WorkerProcess]:
    task = msgspec.json.encode(WorkerTask(url, OwnerId(name), plays, max_blocked_seconds)).decode()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        MODULE,
        task,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield WorkerProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def at_least(what: str, count: int = 1) -> Callable[[list[Report]], bool]:
    return lambda reports: sum(each.what == what for each in reports) >= count


async def take_over(store: Store, run: Run) -> Lease:
    """Claim a run of a worker that does not renew its lease."""
    leases: list[Lease] = []
    while not leases:
        await store.leases.expire()
        leases = await store.leases.claim(SECOND, lease=HOUR)
        await asyncio.sleep(0.02)
    assert leases[0].run_id == run.id
    return leases[0]


@pytest.mark.parametrize("plays", ["idle", "busy"])
async def test_a_worker_stopped_past_its_lease_writes_nothing_and_notices_within_one_heartbeat(
    url: str, store: Store, plays: Literal["idle", "busy"]
) -> None:
    run = await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), start_worker(url, "sleeper", plays) as sleeper:
        await sleeper.wait_for_reports(at_least("begun" if plays == "idle" else "committed"))
        sleeper.send(signal.SIGSTOP)
        lease = await take_over(store, run)
        await sleeper.read_pending_reports()
        before, report_count = await stream(store, run.id), len(sleeper.reports)
        sleeper.send(signal.SIGCONT)
        await sleeper.wait_for_reports(
            lambda reports: any(each.what in ("cut", "refused") for each in reports[report_count:])
        )
        later_kinds = [each.what for each in sleeper.reports[report_count:]]
        assert later_kinds.count("beat") <= 1
        assert await stream(store, run.id) == before
        assert await store.leases.renew(SECOND, [lease], lease=HOUR), "it is still ours"
        assert later_kinds.count("committed") <= 1, "only a commit made before the stop may return now"


async def test_the_run_of_a_killed_worker_is_completed_by_another(url: str, store: Store) -> None:
    run = await queued(store, "hi")
    async with start_worker(url, "victim", "busy") as victim, open_bus(url) as bus:
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            await victim.wait_for_reports(at_least("committed", 3))
        victim.send(signal.SIGKILL)
        async with running_worker(
            store, bus, Actor(complete_run(store)), fallback_seconds=0.1, owner=SECOND, heartbeat=HEARTBEAT
        ):
            completed = await wait_for_status(store, run, RunStatus.COMPLETED)
    assert completed.session_id is not None and completed.session_id.startswith(SECOND)
    assert completed.attempt > 1, "a killed worker uses up an attempt"


async def test_an_idle_worker_takes_over_the_run_of_a_killed_one(url: str, store: Store) -> None:
    """The new owner waits for the lease and its own sweep, and for nothing else: one death causes no backoff."""
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), start_worker(url, "victim", "idle") as victim:
        run = await queued(store, "hi")
        await victim.wait_for_reports(at_least("begun"))
        async with start_worker(url, "survivor", "idle") as survivor:
            other = await queued(store, "ho")  # the victim has one slot: once the survivor has this run, it is ready
            await survivor.wait_for_reports(at_least("begun"))
            await store.runs.end(SPACE, other.id)  # from here on it is idle
            await survivor.wait_for_reports(at_least("cut"))
            victim.send(signal.SIGKILL)
            await survivor.wait_for_reports(at_least("begun", 2))
            taken = await get(store, run.id)
    assert (taken.status, taken.attempt, taken.wait_until) == (RunStatus.RUNNING, 2, None)
    assert taken.session_id is not None and taken.session_id.startswith("survivor")


async def test_a_worker_whose_event_loop_is_blocked_keeps_its_leases(url: str, store: Store) -> None:
    run = await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), start_worker(url, "blocked", "blocked") as blocked:
        await blocked.wait_for_reports(at_least("begun"))
        first = last = await lease_expiry(url, run)
        while last < first + 2 * LEASE / MILLISECOND:
            assert await store.leases.expire() == []
            last = await lease_expiry(url, run)
            await asyncio.sleep(HEARTBEAT.total_seconds())
        await blocked.unblock()
        completed = await wait_for_status(store, run, RunStatus.COMPLETED)
    assert (completed.attempt, completed.session_id) == (1, "blocked.1")


async def test_a_worker_whose_event_loop_is_blocked_for_too_long_loses_its_leases(url: str, store: Store) -> None:
    """It may be blocked for ever, and nobody could tell."""
    run = await queued(store, "hi")
    async with (
        asyncio.timeout(HANG_TIMEOUT_SECONDS),
        start_worker(url, "blocked", "blocked", max_blocked_seconds=2 * LEASE.total_seconds()) as blocked,
    ):
        await blocked.wait_for_reports(at_least("begun"))
        await take_over(store, run)


async def lease_expiry(url: str, run: Run) -> int:
    """Return when the lease of a run expires, in milliseconds."""
    connection = await asyncpg.connect(url)
    try:
        select = "SELECT lease_expires_at FROM run_heads JOIN runs USING (run_key) WHERE id = $1"
        expiry: int = await connection.fetchval(select, run.id)
    finally:
        await connection.close()
    return expiry
