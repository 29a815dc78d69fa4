"""Worker processes are stopped, continued and killed: each run always has exactly one owner."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Literal

import asyncpg
import msgspec
import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.commit import Lease
from holdfast.domain.ids import OwnerId
from holdfast.domain.run import Run, RunStatus
from holdfast.store.store import Store
from tests.builders import SECOND
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import queued, stream
from tests.scenario.load import HANG_TIMEOUT_SECONDS
from tests.scenario.worker_process import HEARTBEAT, Report, WorkerTask
from tests.support.postgres import PostgresServer
from tests.unit.engine.workers import HOUR, Actor, complete_run, running_worker, wait_for_status

MODULE: Final = "tests.scenario.worker_process"


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncIterator[str]:
    url = await postgres.create_database("workers")
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
async def start_worker(url: str, name: str, plays: Literal["idle", "busy"]) -> AsyncIterator[WorkerProcess]:
    task = msgspec.json.encode(WorkerTask(url, OwnerId(name), plays)).decode()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        MODULE,
        task,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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
