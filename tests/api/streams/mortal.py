"""A server that dies and comes back, as those see it who use it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.api.site import LIMIT
from tests.api.streams.victim import Address, Serving
from tests.support.fork_server import ForkServer

WORK = "tests.api.streams.victim:work"


class Mortal:
    """One server after the other over the same log: when one was killed, the next takes over."""

    def __init__(self, forks: ForkServer, serving: Serving) -> None:
        self._forks = forks
        self._serving = serving
        self._file = Path(serving.address)
        self._life: asyncio.Task[Any] | None = None

    async def host(self) -> str:
        """Return where the server answers; the one that was there last may be dead by now."""
        return (await self._address()).host

    async def live(self) -> None:
        """Start a server."""
        self._file.unlink(missing_ok=True)
        self._life = asyncio.get_running_loop().create_task(self._forks.send(msgspec.to_builtins(self._serving)))
        await self._address()

    async def kill(self) -> None:
        """Kill the server without a warning, and return when it is gone."""
        assert self._life is not None
        os.kill((await self._address()).pid, signal.SIGKILL)
        assert (await self._life).killed

    async def die_and_live(self) -> None:
        """Kill the server, and start the next."""
        await self.kill()
        await self.live()

    async def _address(self) -> Address:
        async with asyncio.timeout(LIMIT):
            while not self._file.exists():
                assert self._life is None or not self._life.done(), self._life
                await asyncio.sleep(0.002)
        return msgspec.json.decode(self._file.read_bytes(), type=Address)


@asynccontextmanager
async def mortal(folder: Path, *, database: str | Path, workers: int, lease: float = 10.0) -> AsyncIterator[Mortal]:
    """Serve the workspace in a folder while the block runs, by as many servers as it takes."""
    serving = Serving(
        workspace=str(folder / "workspace"),
        database=str(database),
        address=str(folder / "address"),
        workers=workers,
        lease=lease,
    )
    async with ForkServer(WORK) as forks:
        server = Mortal(forks, serving)
        await server.live()
        try:
            yield server
        finally:
            await server.kill()
