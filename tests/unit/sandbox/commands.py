"""Commands to run in tests, and what is alive of them."""

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
"""Seconds after which nothing is alive of what was killed."""

OTHERS: Final[set[int]] = set()
"""Supervisors of servers that tests of this process share: they are nobody's who looks for one."""

# Each says that it is up. `MARK` is what its processes are found by.
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
"""A process that is always a new one, in a session of its own, before anybody gets hold of it."""
KINDS: Final = [*STUBBORN, "comet"]

_PLAIN: Final = Command(argv=["true"], folder=Path("/"), timeout=60.0)


def command(*argv: str, **fields: Any) -> Command:
    """Return a command that has time."""
    return msgspec.structs.replace(_PLAIN, argv=argv, **fields)


def shell(script: str, **fields: Any) -> Command:
    """Return a command that does what the script says."""
    return command("sh", "-c", script, **fields)


def python(code: str, *arguments: str, **fields: Any) -> Command:
    """Return a command that does what the Python says."""
    return command(sys.executable, "-I", "-S", "-c", code, *arguments, **fields)


def stubborn(kind: str, mark: str, **fields: Any) -> Command:
    """Return a command that does not want to end."""
    if kind == "comet":
        return shell(f"{shlex.quote(sys.executable)} -I -S -c '{COMET}' {mark}; sleep {mark}", **fields)
    return shell(STUBBORN[kind].replace("MARK", mark), **fields)


@contextmanager
def new_gate(folder: Path) -> Iterator[FileIO]:
    """Make a pipe `gate` in a folder: commands read it, and wait for what is written to it."""
    os.mkfifo(folder / "gate")
    with open(folder / "gate", "r+b", buffering=0) as gate:
        yield gate


def new_mark() -> str:
    """Return a number of seconds, nearly a day, that nobody else sleeps for: whoever has it as an argument is ours."""
    return f"86399.{secrets.randbelow(10**12):012}"


def marked(mark: str) -> list[int]:
    """Return the processes that have `mark` in their command line. The dead have none."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, mark)]


def asleep(mark: str) -> bool:
    """Say whether a command `sleep MARK` itself is there: those who make its sandbox have the mark too."""
    return any(_command_line(Path(f"/proc/{pid}")) == f"sleep\0{mark}\0" for pid in marked(mark))


async def died_out(*marks: str) -> bool:
    """Say whether soon nobody with one of these marks is alive."""
    return await eventually(lambda: not any(marked(mark) for mark in marks))


async def eventually(happened: Callable[[], bool], *, within: float = SOON) -> bool:
    """Say whether it happens in time. Whoever watches processes of others gets no event."""
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.002)
    return True


async def begin(processes: Processes, begun: Command) -> asyncio.Task[ProcessResult]:
    """Return a running command when it has said something."""
    up = asyncio.Event()
    task = asyncio.get_running_loop().create_task(processes.run(begun, on_output=lambda _: up.set()))
    async with asyncio.timeout(30):
        await up.wait()
    return task


def supervisors(worker: int) -> list[int]:
    """Return the supervisor of a worker and its keepers, which are forks of it."""
    found = (pid for pid in marked("supervisor.py") if _command_line(Path(f"/proc/{pid}")).endswith(f"\0{worker}\0"))
    return [pid for pid in found if pid not in OTHERS]


def pass_over_others() -> None:
    """From now on see only supervisors that are not there yet."""
    OTHERS.update(supervisors(os.getpid()))


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
