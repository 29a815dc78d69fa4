"""Cost of a tool call: in process, and as a command in the sandbox, compared with a bare subprocess.

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
from holdfast.ports.sandbox import Command, Sandbox, SandboxCommand
from holdfast.sandbox.detection import RefusingSandbox, UnconfinedSandbox, detect_sandbox
from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.builtin.notes import TODO_READ
from holdfast.tools.builtin.shell import bash
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.redaction import Redaction
from tests.support.calls import a_call

ROUNDS: Final = 3


async def measure(*, seconds: float) -> Table:
    """Return a table of milliseconds per call."""
    table = Table("a call of a tool, without a store", ["what", "ms", "beside a bare subprocess"])
    with tempfile.TemporaryDirectory() as folder:
        async with open_processes() as processes:
            ways = await _ways(Path(folder), processes)
            timings = {name: await _best(invoke, seconds / ROUNDS) for name, invoke in ways.items()}
    for name, each in timings.items():
        table.add(name, each * 1000, f"{each / timings['bare subprocess']:.2f}×")
    return table


async def _ways(folder: Path, processes: SupervisedProcesses) -> dict[str, Callable[[], Awaitable[object]]]:
    call, todo = a_call(), with_standard_middleware(TODO_READ, redaction=Redaction())
    plain = Command(argv=["/bin/true"], folder=folder, timeout=60.0)
    confined = SandboxCommand(argv=["/bin/true"], root=folder, folder=folder, timeout=60.0)
    unconfined, sandbox = UnconfinedSandbox(processes), await detect_sandbox(processes)
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "in process: `todo_read`": lambda: todo.run(call, {}),
        "bare subprocess": _bare,
        "supervised": lambda: processes.run(plain),
        "supervised, with limits": lambda: unconfined.run(confined),
    }
    if isinstance(sandbox, RefusingSandbox):
        return ways  # no sandbox on this machine
    shell = with_standard_middleware(bash(_commands(sandbox, folder)), redaction=Redaction())
    return ways | {
        "in the sandbox": lambda: sandbox.run(confined),
        "a call of `bash`": lambda: shell.run(call, {"command": "true"}),
    }


def _commands(sandbox: Sandbox, folder: Path) -> CommandRunner:
    return CommandRunner(sandbox, WorkspaceFolders(folder), workspace=folder)


async def _bare() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true", stdout=asyncio.subprocess.PIPE)
    await process.communicate()


async def _best(invoke: Callable[[], Awaitable[object]], seconds: float) -> float:
    await invoke()  # the first call starts shared processes
    return min([await _each(invoke, seconds) for _ in range(ROUNDS)])


async def _each(invoke: Callable[[], Awaitable[object]], seconds: float) -> float:
    """Return the seconds per call, of sequential calls."""
    begin, done = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds or done == 0:
        await invoke()
        done += 1
    return passed / done
