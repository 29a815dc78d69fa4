"""What a call of a tool costs: in process, and as a command in the sandbox, beside a bare subprocess.

The same command, `true`, is started by `asyncio` itself, by our supervisor, by our supervisor with limits, in the
sandbox, and as a call of `bash` with all that is around it. There is no run and no store: `agents` measures those.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from benchmarks.table import Table
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.ids import MessageId, OwnerId, RunId, SpaceId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits
from holdfast.domain.plan import Boundary
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.domain.usage import Usage
from holdfast.ports.processes import Command
from holdfast.ports.sandbox import Confined, Sandbox
from holdfast.sandbox.files.folders import WorkspaceFolders
from holdfast.sandbox.none import Refusing, Unconfined
from holdfast.sandbox.probe import find
from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from holdfast.tools.builtin.bash import bash
from holdfast.tools.builtin.todo_read import TODO_READ
from holdfast.tools.commands.commands import Commands
from holdfast.tools.redaction import Redaction
from holdfast.tools.tool import Call
from holdfast.tools.wrapped import wrapped

NOW: Final = Instant("2026-01-31T12:00:00.000Z")
ROUNDS: Final = 3


async def measure(backend: str, *, seconds: float) -> Table:
    """Return a table of milliseconds for each call, the same on every `backend`."""
    table = Table("a call of a tool, without a store", ["what", "ms", "beside a bare subprocess"])
    with tempfile.TemporaryDirectory() as folder:
        async with open_processes() as processes:
            ways = await _ways(Path(folder), processes)
            taken = {name: await _best(once, seconds / ROUNDS) for name, once in ways.items()}
    for name, each in taken.items():
        table.add(name, each * 1000, f"{each / taken['bare subprocess']:.2f}×")
    return table


async def _ways(folder: Path, processes: SupervisedProcesses) -> dict[str, Callable[[], Awaitable[object]]]:
    call, todo = _call(), wrapped(TODO_READ, redaction=Redaction())
    plain = Command(argv=["/bin/true"], folder=folder, timeout=60.0)
    confined = Confined(argv=["/bin/true"], root=folder, folder=folder, timeout=60.0)
    unconfined, sandbox = Unconfined(processes), await find(processes)
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "in process: `todo_read`": lambda: todo.run(call, {}),
        "bare subprocess": _bare,
        "supervised": lambda: processes.run(plain),
        "supervised, with limits": lambda: unconfined.run(confined),
    }
    if isinstance(sandbox, Refusing):
        return ways  # what is not there is not measured
    shell = wrapped(bash(_commands(sandbox, folder)), redaction=Redaction())
    return ways | {
        "in the sandbox": lambda: sandbox.run(confined),
        "a call of `bash`": lambda: shell.run(call, {"command": "true"}),
    }


def _commands(sandbox: Sandbox, folder: Path) -> Commands:
    return Commands(sandbox, WorkspaceFolders(folder), workspace=folder)


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", stdout=asyncio.subprocess.PIPE)
    await process.communicate()


async def _best(once: Callable[[], Awaitable[object]], seconds: float) -> float:
    await once()  # the first one starts what all others use
    return min([await _each(once, seconds) for _ in range(ROUNDS)])


async def _each(once: Callable[[], Awaitable[object]], seconds: float) -> float:
    """Return the seconds that one takes, done one after the other for a while."""
    begin, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds or done == 0:
        await once()
        done += 1
    return passed / done


def _call() -> Call:
    """Return a call as a worker makes it."""
    run = Run(
        id=RunId("run_1"),
        thread_id=ThreadId("thr_1"),
        space_id=SpaceId("spc_1"),
        mode=Mode.TASK,
        agent_type="bench",
        model="scripted:bench.json",
        status=RunStatus.RUNNING,
        status_reason=None,
        base_run_id=None,
        base_sequence=None,
        parent_run_id=None,
        root_run_id=RunId("run_1"),
        root_thread_id=ThreadId("thr_1"),
        child_thread_id=None,
        session_id=None,
        input=None,
        output=None,
        error=None,
        usage=Usage(cost_usd=0.0),
        priority=Priority.NORMAL,
        tags=[],
        limits=Limits(),
        iterations=1,
        attempt=1,
        wait_until=None,
        idempotency_key=None,
        last_event_seq=1,
        created_by=None,
        cancelled_by=None,
        created_at=NOW,
        queued_at=NOW,
        started_at=NOW,
        completed_at=None,
    )
    lease = Lease(
        space_id=run.space_id,
        run_id=run.id,
        thread_id=run.thread_id,
        owner=OwnerId("bench"),
        number=1,
        expires_at=NOW,
        space_key=1,
        run_key=1,
        thread_key=1,
        parent_key=None,
        run=run,
    )

    async def next_task_id() -> int:
        return 1

    return Call(
        id=ToolCallId("call_1"),
        key="run_1.1",
        lease=lease,
        agent=Agent(name="bench", description="", models=["scripted:bench.json"], instructions=""),
        message_id=MessageId("msg_1"),
        at=Boundary(message_sequence_num=1, content_sequence_num=0),
        now=NOW,
        values={},
        next_task_id=next_task_id,
    )
