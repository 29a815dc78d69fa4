"""The thread pool for blocking file work, so that a slow disk does not block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
CancelFlag: TypeAlias = Event
"""Set when nobody waits for the work any more: it must come to an end, and change nothing from then on."""

MAX_THREADS: Final = 16
CANCEL_GRACE_SECONDS: Final = 1.0
"""Seconds that whoever is cancelled waits for its thread."""

# Not the threads that the event loop has for everybody: names of servers are looked up there, and a search is slow.
_pool: Final = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="holdfast-files")


async def run_in_thread(work: Callable[[CancelFlag], T]) -> T:
    """Do `work` in a thread. Cancelled, it tells the work to halt and waits until it has, but not for long."""
    halt = Event()
    running = asyncio.get_running_loop().run_in_executor(_pool, work, halt)
    running.add_done_callback(_retrieve_exception)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        halt.set()
        await asyncio.wait([running], timeout=CANCEL_GRACE_SECONDS)
        raise


def _retrieve_exception(running: "asyncio.Future[T]") -> None:
    """Take note of an error that nobody waits for any more."""
    if not running.cancelled():
        running.exception()
