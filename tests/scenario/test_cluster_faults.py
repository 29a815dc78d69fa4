"""Three replicas and eight workers lose nothing and do nothing twice, whatever is killed, cut off or stopped.

Every reader sees each event once and in order, although it reconnects at any replica at any time.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.ids import RunId
from holdfast.domain.space import DEFAULT_SPACE
from tests.api.streams.readers import post, sse
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.cluster import FAULTS, WORKERS, Cluster, run_cluster
from tests.scenario.crash_check import check_play
from tests.scenario.crash_history import read
from tests.support.counting_server import CountedCall
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer

SEED: Final = 20_261_119
QUICK: Final = (*FAULTS, "kill_worker", "fault_request", "fault_request")
"""Each kind of fault, and some again."""
SLOW_FAULTS: Final = 100
SLOW_ROUNDS: Final = 20
CLIENTS: Final = 8
FAULTS_AT_ONCE: Final = 4
MAX_PAUSE_SECONDS: Final = 1.0
REQUEST_TIMEOUT_SECONDS: Final = 5.0
RUN_TIMEOUT_SECONDS: Final = 240.0
"""Seconds after which a run counts as lost."""
LAST_FRAME_RETRY_MS: Final = 86_400_000
"""The `retry:` that ends the stream of an ended run."""
_HEADS: Final = """
    SELECT r.id, h.status, h.attempt, h.lease_owner, h.last_event_seq
      FROM runs r JOIN run_heads h ON h.run_key = r.run_key
     WHERE h.status NOT IN ('completed', 'failed', 'cancelled')
