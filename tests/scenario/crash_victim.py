"""A worker that is killed at a scheduled point. It works on every run it finds."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from threading import Thread
from typing import Any, Final

import msgspec

import holdfast.store.postgres.database
import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.agent.model_stream import StreamTimings
from holdfast.agent.run_context import LoopConfig
from holdfast.bootstrap.store import SystemClock
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.domain.content import Json
from holdfast.domain.errors import IdTaken
from holdfast.domain.ids import RunId
from holdfast.domain.instant import Millis
from holdfast.domain.message import Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import ModelDelta, ModelFinished, ModelRequest, TextDelta
from tests.builders import user
from tests.scenario.crash_person import Person
from tests.scenario.crash_play import ANSWER, CAPTAIN, GOAL, moment
from tests.scenario.crash_tools import tools
from tests.support.commit_points import CommitPoints
from tests.support.database_probe import is_postgres, open_probe
from tests.support.fork_server import SendMessage

LEASE_MS: Final = 300
_COMMIT_INTERVAL_SECONDS: Final = 0.002
_CHUNK_SECONDS: Final = 0.003
_POLL_SECONDS: Final = 0.03
"""Seconds."""
_SLOTS_ALONE: Final = 8
_SLOTS_AMONG_OTHERS: Final = 3
_MAX_KILLED_ATTEMPTS: Final = 4
"""Attempts, of five, after which a worker is spared until a step is settled."""
_MAX_QUICK_ATTEMPTS: Final = 3
"""Attempts after which the backoff would take seconds."""

_ATTEMPTS: Final = "SELECT MAX(attempt) AS most FROM run_heads WHERE status IN ('queued', 'running')"
_LIVE: Final = "SELECT COUNT(*) AS live FROM run_heads WHERE status NOT IN ('completed', 'failed', 'cancelled')"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a victim, and the point at which it dies, if any."""

    database: str
    workspace: str
    server: str
    run: RunId | None = None
    """The run to start and follow to its end as its person; without one it works on runs of others."""
    on_last_attempt: bool = False
    """Whether it dies even if that uses up the last attempt of a run."""
    lifetime_seconds: float | None = None
    """The seconds after which it dies; without these and without a run, it works until no run is left."""
    answer: Json = ANSWER
    """The response of its person."""
    fatal: int | None = None
    """The number of the commit point at which it dies."""
    moments: frozenset[str] = frozenset()
    """The moments at which it dies."""
    after: frozenset[str] = frozenset()
    """The commit points at which it dies, by name."""
    lease_ms: int = LEASE_MS
    ahead_ms: int | None = None
    """Offset of its clock, by which leases are measured then."""


class OffsetClock:
    """`Clock` with an offset into the future."""

    def __init__(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms
        self._system = SystemClock()

    def now(self) -> Millis:
        """Return the current time plus the offset."""
        return Millis(self._system.now() + self.offset_ms)


class KillPoints(CommitPoints):
    """Counts commit points and moments, and kills this process at the first fatal one that fails no run."""

    def __init__(self, task: Task, send_message: SendMessage) -> None:
        super().__init__()
        self._task = task
        self._send_message = send_message
        self._kill_at_next_commit = False

    def reach(self, name: str) -> None:
        """Pass the next point."""
        super().reach(name)
        self._kill_at_next_commit |= name in self._task.after
        if self._is_fatal(name) and (
            self._task.on_last_attempt or _attempts(self._task.database) < _MAX_KILLED_ATTEMPTS
        ):
            self._send_message({"died": name})
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_fatal(self, name: str) -> bool:
        late = self._task.fatal is not None and len(self.names) >= self._task.fatal
        return late or name in self._task.moments or (self._kill_at_next_commit and name == "after COMMIT")


def _attempts(database: str) -> int:
    """Return the highest number of attempts in a row without a settled step, over all runs.

    It runs in its own thread, because the caller may be inside a running event loop.
    """

    async def read_attempts() -> int:
        async with open_probe(database) as probe:
            (row,) = await probe.rows(_ATTEMPTS)
            return row["most"] or 0

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(asyncio.run, read_attempts()).result()


def _die_after(lifetime_seconds: float, task: Task) -> None:
    """Kill this process after its time, as soon as that fails no run."""
    time.sleep(lifetime_seconds)
    while _attempts(task.database) >= (_MAX_QUICK_ATTEMPTS if task.run is None else _MAX_KILLED_ATTEMPTS):
        time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `Task`."""
    asyncio.run(_work(msgspec.convert(raw, Task), send_message))


async def _work(task: Task, send_message: SendMessage) -> None:
    moments = KillPoints(task, send_message)
    if is_postgres(task.database):
        moments.number_postgres()
    else:
        moments.number_sqlite()
    number_model_calls(moments)
    moments.start()
    if task.lifetime_seconds is not None:
        Thread(target=_die_after, args=(task.lifetime_seconds, task), daemon=True).start()
    async with open_task_workspace(task, moments) as holdfast:
        if task.run is None:
            await _work_for_others(task.database)
            return
        await start_play(holdfast, task.run)
        run = await Person(holdfast, task.database, task.server, task.run, answer=task.answer).follow()
        send_message({"ended": run.status, "points": moments.names})


async def _work_for_others(database: str) -> None:
    """Let the worker work until no run is left."""
    async with open_probe(database) as probe:
        while (await probe.rows(_LIVE))[0]["live"]:  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def open_task_workspace(task: Task, moments: KillPoints) -> AsyncIterator[OpenWorkspace]:
    """Open the workspace with a worker in it."""
    lease = timedelta(milliseconds=task.lease_ms)
    options = Options(
        workers=_SLOTS_ALONE if task.run is not None else _SLOTS_AMONG_OTHERS,
        lease=lease,
        heartbeat=lease / 3,
        loop_config=LoopConfig(stream_timings=StreamTimings(commit_seconds=_COMMIT_INTERVAL_SECONDS)),
        tools=tools(task.server, moments.reach),
    )
    clock = None if task.ahead_ms is None else OffsetClock(task.ahead_ms)
    async with open_workspace(task.workspace, database=task.database, options=options, clock=clock) as holdfast:
        yield holdfast


async def start_play(holdfast: OpenWorkspace, run: RunId) -> None:
    """Start the play, unless it was started before."""
    new = NewRun(id=run, thread=NewThread(agent_type=CAPTAIN), messages=[user(GOAL)])
    with suppress(IdTaken):
        await holdfast.runs.start(DEFAULT_SPACE, new)


def number_model_calls(moments: KillPoints) -> None:
    """Add kill points to each call of a scripted model, for the rest of the process."""
    play = ScriptedModel._play

    async def numbered(self: ScriptedModel, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        goal = next(message.content for message in request.messages if message.role is Role.USER)
        about = f"{goal} {request.position}"
        moments.reach(moment("model", about, "begun"))
        chunks = 0
        async for delta in play(self, request):
            if isinstance(delta, TextDelta):
                chunks += 1
                if chunks == 3:
                    moments.reach(moment("model", about, "inside"))
            else:
                await asyncio.sleep(_CHUNK_SECONDS)  # calls come in pieces too, as from a provider
            if isinstance(delta, ModelFinished):
                moments.reach(moment("model", about, "over"))
            yield delta

    ScriptedModel._play = numbered  # type: ignore[method-assign, assignment]
