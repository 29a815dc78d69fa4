"""The supervisor starts on demand, inherits nothing from the worker, and may die."""

import asyncio
import inspect
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest

from holdfast.domain.errors import Unavailable
from holdfast.sandbox import processes as processes_module
from holdfast.sandbox import supervisor as program
from holdfast.sandbox import supervisor_client
from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from holdfast.sandbox.supervisor import children, scan_children
from tests.unit.sandbox.commands import (
    begin,
    command,
    died_out,
    eventually,
    marked,
    new_gate,
    new_mark,
    shell,
    stubborn,
    supervisor,
    supervisors,
)


async def test_the_supervisor_starts_with_the_first_command() -> None:
    async with open_processes() as processes:
        assert supervisors(os.getpid()) == []
        await processes.run(command("true"))
        assert supervisor().is_running()
    assert supervisors(os.getpid()) == []


async def test_the_supervisor_inherits_no_open_files(processes: SupervisedProcesses, tmp_path: Path) -> None:
    opened = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(opened, True)
    running = await begin(processes, shell(f"echo up; sleep {new_mark()}"))
    ours = _files(os.getpid())
    assert str(tmp_path / "file") in ours
    for process in (supervisor(), *supervisor().children()):
        assert _files(process.pid) & ours <= {"/dev/null", os.readlink("/proc/self/fd/2")}
    running.cancel()
    await asyncio.wait([running])
    os.close(opened)


async def test_the_supervisor_inherits_no_environment_and_no_folder(processes: SupervisedProcesses) -> None:
    await processes.run(command("true"))
    assert set(supervisor().environ()) <= {"LD_LIBRARY_PATH"}
    assert supervisor().cwd() == "/"


async def test_the_supervisor_ignores_signals_to_its_group(processes: SupervisedProcesses, tmp_path: Path) -> None:
    with new_gate(tmp_path) as gate:
        running = await begin(processes, shell("echo up; read line < gate; echo done", folder=tmp_path))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE):
            for process in (supervisor(), *supervisor().children()):
                process.send_signal(number)
        gate.write(b"\n")
        assert (await running).output == b"up\ndone\n"


async def test_when_the_supervisor_dies_its_commands_fail_and_the_next_one_gets_a_new_supervisor(
    processes: SupervisedProcesses,
) -> None:
    marks = [new_mark(), new_mark()]
    running = [
        await begin(processes, stubborn(kind, mark)) for kind, mark in zip(("daemon", "comet"), marks, strict=True)
    ]
    dead = supervisor()
    dead.kill()
    for failing in running:
        with pytest.raises(Unavailable, match="its supervisor died") as error:
            await failing
        assert error.value.details == {"started": True}
    assert [marked(mark) for mark in marks] == [[], []]
    assert (await processes.run(command("echo", "again"))).output == b"again\n"
    assert supervisor().pid != dead.pid


@pytest.mark.parametrize("name", ["KILL", "STOP"])
async def test_a_command_that_signals_its_monitor_dies(processes: SupervisedProcesses, name: str) -> None:
    mark = new_mark()
    with pytest.raises(Unavailable, match="its supervisor died"):
        await processes.run(shell(f"(setsid sleep {mark} &); kill -{name} $PPID; sleep {mark}"))
    assert await died_out(mark)
    assert (await processes.run(command("true"))).exit_code == 0
    assert await eventually(lambda: supervisor().children() == [])


