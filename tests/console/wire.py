"""A wire between browser and server that a test can cut, and lead to another server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Wire:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    def cut(self) -> None:
        """Cut every open connection, without a word."""
        for writer in list(self._open):
            writer.transport.abort()

    def clog(self, clogged: bool) -> None:
        """Let nothing through, and close nothing; or let all of it through again."""
        (self._flows.clear if clogged else self._flows.set)()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection in both directions, until either side ends it."""
        with suppress(OSError):
            answers, requests = await asyncio.open_connection("127.0.0.1", self.target)
            self._open |= {writer, requests}
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._copy(reader, requests))
                    both.create_task(self._copy(answers, writer))
            finally:
                self._open -= {writer, requests}
        writer.close()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                target.write(data)
                await target.drain()
        target.close()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    """Open a wire to a port."""
    wire = Wire(port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        wire.clog(False)
        wire.cut()
        server.close()
