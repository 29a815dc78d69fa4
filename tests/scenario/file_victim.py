"""A worker that is killed while its agent writes files: after one of the calls that change the disk."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import current_thread, main_thread
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

WORKER: Final = "tests.scenario.file_victim:work"
CHANGES: Final = ("mkdir", "fsync", "rename")
"""Functions of `os` that change the disk."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The run to work on, and the number of the point at which the worker dies, if any."""

    database: str
    workspace: str
    run: RunId
    fatal: int | None = None


def work(raw: Any, send_message: SendMessage) -> None:
    """Execute a `Task`."""
    task = msgspec.convert(raw, Task)
    points: list[str] = []

    def reach(name: str) -> None:
        points.append(name)
        if len(points) == task.fatal:
            send_message({"died": name})
            os.kill(os.getpid(), signal.SIGKILL)

    for name in CHANGES:
        setattr(os, name, _numbered(getattr(os, name), name, reach))
    asyncio.run(_work(task))


def _numbered(change: Callable[..., Any], name: str, reach: Callable[[str], None]) -> Callable[..., Any]:
    def numbered(*arguments: Any, **options: Any) -> Any:
        if current_thread() is main_thread():  # tools run in other threads
            return change(*arguments, **options)
        result = change(*arguments, **options)
        reach(name)
        return result

    return numbered


async def _work(task: Task) -> None:
    async with open_workspace(task.workspace, database=task.database, options=Options(workers=1)) as holdfast:
        with suppress(IdTaken):
            new = NewRun(id=task.run, thread=NewThread(agent_type="bot"), messages=[user("go")])
            await holdfast.runs.start(DEFAULT_SPACE, new)
        with holdfast.watcher.watch(DEFAULT_SPACE, task.run) as watch:
            await watch.wait_past(sys.maxsize)  # only its end passes that
