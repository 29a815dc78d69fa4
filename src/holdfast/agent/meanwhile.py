"""Committing what is said while something takes its time.

The first that is said is committed at once, what follows once in a window. Nothing is polled: while nobody says
anything, nothing happens.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from holdfast.agent.log import Log
from holdfast.agent.tasks import Tasks

T = TypeVar("T")


async def committing(log: Log, work: Awaitable[T], *, window: float) -> T:
    """Return what comes of `work`, and commit what is said meanwhile; an error of a commit ends the work."""
    over = asyncio.Event()
    commits: list[asyncio.Task[None]] = []
    async with Tasks() as group:
        # What is over before anything else could run needs no task.
        begin = asyncio.get_running_loop().call_soon(
            lambda: commits.append(group.create_task(_commit(log, over, window)))
        )
        try:
            return await work
        except Exception:
            _end(begin, log, over)
            if commits:
                await asyncio.wait(commits)  # what is said next must know whether a commit on its way is there
            raise
        finally:
            _end(begin, log, over)


def _end(begin: asyncio.Handle, log: Log, over: asyncio.Event) -> None:
    begin.cancel()
    over.set()
    log.spoken.set()


async def _commit(log: Log, over: asyncio.Event, window: float) -> None:
    while True:
        await log.spoken.wait()
        if over.is_set():
            return
        await log.commit()
        with suppress(TimeoutError):
            async with asyncio.timeout(window):
                await over.wait()
