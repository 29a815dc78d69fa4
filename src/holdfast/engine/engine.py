"""The engine: all that a process does with the log on its own, in one group of tasks.

    watcher ── hints ──► worker · timers · news

The watcher outlives the others, so that streams go on while the worker drains.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from holdfast.engine.news import NewsLoop
from holdfast.engine.stopping import stop
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker


class Engine:
    """Runs the loops of a process. Made once, run once."""

    def __init__(self, *, watcher: Watcher, timers: TimerLoop, news: NewsLoop, worker: Worker | None = None) -> None:
        """Put the loops together; without a `worker` the process leaves runs to others."""
        self._watcher = watcher
        self._timers = timers
        self._news = news
        self._worker = worker
        self._drained = asyncio.Event()

    async def run(self) -> None:
        """Run until drained. Cancelled, it gives back its runs in a hurry."""
        async with asyncio.TaskGroup() as tasks:
            # The watcher first: it must hear what comes after the worker's first look at the queue.
            loops = [tasks.create_task(loop.run()) for loop in (self._watcher, self._timers, self._news)]
            await (self._drained.wait() if self._worker is None else self._worker.run())
            await stop(loops)

    def drain(self, within: timedelta | None = None) -> None:
        """Begin no run any more and let `run` return once those in hand have stopped; a second call hurries.

        It may be called from a signal handler of the event loop.
        """
        self._drained.set()
        if self._worker is not None:
            self._worker.drain(within)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run while the block runs, then drain. Should the engine fail, the block is cancelled and the error raised."""
        # Not in a TaskGroup, which would wrap the caller's own exceptions in a group.
        engine = asyncio.get_running_loop().create_task(self.run(), name="holdfast-engine")
        block = asyncio.current_task()
        assert block is not None
        engine.add_done_callback(lambda _: self._drained.is_set() or block.cancel())
        try:
            yield
        finally:
            if engine.done() and not self._drained.is_set():
                block.uncancel()
            if not self._drained.is_set():
                self.drain()
            await engine
