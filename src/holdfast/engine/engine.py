"""`Engine` runs the background loops of a process: watcher, worker, timers and notifications.

    watcher ── hints ──► worker · timers · notifications

The watcher outlives the others, so that streams continue while the worker drains.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.engine.loops import WakeEvent, run_forever
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, WakeHint
from holdfast.ports.spaces import Notifications

MIN_DISPATCH_INTERVAL_SECONDS: Final = 0.1
"""The shortest time between two dispatches: each is a transaction, and nobody reads faster."""


class NotificationLoop:
    """Dispatches notifications."""

    def __init__(
        self, *, notifications: Notifications, watcher: Watcher, fallback_seconds: float = WAKEUP_FALLBACK_SECONDS
    ) -> None:
        self._notifications = notifications
        self._watcher = watcher
        self._fallback_seconds = fallback_seconds
        self._wake = WakeEvent(min_interval=MIN_DISPATCH_INTERVAL_SECONDS)

    async def run(self) -> None:
        """Dispatch until cancelled, retrying while the store is unavailable."""
        with self._watcher.listen(self._on_wake):
            await run_forever("dispatching notifications", self._dispatch_once)

    def _on_wake(self, hint: WakeHint) -> None:
        if hint.news or hint.everything:
            self._wake.set()

    async def _dispatch_once(self) -> None:
        await self._notifications.dispatch()
        await self._wake.wait(seconds=self._fallback_seconds)


class Engine:
    """Runs the loops of a process, once."""

    def __init__(
        self, *, watcher: Watcher, timers: TimerLoop, notifications: NotificationLoop, worker: Worker | None = None
    ) -> None:
        """Create an engine; without a `worker` the process executes no runs."""
        self._watcher = watcher
        self._timers = timers
        self._notifications = notifications
        self._worker = worker
        self._drained = asyncio.Event()

    async def run(self) -> None:
        """Run until drained. When cancelled, cancel and release every run first."""
        async with asyncio.TaskGroup() as tasks:
            # The watcher first: it must receive the hints that follow the worker's first claim.
            loops = [tasks.create_task(loop.run()) for loop in (self._watcher, self._timers, self._notifications)]
            await (self._drained.wait() if self._worker is None else self._worker.run())
            await cancel_and_wait(loops)

    def drain(self, within: timedelta | None = None) -> None:
        """Stop claiming runs and return from `run` once the active ones have stopped; a second call cancels them.

        It may be called from a signal handler of the event loop.
        """
        self._drained.set()
        if self._worker is not None:
            self._worker.drain(within)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run while the block runs, then drain. If the engine fails, the block is cancelled and the error raised."""
        engine = start_background(self.run(), name="holdfast-engine", ended_by="Engine.running")
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
