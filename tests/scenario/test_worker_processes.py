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
from tests.scenario.worker_process import BEAT, Part, Said
from tests.support.postgres import PostgresServer
from tests.unit.engine.workers import HOUR, Actor, becomes, completing, working

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


class Performance:
    """A worker process, and its reports so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[Said] = []

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self._process.pid, number)

    async def has_said(self, enough: Callable[[list[Said]], bool]) -> None:
        """Wait until its reports satisfy a condition."""
        while not enough(self.said):
            assert self._process.stdout is not None
            line = await self._process.stdout.readline()
            assert line, "it ended"
            self.said.append(msgspec.json.decode(line, type=Said))

    async def catch_up(self) -> None:
        """Read the reports that a stopped process had written."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await self.has_said(lambda _: False)


@asynccontextmanager
async def performing(url: str, name: str, plays: Literal["idle", "busy"]) -> AsyncIterator[Performance]:
    part = msgspec.json.encode(Part(url, OwnerId(name), plays)).decode()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        MODULE,
        part,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Performance(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def times(what: str, count: int = 1) -> Callable[[list[Said]], bool]:
    return lambda said: sum(each.what == what for each in said) >= count


async def taken_over(store: Store, run: Run) -> Lease:
    """Claim a run of a worker that does not renew its lease."""
    taken: list[Lease] = []
    while not taken:
        await store.leases.expire()
        taken = await store.leases.claim(SECOND, lease=HOUR)
        await asyncio.sleep(0.02)
    assert taken[0].run_id == run.id
    return taken[0]


@pytest.mark.parametrize("plays", ["idle", "busy"])
async def test_a_worker_that_stood_still_past_its_lease_writes_nothing_and_notices_within_one_beat(
    url: str, store: Store, plays: Literal["idle", "busy"]
) -> None:
    run = await queued(store, "hi")
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS), performing(url, "sleeper", plays) as sleeper:
        await sleeper.has_said(times("begun" if plays == "idle" else "committed"))
        sleeper.send(signal.SIGSTOP)
        taken = await taken_over(store, run)
        await sleeper.catch_up()
        before, told = await stream(store, run.id), len(sleeper.said)
        sleeper.send(signal.SIGCONT)
        await sleeper.has_said(lambda said: any(each.what in ("cut", "refused") for each in said[told:]))
        later = [each.what for each in sleeper.said[told:]]
        assert later.count("beat") <= 1
        assert await stream(store, run.id) == before
        assert await store.leases.renew(SECOND, [taken], lease=HOUR), "it is still ours"
        assert later.count("committed") <= 1, "one that was made before it stood still may be answered now"


async def test_a_worker_that_is_killed_leaves_its_run_to_another(url: str, store: Store) -> None:
    run = await queued(store, "hi")
    async with performing(url, "victim", "busy") as victim, open_bus(url) as bus:
        async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
            await victim.has_said(times("committed", 3))
        victim.send(signal.SIGKILL)
        async with working(store, bus, Actor(completing(store)), patience=0.1, owner=SECOND, heartbeat=BEAT):
            done = await becomes(store, run, RunStatus.COMPLETED)
    assert done.session_id is not None and done.session_id.startswith(SECOND)
    assert done.attempt > 1, "a worker that dies used up an attempt"
