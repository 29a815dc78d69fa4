"""`Engine` runs the background loops of a process: watcher, worker, timers and notifications.

    watcher ── hints ──► worker · timers · notifications

The watcher outlives the others, so that streams continue while the worker drains.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeAlias

from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.engine.loops import WakeEvent, run_forever
from holdfast.engine.timers import TimerLoop
from holdfast.engine.watcher import Watcher
from holdfast.engine.worker import Worker
from holdfast.ports.bus import WAKEUP_FALLBACK_SECONDS, WakeHint
from holdfast.ports.spaces import Notifications

MIN_DISPATCH_INTERVAL_SECONDS: Final = 0.1
"""The shortest time between two dispatches: each is a transaction, and nobody reads faster."""


BackgroundLoop: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""A loop that runs until it is cancelled."""


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
        self,
        *,
        watcher: Watcher,
        timers: TimerLoop,
        notifications: NotificationLoop,
        worker: Worker | None = None,
        loops: Sequence[BackgroundLoop] = (),
    ) -> None:
        """Create an engine; without a `worker` the process executes no runs. `loops` run beside the others."""
        self._watcher = watcher
        self._timers = timers
        self._notifications = notifications
        self._worker = worker
        self._loops = loops
        self._draining = asyncio.Event()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Run until drained. When cancelled, cancel and release every run first."""
        async with asyncio.TaskGroup() as tasks:
            # The watcher first: it must receive the hints that follow the worker's first claim.
            own = (self._watcher.run, self._timers.run, self._notifications.run)
            loops = [tasks.create_task(loop()) for loop in (*own, *self._loops)]
            try:
                await (self._draining.wait() if self._worker is None else self._worker.run())
            finally:
                self._stopped.set()
            await cancel_and_wait(loops)

    def drain(self, within: timedelta | None = None) -> None:
        """Stop claiming runs and return from `run` once the active ones have stopped; a second call cancels them.

        It may be called from a signal handler of the event loop.
        """
        self._draining.set()
        if self._worker is not None:
            self._worker.drain(within)

    async def wait_until_drained(self) -> None:
        """Drain, unless that has begun, and wait until no run is active; the watcher continues meanwhile."""
        if not self._draining.is_set():
            self.drain()
        await self._stopped.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run while the block runs, then drain. If the engine fails, the block is cancelled and the error raised."""
        engine = start_background(self.run(), name="holdfast-engine", ended_by="Engine.running")
        block = asyncio.current_task()
        assert block is not None
        engine.add_done_callback(lambda _: self._draining.is_set() or block.cancel())
        try:
            yield
        finally:
            if engine.done() and not self._draining.is_set():
                block.uncancel()
            if not self._draining.is_set():
                self.drain()
            await engine