async def test_a_supervisor_that_hangs_is_replaced(
    processes: SupervisedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = new_mark()
    running = await begin(processes, stubborn("daemon", mark))
    hung = supervisor()
    hung.suspend()
    monkeypatch.setattr(processes_module, "START_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(Unavailable, match="hung: it was killed"):
        await processes.run(command("true"))
    monkeypatch.undo()
    assert not hung.is_running()
    with pytest.raises(Unavailable, match="its supervisor died"):
        await running
    assert marked(mark) == []
    assert (await processes.run(command("true"))).exit_code == 0


async def test_a_command_that_hangs_before_it_starts_fails_alone(
    processes: SupervisedProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _alter(monkeypatch, tmp_path, "os.chdir(request.folder)", "request.folder == b'/' or signal.pause()")
    running = await begin(processes, shell(f"echo up; sleep {new_mark()}"))
    monkeypatch.setattr(processes_module, "START_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(Unavailable, match="`true` does not start"):
        await processes.run(command("true", folder=tmp_path))
    assert not running.done()
    assert await eventually(lambda: len(supervisor().children()) == 1)
    running.cancel()
    await asyncio.wait([running])


async def test_commands_cancelled_before_their_start_never_start(
    processes: SupervisedProcesses, tmp_path: Path
) -> None:
    await processes.run(command("true"))
    supervisor().suspend()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.gather(*(processes.run(command("touch", str(n), folder=tmp_path)) for n in range(10)))
    supervisor().resume()
    assert (await processes.run(command("true"))).exit_code == 0
    assert await eventually(lambda: supervisor().children() == [])
    assert os.listdir(tmp_path) == []


async def test_at_the_end_of_the_block_running_commands_are_killed() -> None:
    mark = new_mark()
    async with open_processes() as processes:
        running = await begin(processes, stubborn("daemon", mark))
    assert marked(mark) == []
    assert supervisors(os.getpid()) == []
    with pytest.raises(Unavailable, match="its supervisor died"):
        await running
    with pytest.raises(Unavailable, match="this worker is shutting down"):
        await processes.run(command("true"))
    await processes.close()


async def test_without_open_files_a_command_is_unavailable(processes: SupervisedProcesses) -> None:
    with _room_for_files(4), pytest.raises(Unavailable, match="raise the limit of open files"):
        await processes.run(command("true"))
    assert (await processes.run(command("true"))).exit_code == 0


@pytest.mark.parametrize(("python", "message"), [("", "is empty"), ("/no/such", "cannot be reached")])
async def test_without_a_python_executable_a_command_is_unavailable(
    processes: SupervisedProcesses, monkeypatch: pytest.MonkeyPatch, python: str, message: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(Unavailable, match=message) as error:
        await processes.run(command("true"))
    assert error.value.details == {"started": False}
    monkeypatch.undo()
    assert (await processes.run(command("true"))).exit_code == 0


async def test_where_there_are_no_subreapers_the_process_group_is_killed(
    processes: SupervisedProcesses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _alter(monkeypatch, tmp_path, 'sys.platform == "linux"', "False")
    mark = new_mark()
    ended = await processes.run(shell(f"sleep {mark} & sleep {mark} & exit 3"))
    assert (ended.exit_code, ended.timed_out) == (3, False)
    running = await begin(processes, stubborn("deaf", mark))
    running.cancel()
    await asyncio.wait([running])
    assert await died_out(mark)
    ended = await processes.run(stubborn("plain", mark, timeout=0.2))
    assert (ended.signal, ended.timed_out) == (signal.SIGKILL, True)
    assert await died_out(mark)


async def test_children_are_found_with_and_without_the_list_of_the_kernel(processes: SupervisedProcesses) -> None:
    await processes.run(command("true"))
    ours = supervisor().pid
    others = {1, os.getpid(), os.getppid()}
    # Other tests of the same process may have children that come and go.
    for found in (set(children()), set(scan_children())):
        assert ours in found
        assert not found & others


def _alter(monkeypatch: pytest.MonkeyPatch, folder: Path, before: str, after: str) -> None:
    """Let the next supervisor run with one line replaced."""
    altered = inspect.getsource(program).replace(before, after)
    assert altered != inspect.getsource(program)
    (folder / "supervisor.py").write_text(altered)
    monkeypatch.setattr(supervisor_client, "_PROGRAM", folder / "supervisor.py")


def _files(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    with os.scandir(folder) as links:
        return {os.readlink(link) for link in links}


@contextmanager
def _room_for_files(more: int) -> Iterator[None]:
    """Allow only `more` further open files. The limit is on descriptor numbers, so free ones are counted."""
    free = (number for number in count() if not os.path.lexists(f"/proc/self/fd/{number}"))
    last = next(islice(free, more - 1, None))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
