"""A proxy between a client and PostgreSQL that can cut the connection at a COMMIT."""

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
    """The fault to inject at a COMMIT or another watched message."""

    PASSES = auto()
    LOST = auto()
    """Cut before the server receives it."""
    UNANSWERED = auto()
    """Cut after the server has executed it."""
    ANSWERED = auto()
    """Cut after the client has received the response."""
    SILENCE = auto()
    """No cut, and no response at all."""


class Proxy:
    """Forwards everything, and injects a fault at the next COMMIT or the next message with certain bytes."""

    def __init__(self, url: str, folder: Path) -> None:
        parts = urlsplit(url)
        (self._server,) = parse_qs(parts.query)["host"]
        self.url = parts._replace(query=f"host={folder}").geturl()
        self.fate = Fate.PASSES
        self.mark = _COMMIT

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        answers, server = await asyncio.open_unix_connection(f"{self._server}/{_SOCKET}")
        try:
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(self._answer(answers, writer))
                commit, fate = await self._ask(reader, server)
                answering.cancel()
                await asyncio.wait([answering])
            if fate in (Fate.UNANSWERED, Fate.ANSWERED):
                server.write(commit)
                answer = await answers.readuntil(_READY) + await answers.readexactly(1)
                if fate is Fate.ANSWERED:
                    writer.write(answer)
                    await writer.drain()
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            server.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> tuple[bytes, Fate]:
        """Forward requests of a client up to a COMMIT with a fault, and return the fault."""
        while asked := await reader.read(1 << 16):
            if self.fate is Fate.SILENCE:
                continue
            if self.fate is not Fate.PASSES and self.mark in asked:
                fate, self.fate = self.fate, Fate.PASSES
                return asked, fate
            server.write(asked)
            await server.drain()
        return b"", Fate.PASSES

    async def _answer(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer := await answers.read(1 << 16):
            writer.write(answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def proxied(url: str, folder: Path) -> AsyncIterator[Proxy]:
    """Run a proxy in front of the server at `url`."""
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
