"""A worker, its supervisor or both die: all processes of its commands end soon, whatever they do."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import psutil
import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import Unavailable
from holdfast.ports.sandbox import ProcessResult
from holdfast.sandbox.processes import SupervisedProcesses, open_processes
from tests.support.fork_server import Death, ForkServer, SendMessage
from tests.unit.sandbox.commands import (
    KINDS,
    begin,
    command,
    died_out,
    eventually,
    marked,
    new_mark,
    shell,
    stubborn,
    supervisor,
    supervisors,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is killed")

SEED: Final = 20_260_131
KILLS: Final = 60


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a worker, and its death: some seconds after some of its commands have started."""

    mark: str
    way: str
    up: int = 0
    after: float = 0.0
    store: str = ""


def work(raw: Any, send_message: SendMessage) -> None:
    """Run a worker whose tools run every kind of command."""
    send_message({"worker": os.getpid()})
    asyncio.run(WAYS[raw["way"]](msgspec.convert(raw, Task), send_message))


async def _kill_worker(task: Task, send_message: SendMessage) -> None:
    """Kill only the worker."""
    await _run_commands_and_die(_kill_self, task, send_message)


async def _kill_worker_and_supervisor(task: Task, send_message: SendMessage) -> None:
    """Kill the worker and the supervisor."""
    await _run_commands_and_die(_kill_self_and_supervisor, task, send_message)


async def _kill_worker_supervisor_and_monitor(task: Task, send_message: SendMessage) -> None:
    """Kill the worker, the supervisor and the monitor."""
    async with open_processes() as processes:
        running = await begin(processes, shell(f"echo up; exec sleep {task.mark}"))
        send_message({"running": not running.done()})
        for process in sorted(supervisors(os.getpid()), reverse=True):
            os.kill(process, signal.SIGKILL)
        _kill_self()


async def _kill_supervisor(task: Task, send_message: SendMessage) -> None:
    """Kill only the supervisor, and continue."""
    async with open_processes() as processes:
        running = await _run_all(processes, task, send_message)
        supervisor().kill()
        ended = await asyncio.gather(*running, return_exceptions=True)
        send_message({"cut off": [isinstance(end, Unavailable) for end in ended], "left": len(marked(task.mark))})
        send_message({"again": (await processes.run(command("echo", "again"))).output.decode()})


async def _kill_database_owner(task: Task, send_message: SendMessage) -> None:
    """Own a database, and kill the worker while the supervisor is stopped."""
    async with open_store(task.store, bus=LocalBus()), open_processes() as processes:
        await _run_all(processes, task, send_message)
        supervisor().suspend()
        send_message({"stopped": supervisor().pid})
        _kill_self()


async def _kill_worker_with_fork(task: Task, send_message: SendMessage) -> None:
    """Kill the worker, and leave a fork that keeps its descriptors open until everything has ended."""
    async with open_processes() as processes:
        await _run_all(processes, task, send_message)
        worker = os.getpid()
        if os.fork() == 0:
            with asyncio.Runner() as runner:  # the loop of the worker does not run here
                send_message({"died out": runner.run(died_out(task.mark))})
                send_message({"alone": runner.run(eventually(lambda: not supervisors(worker), within=30))})
            os._exit(0)
        os.kill(worker, signal.SIGKILL)


async def _stop_worker(task: Task, send_message: SendMessage) -> None:
    """Stop the worker, and let a command continue it."""
    async with open_processes() as processes:
        running = await begin(processes, shell(f"echo up; sleep 0.3; kill -CONT {os.getpid()}; echo still here"))
        os.kill(os.getpid(), signal.SIGSTOP)
        send_message({"output": (await running).output.decode()})


WAYS: Final = {
    "die": _kill_worker,
    "slay": _kill_worker_and_supervisor,
    "raze": _kill_worker_supervisor_and_monitor,
    "outlive": _kill_supervisor,
    "own": _kill_database_owner,
    "fork": _kill_worker_with_fork,
    "stop": _stop_worker,
}


@pytest.fixture(scope="module")
async def workers() -> AsyncIterator[ForkServer]:
    async with ForkServer(f"{__name__}:work") as server:
        yield server


