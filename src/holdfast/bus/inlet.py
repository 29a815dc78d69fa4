"""An inlet: hints for one who takes them when there is time."""

import asyncio
from typing import Self

from holdfast.ports.bus import Wake


class Inlet:
    """What was not taken yet, as one hint. To stop waiting for the next one loses nothing."""

    def __init__(self) -> None:
        self._untaken: Wake | None = None
        self._arrived = asyncio.Event()

    def put(self, wake: Wake) -> None:
        """Add a hint to what was not taken."""
        self._untaken = wake if self._untaken is None else self._untaken | wake
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Wake:
        while self._untaken is None:
            self._arrived.clear()
            await self._arrived.wait()
        untaken, self._untaken = self._untaken, None
        return untaken
