"""A worker that is killed while its agent runs commands: once a command has written a line, or at any time."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

import holdfast.store.sqlite.database  # noqa: F401 - imported on use otherwise, by each victim again
from holdfast.bootstrap.workspace import Options, open_workspace
from holdfast.domain.errors import IdTaken
from holdfast.domain.ids import RunId
from holdfast.domain.new_run import NewRun
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import NewThread
from tests.builders import user
from tests.support.fork_server import SendMessage

WORKER: Final = "tests.scenario.command_victim:work"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The run to work on, and the line of a command after which the worker dies, if any."""

    database: str
    workspace: str
    run: RunId
    fatal: str | None = None


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `Task`."""
    asyncio.run(_work(msgspec.convert(raw, Task)))


async def _work(task: Task) -> None:
    async with (
        open_workspace(task.workspace, database=task.database, options=Options(workers=1)) as holdfast,
        asyncio.TaskGroup() as group,
    ):
        with suppress(IdTaken):
            new = NewRun(id=task.run, thread=NewThread(agent_type="bot"), messages=[user("go")])
            await holdfast.runs.start(DEFAULT_SPACE, new)
        death = group.create_task(_die(Path(task.workspace, "files", "ran"), task.fatal))
        with holdfast.watcher.watch(DEFAULT_SPACE, task.run) as watch:
            await watch.wait_past(sys.maxsize)  # only its end passes that
        death.cancel()


async def _die(ran: Path, line: str | None) -> None:
    """Kill this process as soon as a command has written the line."""
    while line is not None:
        if line in _lines(ran):
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.001)  # a command of another process sends no event


def _lines(ran: Path) -> list[str]:
    return [line.split()[0] for line in ran.read_text().splitlines()] if ran.exists() else []
