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
_SHUTDOWN_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
_SHUTDOWN = b"E" + (len(_SHUTDOWN_FIELDS) + 4).to_bytes(4, "big") + _SHUTDOWN_FIELDS


class CommitFault(Enum):
    """The fault to inject at a COMMIT or another watched message."""

    NONE = auto()
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
        self.fault = CommitFault.NONE
        self.trigger = _COMMIT
        self._clients: set[asyncio.StreamWriter] = set()

    async def announce_shutdown(self) -> None:
        """Send every client the server's last message, and leave the connection open."""
        for writer in self._clients:
            writer.write(_SHUTDOWN)
            await writer.drain()

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        responses, server = await asyncio.open_unix_connection(f"{self._server}/{_SOCKET}")
        self._clients.add(writer)
        try:
            async with asyncio.TaskGroup() as group:
                responding = group.create_task(self._forward_responses(responses, writer))
                commit, fault = await self._forward_requests(reader, server)
                responding.cancel()
                await asyncio.wait([responding])
            if fault in (CommitFault.UNANSWERED, CommitFault.ANSWERED):
                server.write(commit)
                response = await responses.readuntil(_READY) + await responses.readexactly(1)
                if fault is CommitFault.ANSWERED:
                    writer.write(response)
                    await writer.drain()
        except* OSError:
            pass
        finally:
            self._clients.discard(writer)
            writer.transport.abort()
            server.transport.abort()

    async def _forward_requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> tuple[bytes, CommitFault]:
        """Forward requests of a client up to a COMMIT with a fault, and return the fault."""
        while request := await reader.read(1 << 16):
            if self.fault is CommitFault.SILENCE:
                continue
            if self.fault is not CommitFault.NONE and self.trigger in request:
                fault, self.fault = self.fault, CommitFault.NONE
                return request, fault
            server.write(request)
            await server.drain()
        return b"", CommitFault.NONE

    async def _forward_responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while response := await reader.read(1 << 16):
            writer.write(response)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def open_proxy(url: str, folder: Path) -> AsyncIterator[Proxy]:
    """Run a proxy in front of the server at `url`."""
    proxy = Proxy(url, folder)
    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        with suppress(asyncio.CancelledError):
            await proxy.serve_client(reader, writer)
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
