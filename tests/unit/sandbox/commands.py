"""Commands to run in tests, and lookups of their living processes."""

import asyncio
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from holdfast.ports.sandbox import Command, Processes, ProcessResult

SOON: Final = 1.0
"""Seconds within which killed processes must be gone."""

IGNORED_SUPERVISORS: Final[set[int]] = set()
"""Supervisors of servers shared by the tests of this process, which lookups ignore."""

# Each prints `up` once it runs. Its processes are found by `MARK`.
STUBBORN: Final = {
    "plain": "echo up; sleep MARK",
    "deaf": "trap '' TERM HUP INT QUIT; echo up; while :; do sleep MARK; done",
    "daemon": "(setsid sh -c 'sleep MARK & sleep MARK' &); echo up; sleep MARK",
    "swarm": "echo up; while :; do (setsid sleep MARK &); sleep 0.01; done",
    "closed": "echo up; exec <&- >&- 2>&-; sleep MARK",
    "holding": "(setsid sleep MARK &); echo up; kill -STOP $$",
}
COMET: Final = """
import os
print("up", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""A process that forks into a new session faster than it can be killed."""
KINDS: Final = [*STUBBORN, "comet"]

_PLAIN: Final = Command(argv=["true"], folder=Path("/"), timeout=60.0)


def command(*argv: str, **fields: Any) -> Command:
    """Return a command with a long timeout."""
    return msgspec.structs.replace(_PLAIN, argv=argv, **fields)


def shell(script: str, **fields: Any) -> Command:
    """Return a command that runs a shell script."""
    return command("sh", "-c", script, **fields)


def python(code: str, *arguments: str, **fields: Any) -> Command:
    """Return a command that runs Python code."""
    return command(sys.executable, "-I", "-S", "-c", code, *arguments, **fields)


def stubborn(kind: str, mark: str, **fields: Any) -> Command:
    """Return a command that resists being killed."""
    if kind == "comet":
        return shell(f"{shlex.quote(sys.executable)} -I -S -c '{COMET}' {mark}; sleep {mark}", **fields)
    return shell(STUBBORN[kind].replace("MARK", mark), **fields)


@contextmanager
def new_gate(folder: Path) -> Iterator[FileIO]:
    """Create a named pipe `gate` in a folder, which commands read to wait for the test."""
    os.mkfifo(folder / "gate")
    with open(folder / "gate", "r+b", buffering=0) as gate:
        yield gate


def new_mark() -> str:
    """Return a unique number of seconds, nearly a day: processes with it as an argument belong to the test."""
    return f"86399.{secrets.randbelow(10**12):012}"


def marked(mark: str) -> list[int]:
    """Return the processes with `mark` in their command line. Zombies have an empty one."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, mark)]


def asleep(mark: str) -> bool:
    """Return whether a process `sleep MARK` itself runs: the sandbox programs around it have the mark too."""
    return any(_command_line(Path(f"/proc/{pid}")) == f"sleep\0{mark}\0" for pid in marked(mark))


async def died_out(*marks: str) -> bool:
    """Return whether all processes with these marks end soon."""
    return await eventually(lambda: not any(marked(mark) for mark in marks))


async def eventually(condition: Callable[[], bool], *, within: float = SOON) -> bool:
    """Return whether `condition` becomes true in time. It is polled: other processes send no events."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.002)
    return True


async def begin(processes: Processes, command: Command) -> asyncio.Task[ProcessResult]:
    """Start a command and return its task after its first output."""
    up = asyncio.Event()
    task = asyncio.get_running_loop().create_task(processes.run(command, on_output=lambda _: up.set()))
    async with asyncio.timeout(30):
        await up.wait()
    return task


def supervisors(worker: int) -> list[int]:
    """Return the supervisor of a worker and its monitors, which are forks of it."""
    found = (pid for pid in marked("supervisor.py") if _command_line(Path(f"/proc/{pid}")).endswith(f"\0{worker}\0"))
    return [pid for pid in found if pid not in IGNORED_SUPERVISORS]


def ignore_existing_supervisors() -> None:
    """Ignore the supervisors that exist now in later lookups."""
    IGNORED_SUPERVISORS.update(supervisors(os.getpid()))


def supervisor() -> psutil.Process:
    """Return the supervisor of this process."""
    return next(child for child in psutil.Process().children() if child.pid in supervisors(os.getpid()))


def _has(process: Path, mark: str) -> bool:
    return mark in _command_line(process)


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
