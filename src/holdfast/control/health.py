"""Whether a process can do its work."""

import asyncio
from typing import Final

import msgspec

from holdfast.domain.errors import Unavailable
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.spaces import Spaces

PATIENCE: Final = 2.0
"""Seconds in which a store that is well answers."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How it is."""

    status: str


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What runs here."""

    name: str
    version: str


class Health:
    """The state of a process."""

    def __init__(self, spaces: Spaces, *, version: str) -> None:
        self.version = Version(name="holdfast", version=version)
        self._spaces = spaces
        self._closing = False

    def close(self) -> None:
        """Say from now on that the process takes no more work."""
        self._closing = True

    async def ready(self) -> Status:
        """Return if there is a store that answers and the process is to stay; else raise `Unavailable`."""
        if self._closing:
            raise Unavailable("the server is shutting down: ask another one, or come back in a moment")
        try:
            async with asyncio.timeout(PATIENCE):
                await self._spaces.get(DEFAULT_SPACE)
        except TimeoutError as exc:
            raise Unavailable(f"the store did not answer in {PATIENCE:g} seconds") from exc
        return Status(status="ready")
