"""A server that a test kills and restarts over the same database."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.api.site import TIMEOUT_SECONDS
from tests.api.streams.forked_server import Address, ServerOptions
from tests.support.fork_server import ForkServer

WORK = "tests.api.streams.forked_server:work"


class RestartingServer:
    """Server processes over the same log, one at a time: after a kill, the next one continues."""

    def __init__(self, forks: ForkServer, options: ServerOptions) -> None:
        self._forks = forks
        self._options = options
        self._file = Path(options.address)
        self._process: asyncio.Task[Any] | None = None

    async def host(self) -> str:
        """Return the host and port of the latest server, which may have been killed since."""
        return (await self._address()).host

    async def start(self) -> None:
        """Start a server."""
        self._file.unlink(missing_ok=True)
        self._process = asyncio.get_running_loop().create_task(self._forks.send(msgspec.to_builtins(self._options)))
        await self._address()

    async def kill(self) -> None:
        """Kill the server with SIGKILL, and wait for its end."""
        assert self._process is not None
        os.kill((await self._address()).pid, signal.SIGKILL)
        assert (await self._process).killed

    async def restart(self) -> None:
        """Kill the server, and start the next one."""
        await self.kill()
        await self.start()

    async def _address(self) -> Address:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not self._file.exists():
                assert self._process is None or not self._process.done(), self._process
                await asyncio.sleep(0.002)
        return msgspec.json.decode(self._file.read_bytes(), type=Address)


@asynccontextmanager
async def serve_with_restarts(
    folder: Path, *, database: str | Path, workers: int, lease: float = 10.0
) -> AsyncIterator[RestartingServer]:
    """Serve the workspace in a folder while the block runs; the test may restart the server."""
    options = ServerOptions(
        workspace=str(folder / "workspace"),
        database=str(database),
        address=str(folder / "address"),
        workers=workers,
        lease=lease,
    )
    async with ForkServer(WORK) as forks:
        server = RestartingServer(forks, options)
        await server.start()
        try:
            yield server
        finally:
            await server.kill()
