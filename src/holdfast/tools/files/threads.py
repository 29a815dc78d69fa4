"""Files are read and written in threads, so that a slow disk holds up nobody else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")
Halt: TypeAlias = Event
"""Set when nobody waits for the work any more: it must come to an end, and change nothing from then on."""

AT_ONCE: Final = 16
HASTE: Final = 1.0
"""Seconds that whoever is cancelled waits for its thread."""

# Not the threads that the event loop has for everybody: names of servers are looked up there, and a search is slow.
_threads: Final = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-files")


async def in_thread(work: Callable[[Halt], T]) -> T:
    """Do `work` in a thread. Cancelled, it tells the work to halt and waits until it has, but not for long."""
    halt = Event()
    running = asyncio.get_running_loop().run_in_executor(_threads, work, halt)
    running.add_done_callback(_hear)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        halt.set()
        await asyncio.wait([running], timeout=HASTE)
        raise


def _hear(running: "asyncio.Future[T]") -> None:
    """Take note of an error that nobody waits for any more."""
    if not running.cancelled():
        running.exception()
