"""However a command ends, it leaves no process, no open file and no task."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from holdfast.domain.errors import Invalid
from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from tests.support.fork_server import ForkServer, SendMessage
from tests.unit.sandbox.commands import KINDS, begin, command, eventually, marked, new_mark, shell, stubborn, supervisor

ORPHAN = """
mkfifo pipe
sh -c 'setsid sh -c "while kill -0 \\$0; do :; done; echo orphaned > pipe" $$ &' 2> /dev/null
cat pipe
"""


class Resources(NamedTuple):
    """Open files, children and tasks of this process."""

    files: list[str]
    children: set[int]
    tasks: int


async def test_background_processes_die_with_their_command(processes: SupervisedProcesses) -> None:
    mark = new_mark()
    ended = await processes.run(shell(f"(setsid sleep {mark} &); sleep {mark} & echo done"))
    assert (ended.exit_code, ended.output) == (0, b"done\n")
    assert marked(mark) == []


async def test_an_orphaned_process_lives_as_long_as_its_command(processes: SupervisedProcesses, tmp_path: Path) -> None:
    assert (await processes.run(shell(ORPHAN, folder=tmp_path))).output == b"orphaned\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_after_a_timeout_no_process_is_left(processes: SupervisedProcesses, kind: str) -> None:
    mark = new_mark()
    ended = await processes.run(stubborn(kind, mark, timeout=0.3))
    assert ended.timed_out
    assert marked(mark) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_after_a_cancellation_no_process_is_left(processes: SupervisedProcesses, kind: str) -> None:
    mark = new_mark()
    running = await begin(processes, stubborn(kind, mark))
    assert marked(mark)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert marked(mark) == []


async def test_after_a_failed_output_callback_no_process_is_left(processes: SupervisedProcesses) -> None:
    mark = new_mark()
    with pytest.raises(ZeroDivisionError):
        await processes.run(shell(f"echo up; sleep {mark}"), on_output=_fail)
    assert marked(mark) == []


async def test_cancelling_one_command_leaves_the_others_running(processes: SupervisedProcesses) -> None:
    marks = [new_mark() for _ in range(3)]
    first, second, third = [await begin(processes, stubborn("daemon", mark)) for mark in marks]
    second.cancel()
    await asyncio.wait([second])
    assert [bool(marked(mark)) for mark in marks] == [True, False, True]
    for running in (first, third):
        running.cancel()
    await asyncio.wait([first, third])


async def test_an_ended_command_leaves_no_resources_behind() -> None:
    """Runs in a separate process, where no other test opens or closes files."""
    async with ForkServer(f"{__name__}:run_and_compare") as server:
        await server.send(None)


def run_and_compare(_task: None, _say: SendMessage) -> None:
    """Run commands that end in every way, and fail if one leaves a resource behind."""
    asyncio.run(_run_and_compare())


async def _run_and_compare() -> None:
    empty = _resources()
    async with open_processes() as processes:
        await processes.run(command("true"))
        before = _resources()
        for end in (_succeed, _time_out, _do_not_start, _be_cancelled, _be_failed):
            await end(processes)
            assert _resources() == before, f"{end.__name__}: {_resources()}, and {before} before"
        idle_fds = supervisor().num_fds()
        assert await eventually(lambda: supervisor().children() == [] and supervisor().num_fds() == idle_fds)
    assert _resources() == empty, f"at the end: {_resources()}, and {empty} before"


async def _succeed(processes: SupervisedProcesses) -> None:
    await processes.run(shell("cat; exit 1", input=bytes(100_000)))


async def _time_out(processes: SupervisedProcesses) -> None:
    await processes.run(command("sleep", new_mark(), input=bytes(100_000), timeout=0.1))


async def _do_not_start(processes: SupervisedProcesses) -> None:
    for wrong in (command("no-such-program"), command("true", folder=Path("/no/such")), command("")):
        with pytest.raises(Invalid):
            await processes.run(wrong)


async def _be_cancelled(processes: SupervisedProcesses) -> None:
    running = await begin(processes, shell(f"echo up; sleep {new_mark()}"))
    running.cancel()
    await asyncio.wait([running])


async def _be_failed(processes: SupervisedProcesses) -> None:
    with pytest.raises(ZeroDivisionError):
        await processes.run(command("echo"), on_output=_fail)


def _fail(piece: bytes) -> None:
    raise ZeroDivisionError


def _resources() -> Resources:
    with os.scandir("/proc/self/fd") as links:
        files = [os.readlink(link) for link in links]
    children = {child.pid for child in psutil.Process().children()}
    return Resources(sorted(files), children, len(asyncio.all_tasks()))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted only on Linux")
async def test_a_command_with_too_many_processes_is_killed(processes: SupervisedProcesses) -> None:
    mark = new_mark()
    crowd = f"for i in 1 2 3 4 5 6; do (setsid sleep {mark} &); done; sleep {mark}"
    ended = await processes.run(shell(crowd, max_processes=4))
    assert (ended.too_many_processes, ended.signal, ended.timed_out) == (True, signal.SIGKILL, False)
    assert marked(mark) == []


async def test_a_command_at_its_process_limit_is_not_killed(processes: SupervisedProcesses) -> None:
    ended = await processes.run(shell("sleep 0.3 & sleep 0.3", max_processes=4))
    assert (ended.too_many_processes, ended.exit_code) == (False, 0)
