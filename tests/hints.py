"""Hints of a bus, for tests that read them one by one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.bus.local import CoalescingQueue
from holdfast.ports.bus import Bus, WakeHint


@asynccontextmanager
async def hints_of(bus: Bus) -> AsyncIterator[AsyncIterator[WakeHint]]:
    """Collect the hints of a bus while the context is open."""
    inlet = CoalescingQueue()
    with bus.subscribe(inlet.put):
        yield inlet
