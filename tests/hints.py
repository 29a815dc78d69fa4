"""Hints of a bus, for tests that take them one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.bus.local import CoalescingQueue
from holdfast.ports.bus import Bus, WakeHint


@asynccontextmanager
async def hints_of(bus: Bus) -> AsyncIterator[AsyncIterator[WakeHint]]:
    """Gather the hints of a bus while the block runs, until they are taken."""
    inlet = CoalescingQueue()
    with bus.subscribe(inlet.put):
        yield inlet
