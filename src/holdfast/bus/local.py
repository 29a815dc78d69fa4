"""The bus of one process, and a queue that merges hints until they are consumed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from holdfast.ports.bus import WakeHint, WakeListener


class LocalBus:
    """`Bus` within one event loop."""

    def __init__(self) -> None:
        self._listeners: list[WakeListener] = []

    def publish(self, hint: WakeHint) -> None:
        """Pass a hint to every subscriber."""
        for listener in self._listeners:
            listener(hint)

    @contextmanager
    def subscribe(self, listener: WakeListener) -> Iterator[None]:
        """Call `listener` with each hint while the block runs."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


class CoalescingQueue:
    """An iterator over hints that merges those that were not consumed yet. Cancelling a wait loses none."""

    def __init__(self) -> None:
        self._pending: WakeHint | None = None
        self._arrived = asyncio.Event()

    def put(self, hint: WakeHint) -> None:
        """Merge a hint into the pending one."""
        self._pending = hint if self._pending is None else self._pending | hint
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WakeHint:
        while self._pending is None:
            self._arrived.clear()
            await self._arrived.wait()
        hint, self._pending = self._pending, None
        return hint