"""
EFFECT: Final = """arguments=$(cat)
echo "$HOLDFAST_CALL_KEY $arguments" >> {effects}
sleep 0.05
echo '"done"'
"""


def write_workspace(folder: Path) -> None:
    """Write an agent that plans, has effects and asks another one, and tools whose effects are lines of a file."""
    workshop = AgentWorkspace(folder / "workspace", folder / "unused.db")
    subject = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    for name, kind in (("charge", "effectful"), ("sync", "idempotent")):
        tool = {
            "name": name,
            "description": name,
            "parameters": subject,
            "command": ["sh", "./run.sh"],
            "class": kind,
            "untrusted": False,
        }
        workshop.write(f"tools/{name}/tool.json", tool)
        workshop.write(f"tools/{name}/run.sh", EFFECT.format(effects=folder / "effects"))
    slow = {"chunks": 4, "delay_ms": 20}
    turns = [
        calling(call("plan_create", title="Sail"), **say("First a plan.", **slow)),
        calling(call("charge", what="fuel"), **say("We need fuel.", **slow)),
        calling(call("sync", what="manifest"), call("charge", what="water"), **say("Papers and water.", **slow)),
        calling(call("agent_spawn", agent="mate", input="Load."), **say("Load!", **slow)),
        say("All is done and paid.", **slow),
    ]
    workshop.agent(*turns, name="captain", tools=["plan_create", "charge", "sync", "agent_spawn"])
    mate = [calling(call("charge", what="wages"), **say("Aye.", **slow)), say("Loaded.", **slow)]
    workshop.agent(*mate, name="mate", tools=["charge"])
    for number in range(WORKERS):
        (folder / f"worker-{number}").mkdir()
        (folder / f"worker-{number}/settings.json").write_text('{"sandbox": "off"}')


class Clients:
    """Clients that start runs and read them to the end, each request at any replica."""

    def __init__(self, cluster: Cluster, database: str) -> None:
        self.events: dict[RunId, list[bytes]] = {}
        """The events of each run, as its reader received them."""
        self._database = database
        self._hosts = cluster.hosts
        self._random = cluster.random
        self._numbers = count(1)

    async def play_until(self, done: asyncio.Event) -> None:
        """Play one run after the other."""
        while not done.is_set():
            await self.play()

    async def play(self) -> RunId:
        """Start a run, and read it to its end."""
        number = next(self._numbers)
        run, thread = RunId(f"run-{number}"), f"thr-{number}"
        self.events[run] = []
        try:
            async with asyncio.timeout(RUN_TIMEOUT_SECONDS):
                await self._create("/api/threads", {"id": thread, "agent_type": "captain"})
                await self._create(f"/api/threads/{thread}/runs", {"id": run, "input": "Sail to Kobe."})
                await self._read(run)
        except TimeoutError as exc:
            async with open_probe(self._database) as probe:
                heads = [dict(row) for row in await probe.rows(_HEADS)]
            raise AssertionError(
                f"`{run}` did not end; its reader has {len(self.events[run])} events: {heads}"
            ) from exc
        return run

    async def _create(self, path: str, body: dict[str, str]) -> None:
        """Send a request until it is acknowledged; 409 means that an earlier one was done."""
        while True:
            with suppress(OSError, IndexError, TimeoutError):  # cut off before the whole status line
                async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                    status = await post(self._random.choice(self._hosts), path, body)
                if status in (201, 409):
                    return
                assert status == 503, status
            await asyncio.sleep(0.05)

    async def _read(self, run: RunId) -> None:
        while not await self._read_some(run, seconds=self._random.uniform(0.05, 2)):  # noqa: ASYNC110 - it reads
            await asyncio.sleep(0.01)

    async def _read_some(self, run: RunId, *, seconds: float) -> bool:
        """Read on at any replica for some time; return whether the stream has ended."""
        events, host = self.events[run], self._random.choice(self._hosts)
        with suppress(OSError, ValueError, IndexError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(seconds), sse(host, f"/api/runs/{run}/sse", after=len(events) or None) as stream:
                if stream.status != 200:
                    assert stream.status == 503, f"{stream.status} after {len(events)} events of `{run}`"
                    return False
                while (frame := await stream.frame()) is not None:
                    if frame.data is not None:
                        assert frame.id == len(events) + 1, f"`{run}`: {frame.id} came after {len(events)}"
                        events.append(frame.data)
                    elif frame.retry == LAST_FRAME_RETRY_MS:
                        return True
        return False


@pytest.fixture
async def nats() -> AsyncIterator[NatsServer]:
    async with NatsServer() as server:
        yield server


async def test_faults_of_any_part_lose_nothing_double_nothing_and_hide_no_event(
    tmp_path: Path, own_postgres: PostgresServer, nats: NatsServer
) -> None:
    """One fault of each kind at least, in random order."""
    random = Random(SEED)
    await inject_faults(tmp_path, own_postgres, nats, random.sample(QUICK, k=len(QUICK)), outage_seconds=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SLOW_ROUNDS))
async def test_2000_faults_of_any_part_lose_nothing_double_nothing_and_hide_no_event(
    tmp_path: Path, own_postgres: PostgresServer, nats: NatsServer, seed: int
) -> None:
    """In 20 rounds, each on a database of its own: a seed repeats its round."""
    weights = [1 if name == "stop_postgres" else 3 for name in FAULTS]  # while it is down, other faults meet nothing
    names = Random(seed).choices(list(FAULTS), weights, k=SLOW_FAULTS)
    await inject_faults(tmp_path, own_postgres, nats, names, outage_seconds=10)


async def inject_faults(
    folder: Path, postgres: PostgresServer, nats: NatsServer, names: Sequence[str], *, outage_seconds: float
) -> None:
    """Inject faults while clients play, and check everything afterwards."""
    write_workspace(folder)
    database = await postgres.create_store("cluster")
    random = Random(" ".join(names))
    async with run_cluster(folder, database, postgres, nats, outage_seconds=outage_seconds, random=random) as cluster:
        clients, done = Clients(cluster, database), asyncio.Event()
        undisturbed = await clients.play()
        async with asyncio.TaskGroup() as playing:
            for _ in range(CLIENTS):
                playing.create_task(clients.play_until(done))
            waiting = iter(names)
            await asyncio.gather(*(_inject_one_by_one(cluster, waiting) for _ in range(FAULTS_AT_ONCE)))
            done.set()
    async with open_probe(database) as probe:
        await check_log(probe)
    await check_runs(database, clients, undisturbed, _effects(folder))


async def _inject_one_by_one(cluster: Cluster, names: Iterator[str]) -> None:
    for name in names:
        await FAULTS[name](cluster)
        await asyncio.sleep(cluster.random.uniform(0.1, MAX_PAUSE_SECONDS))


async def check_runs(
    database: str, clients: Clients, undisturbed_run: RunId, effects: dict[str, list[CountedCall]]
) -> None:
    """Assert that every run ended like the undisturbed one, with its effects, and was read without a gap."""
    async with open_store(database, bus=LocalBus()) as store:
        undisturbed = await read(store, undisturbed_run)
        for run, events in clients.events.items():
            logged = await store.events.after(DEFAULT_SPACE, run, limit=10_000)
            assert events == [event.data for event in logged], f"a reader of `{run}` saw something else"
            history = await read(store, run)
            calls = [each for part in history.all() for each in effects.get(part.run.id, ())]
            check_play(history, undisturbed, calls, streams=False)


def _effects(folder: Path) -> dict[str, list[CountedCall]]:
    """Return the effects by run."""
    effects: dict[str, list[CountedCall]] = {}
    for line in (folder / "effects").read_text().splitlines():
        key, _, arguments = line.partition(" ")
        run = key.rpartition(".")[0]
        effects.setdefault(run, []).append(CountedCall(tool="", key=key, name=f"{run}/{arguments}"))
    return effects
