"""A run of an agent on the scripted model (20 chunks, no delay), in process, from `start` to its end.

The store's floor is the same run without an engine and an agent: created, claimed and finished through the store, with
the same events, message, step and context. The bare floor is the same rows in as many awaited commits, without us.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET

from benchmarks.bare_run import CHUNKS, EVENTS_OF_A_RUN, WORDS, BareRun
from benchmarks.databases import databases
from benchmarks.floors import floor
from benchmarks.table import Table
from holdfast.bootstrap import open_bus, open_store
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.context import ContextSnapshot
from holdfast.domain.events import TextMessageContent
from holdfast.domain.ids import MessageId, OwnerId, RunId, SpaceId, ThreadId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store

CONCURRENCY = (1, 16, 64)
ROUNDS = 3

_EVENT = TextMessageContent(message_id=MessageId("msg_1"), delta=WORDS, timestamp=1)
_CONTEXT = ContextSnapshot(
    step=1,
    model="scripted",
    segments=(),
    conversation=(),
    reminders=(),
    tools="",
    tokens={},
    first_sequence=0,
    last_sequence=0,
    compaction_through=None,
)


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of runs per second and their cost."""
    columns = ["runs at once", "runs/s", "CPU ms", "store runs/s", "ratio", "CPU ms", "bare runs/s", "ratio", "CPU ms"]
    table = Table(f"a run of an agent, 20 chunks: {backend}", columns)
    async with databases(backend) as (where, floor_database):
        for at_once in CONCURRENCY:
            rates = await _agents(where, at_once, seconds)
            stores, bares = await _store(where, at_once, seconds), await _bare(floor_database, at_once, seconds)
            cells: list[Any] = [at_once, rates[0], rates[1] * 1000]
            for rate, cpu in (stores, bares):
                cells += [rate, rates[0] / rate, cpu * 1000]
            table.add(*cells)
    return table


async def _agents(where: str | Path, at_once: int, seconds: float) -> tuple[float, float]:
    async with opened(where) as holdfast:
        return await best([partial(run_agent, holdfast)] * at_once, seconds)


async def _store(where: str | Path, at_once: int, seconds: float) -> tuple[float, float]:
    async with open_bus(where) as bus, open_store(where, bus=bus) as store:
        return await best([partial(_run_in_store, store)] * at_once, seconds)


async def _bare(floor_database: str | Path, at_once: int, seconds: float) -> tuple[float, float]:
    async with floor(floor_database) as ground:
        return await best([BareRun(ground, floor_database).run] * at_once, seconds)


async def best(works: list[Any], seconds: float) -> tuple[float, float]:
    """Return the best of several rounds: runs per second, and CPU seconds per run."""
    return max([await _rate(works, seconds / ROUNDS) for _ in range(ROUNDS)])


async def _run_in_store(store: Store) -> None:
    """Write the same run directly to the store."""
    payload = NewMessage(role=Role.USER, content=WORDS)
    await store.runs.create(DEFAULT_SPACE, NewRun(thread=NewThread(), messages=[payload]))
    leases: list[Lease] = []
    while not leases:  # another claimer may be faster: as many runs are queued as there are claimers
        leases = await store.leases.claim(OwnerId("bench"), lease=timedelta(minutes=1))
    lease = leases[0]
    await store.journal.open(lease)
    await store.journal.commit(
        Commit(
            lease=lease,
            events=[_EVENT] * EVENTS_OF_A_RUN,
            messages=[NewMessage(role=Role.ASSISTANT, content=WORDS)],
            steps=[Step(number=1, kind=StepKind.MODEL, name="scripted", key=f"{lease.run_id}.1", state=StepState.DONE)],
            contexts=[_CONTEXT],
            usage=ZERO_USAGE,
            iterations=1,
            move=Move(to=RunStatus.COMPLETED, output=WORDS),
        )
    )


@asynccontextmanager
async def opened(database: str | Path) -> AsyncIterator[OpenWorkspace]:
    """Open a workspace with one agent that answers in 20 chunks."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        agent = Path(folder) / "agents" / "default"
        agent.mkdir(parents=True)
        (agent / "AGENT.md").write_text("Answer the user.\n")
        (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json"}))
        turn = {"say": WORDS, "chunks": CHUNKS}
        (agent / "script.json").write_text(json.dumps({"turns": [turn], "after_last": "repeat"}))
        async with open_workspace(folder, database=database, options=Options(workers=max(CONCURRENCY))) as holdfast:
            yield holdfast


async def run_agent(
    holdfast: OpenWorkspace,
    *,
    agent: str = "default",
    text: str = WORDS,
    thread: ThreadId | None = None,
    base: RunId | None = None,
) -> RunId:
    """Start a run, on a new thread of an agent or after a run of one, wait for its end, and return its id."""
    new = NewRun(
        thread=thread or NewThread(agent_type=agent),
        base=UNSET if base is None else RunBase(run_id=base),
        messages=[NewMessage(role=Role.USER, content=text)],
    )
    run = (await holdfast.runs.start(DEFAULT_SPACE, new)).run.id
    await wait_until_ended(holdfast, run)
    return run


async def wait_until_ended(holdfast: OpenWorkspace, run: RunId, *, space: SpaceId = DEFAULT_SPACE) -> None:
    """Wait until a run has ended."""
    seq = 1
    with holdfast.watcher.watch(space, run) as watch:
        while (head := await watch.wait_past(seq)) is not None and not head.status.terminal:
            seq = head.last_event_seq


async def _rate(works: list[Any], seconds: float) -> tuple[float, float]:
    """Return runs per second, and CPU seconds per run."""
    until = time.perf_counter() + seconds

    async def repeat(work: Any) -> int:
        done = 0
        while time.perf_counter() < until:
            await work()
            done += 1
        return done

    started, used = time.perf_counter(), time.process_time()
    done = sum(await asyncio.gather(*map(repeat, works)))
    return done / (time.perf_counter() - started), (time.process_time() - used) / done
