"""The bus of one process, and a queue that merges wake-ups until its reader takes them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from holdfast.ports.bus import WakeHint, WakeListener


class LocalBus:
    """`Bus` within one event loop."""

    def __init__(self) -> None:
        self._readers: list[WakeListener] = []

    def publish(self, wake: WakeHint) -> None:
        """Hand a hint to every reader."""
        for hear in self._readers:
            hear(wake)

    @contextmanager
    def subscribe(self, listener: WakeListener) -> Iterator[None]:
        """Call `hear` with each hint from now on while the block runs."""
        self._readers.append(listener)
        try:
            yield
        finally:
            self._readers.remove(listener)


class CoalescingQueue:
    """What was not taken yet, as one hint. To stop waiting for the next one loses nothing."""

    def __init__(self) -> None:
        self._pending: WakeHint | None = None
        self._arrived = asyncio.Event()

    def put(self, wake: WakeHint) -> None:
        """Add a hint to what was not taken."""
        self._pending = wake if self._pending is None else self._pending | wake
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WakeHint:
        while self._pending is None:
            self._arrived.clear()
            await self._arrived.wait()
        untaken, self._pending = self._pending, None
        return untaken
