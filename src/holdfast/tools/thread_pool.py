"""The thread pool for blocking file work, so that a slow disk does not block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
CancelFlag: TypeAlias = Event
"""Set when the caller is cancelled: the work must stop, and change nothing from then on."""

MAX_THREADS: Final = 16
CANCEL_GRACE_SECONDS: Final = 1.0
"""Seconds that a cancelled caller waits for its thread."""

# Not the default executor of the event loop: slow searches there would delay name resolution.
_pool: Final = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="holdfast-files")


async def run_in_thread(work: Callable[[CancelFlag], T]) -> T:
    """Run `work` in a thread. On cancellation, set its flag and wait briefly until it has stopped."""
    cancelled = Event()
    future = asyncio.get_running_loop().run_in_executor(_pool, work, cancelled)
    # An exception after the cancellation has no other reader, and asyncio would log it.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([future], timeout=CANCEL_GRACE_SECONDS)
        raise
