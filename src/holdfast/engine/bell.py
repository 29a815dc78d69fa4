"""A bell: it wakes one sleeper at once, and however often it rings, not more often than is good."""

import asyncio


class Bell:
    """Rings for one sleeper. What rings while the sleeper is awake is heard as one ring when it sleeps again."""

    def __init__(self, *, gap: float = 0.0) -> None:
        """Make a bell that is heard at most every `gap` seconds; the first ring is heard at once."""
        self._gap = gap
        self._rung = asyncio.Event()
        self._heard = float("-inf")

    def ring(self) -> None:
        """Wake the sleeper."""
        self._rung.set()

    async def wait(self, within: float | None = None) -> bool:
        """Sleep until it rings, or for `within` seconds at most; return whether it rang."""
        if within is None:
            await self._rung.wait()
        elif not await self._rings(within):
            return False
        if self._gap:
            await self._keep_gap()
        self._rung.clear()
        return True

    async def _keep_gap(self) -> None:
        loop = asyncio.get_running_loop()
        if (early := self._heard + self._gap - loop.time()) > 0:
            await asyncio.sleep(early)
        self._heard = loop.time()

    async def _rings(self, within: float) -> bool:
        try:
            async with asyncio.timeout(within):
                return await self._rung.wait()
        except TimeoutError:
            return False
