"""The bus of one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from holdfast.ports.bus import Wake


class Inlet:
    """What one reader has not seen yet, as one hint. To stop waiting for the next one loses nothing."""

    def __init__(self) -> None:
        self._unseen: Wake | None = None
        self._arrived = asyncio.Event()

    def put(self, wake: Wake) -> None:
        """Add a hint to what is unseen."""
        self._unseen = wake if self._unseen is None else self._unseen | wake
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Wake:
        while self._unseen is None:
            self._arrived.clear()
            await self._arrived.wait()
        unseen, self._unseen = self._unseen, None
        return unseen


class LocalBus:
    """`Bus` within one event loop."""

    def __init__(self) -> None:
        self._inlets: set[Inlet] = set()

    def publish(self, wake: Wake) -> None:
        """Hand a hint to every reader."""
        for inlet in self._inlets:
            inlet.put(wake)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Wake]]:
        """Receive hints from now on."""
        inlet = Inlet()
        self._inlets.add(inlet)
        try:
            yield inlet
        finally:
            self._inlets.discard(inlet)
