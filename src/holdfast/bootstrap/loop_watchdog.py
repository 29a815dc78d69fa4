"""Watchdog: reports when the event loop works for too long without a turn, because then nobody else is served.

It measures the CPU time of the loop's thread, not wall time: on a busy machine a thread may wait for long, and no code
here is at fault.
"""

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from holdfast.metrics.instruments import Number

CHECK_INTERVAL_SECONDS: Final = 0.05
MAX_BUSY_CPU_SECONDS: Final = 0.25
MAX_REPORTED_FRAMES: Final = 6
BUSY_MESSAGE: Final = "the event loop was busy for %.2f s of CPU without a turn: %s"

_log: Final = logging.getLogger("holdfast.watchdog")


@contextmanager
def watch_event_loop(stalls: Number) -> Iterator[None]:
    """Watch the running event loop for the duration of the block, and count its stalls."""
    stop = threading.Event()
    watchdog = _Watchdog(asyncio.get_running_loop(), stalls)
    thread = threading.Thread(target=watchdog.run, args=[stop], name="holdfast-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.cancel()
        stop.set()
        thread.join()


class _Watchdog:
    """Measures the CPU time between two ticks of the loop.

    The loop ticks by a timer of its own. This thread only looks where the loop is: while one call holds the
    interpreter, it cannot run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stalls: Number) -> None:
        self._loop = loop
        self._stalls = stalls
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._busy_seconds: deque[float] = deque()
        self._ticked_at = time.thread_time()
        self._timer = loop.call_later(CHECK_INTERVAL_SECONDS, self._tick)

    def run(self, stop: threading.Event) -> None:
        """Report stalls until `stop` is set."""
        place: str | None = None
        while not stop.wait(CHECK_INTERVAL_SECONDS):
            busy = time.clock_gettime(self._clock) - self._ticked_at
            if place is None and busy > MAX_BUSY_CPU_SECONDS + CHECK_INTERVAL_SECONDS:
                place = _innermost(sys._current_frames().get(self._thread))
            while self._busy_seconds:
                self._stalls.add()
                _log.warning(BUSY_MESSAGE, self._busy_seconds.popleft(), place or "over by now")
                place = None

    def cancel(self) -> None:
        """End the ticks."""
        self._timer.cancel()

    def _tick(self) -> None:
        now = time.thread_time()
        busy = now - self._ticked_at - CHECK_INTERVAL_SECONDS  # short turns may have filled the interval
        if busy > MAX_BUSY_CPU_SECONDS:
            self._busy_seconds.append(busy)
        self._ticked_at = now
        self._timer = self._loop.call_later(CHECK_INTERVAL_SECONDS, self._tick)


def _innermost(frame: FrameType | None) -> str:
    """Return where a thread is, the innermost call first."""
    places: list[str] = []
    while frame is not None and len(places) < MAX_REPORTED_FRAMES:
        code = frame.f_code
        places.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called by ".join(places)