@pytest.mark.parametrize(("way", "kills"), [("die", KILLS), ("slay", KILLS // 2)])
async def test_no_process_survives_a_worker_that_is_killed_at_any_time(
    workers: ForkServer, way: str, kills: int
) -> None:
    """The worker alone, and together with its supervisor."""
    random = Random(SEED)
    for _ in range(kills):
        up = random.randint(0, len(KINDS))
        task = Task(mark=new_mark(), way=way, up=up, after=random.uniform(0, 0.05 if up else 0.3))
        death = await workers.send(msgspec.to_builtins(task))
        assert death.killed
        assert sum("up" in word for word in death.messages) >= up
        await _assert_gone(task, death)


async def test_a_command_dies_with_its_monitor(workers: ForkServer) -> None:
    task = Task(mark=new_mark(), way="raze")
    death = await workers.send(msgspec.to_builtins(task))
    assert death.killed
    assert death.messages[-1] == {"running": True}
    await _assert_gone(task, death)


async def test_no_process_survives_a_killed_supervisor(workers: ForkServer) -> None:
    task = Task(mark=new_mark(), way="outlive")
    death = await workers.send(msgspec.to_builtins(task))
    assert not death.killed
    assert death.messages[-2:] == [{"cut off": [True] * len(KINDS), "left": 0}, {"again": "again\n"}]
    await _assert_gone(task, death)


async def test_a_database_can_be_opened_at_once_after_its_worker_was_killed(
    workers: ForkServer, tmp_path: Path
) -> None:
    task = Task(mark=new_mark(), way="own", store=str(tmp_path / "holdfast.db"))
    death = await workers.send(msgspec.to_builtins(task))
    assert death.killed
    supervisor_process = psutil.Process(death.messages[-1]["stopped"])
    async with open_store(task.store, bus=LocalBus()):
        assert supervisor_process.status() == psutil.STATUS_STOPPED
        assert await died_out(task.mark)  # the monitors need no supervisor for that
    supervisor_process.resume()
    await _assert_gone(task, death)


async def test_a_fork_of_the_worker_keeps_nothing_alive(workers: ForkServer) -> None:
    task = Task(mark=new_mark(), way="fork")
    death = await workers.send(msgspec.to_builtins(task))
    assert death.killed
    assert death.messages[-2:] == [{"died out": True}, {"alone": True}]


async def test_the_processes_of_a_stopped_worker_continue(workers: ForkServer) -> None:
    task = Task(mark=new_mark(), way="stop")
    death = await workers.send(msgspec.to_builtins(task))
    assert death.messages[-1] == {"output": "up\nstill here\n"}
    await _assert_gone(task, death)


async def _run_commands_and_die(kill: Callable[[], None], task: Task, send_message: SendMessage) -> None:
    ups = 0

    def note(message: Any) -> None:
        nonlocal ups
        send_message(message)
        ups += 1
        if ups == task.up:
            loop.call_later(task.after, kill)

    loop = asyncio.get_running_loop()
    async with open_processes() as processes:
        if task.up == 0:
            loop.call_later(task.after, kill)
        await _run_all(processes, task, note)
        await asyncio.Event().wait()


async def _run_all(
    processes: SupervisedProcesses, task: Task, send_message: SendMessage
) -> list[asyncio.Task[ProcessResult]]:
    """Start a command of each kind, and report when it runs."""

    async def run(kind: str) -> asyncio.Task[ProcessResult]:
        running = await begin(processes, stubborn(kind, task.mark))
        send_message({"up": kind})
        return running

    return await asyncio.gather(*map(run, KINDS))


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_self_and_supervisor() -> None:
    for child in psutil.Process().children():
        child.kill()
    _kill_self()


async def _assert_gone(task: Task, death: Death) -> None:
    """Assert that all commands end soon; a starting supervisor takes longer."""
    assert await died_out(task.mark), f"{marked(task.mark)} of {death.messages} (seed {SEED})"
    assert await eventually(lambda: not supervisors(death.messages[0]["worker"]), within=30)
    assert marked(task.mark) == []
