"""Somebody between a client and PostgreSQL, who may lose what was said at the worst moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_SOCKET = ".s.PGSQL.5432"
_COMMIT = b"COMMIT;\0"
_READY = b"Z\0\0\0\5"


class Fate(Enum):
    """What becomes of a COMMIT."""

    PASSES = auto()
    LOST = auto()
    """The connection breaks before the server has heard of it."""
    UNANSWERED = auto()
    """The connection breaks after the server has done it."""
    SILENCE = auto()
    """Nothing breaks, and nobody ever answers anything."""


class Proxy:
    """Passes everything on, until a test says otherwise of the next COMMIT."""

    def __init__(self, url: str, folder: Path) -> None:
        parts = urlsplit(url)
        (self._server,) = parse_qs(parts.query)["host"]
        self.url = parts._replace(query=f"host={folder}").geturl()
        self.fate = Fate.PASSES

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        server_reader, server_writer = await asyncio.open_unix_connection(f"{self._server}/{_SOCKET}")
        try:
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer(server_reader, writer))
                await self._ask(reader, server_writer, server_reader, answering)
                answering.cancel()
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            server_writer.transport.abort()

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        answering: asyncio.Task[None],
    ) -> None:
        while asked := await reader.read(1 << 16):
            fate = self.fate if _COMMIT in asked or self.fate is Fate.SILENCE else Fate.PASSES
            if fate is Fate.SILENCE:
                continue
            if fate is not Fate.PASSES:
                self.fate = Fate.PASSES
            if fate is Fate.LOST:
                return
            if fate is Fate.UNANSWERED:
                answering.cancel()
                await asyncio.wait([answering])
            server.write(asked)
            await server.drain()
            if fate is Fate.UNANSWERED:
                await answers.readuntil(_READY)
                return

    async def _answer(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await answers.read(1 << 16):
            writer.write(answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def proxied(url: str, folder: Path) -> AsyncIterator[Proxy]:
    """Stand between the server at `url` and those who ask at the proxy's own address."""
    proxy = Proxy(url, folder)
    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        with suppress(asyncio.CancelledError):
            await proxy.pass_on(reader, writer)
        clients.discard(task)

    listening = await asyncio.start_unix_server(serve, folder / _SOCKET)
    try:
        yield proxy
    finally:
        listening.close()
        for client in set(clients):
            client.cancel()
        if clients:
            await asyncio.wait(clients)
