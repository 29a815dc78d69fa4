"""A proxy between a worker and its control planes that cuts, delays, duplicates and reorders requests."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from enum import Enum, auto
from random import Random
from typing import Final

from holdfast.concurrency import cancel_and_wait

LATE_SECONDS: Final = 0.3
STALE_SECONDS: Final = 0.5


class RpcFault(Enum):
    """What happens to a request."""

    NONE = auto()
    LOST = auto()
    """The connection is cut before the server receives it."""
    UNANSWERED = auto()
    """The connection is cut after the server has executed it."""
    LATE = auto()
    """It arrives after requests that were sent later."""
    TWICE = auto()
    """The server receives it twice."""
    STALE = auto()
    """The server receives it again after later requests."""


FAULTS: Final = tuple(fault for fault in RpcFault if fault is not RpcFault.NONE)


class RpcProxy:
    """Forwards the HTTP/1.1 requests of a worker, each connection to one of several servers that can be reached."""

    def __init__(
        self, urls: Sequence[str], random: Random, *, pending: deque[RpcFault], fault_rate: float = 0.0
    ) -> None:
        self.url = ""
        self.fault_rate = fault_rate
        """The part of the requests that get a fault."""
        self.fault_count = 0
        self.calls = Counter[str]()
        """Requests by path."""
        self._servers = [url.removeprefix("http://").split(":") for url in urls]
        self._random = random
        self._pending = pending
        """Faults of the next requests, which several proxies may share."""
        self._connections: set[asyncio.StreamWriter] = set()
        self._cut = False
        self._repeats = asyncio.Queue[tuple[bytes, Sequence[str]]]()

    async def cut(self, seconds: float) -> None:
        """Cut all connections, and refuse others for some time."""
        self._cut = True
        for writer in list(self._connections):
            writer.transport.abort()
        await asyncio.sleep(seconds)
        self._cut = False

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the requests of one connection, one after the other."""
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            if self._cut:
                return
            server = await self._connect()
            if server is None:
                return
            upstream_reader, upstream = server
            self._connections |= {writer, upstream}
            try:
                with closing(upstream):
                    while request := await _read_message(reader):
                        if not await self._forward(request, writer, upstream_reader, upstream):
                            return
            finally:
                self._connections -= {writer, upstream}

    async def repeat_stale(self) -> None:
        """Send the requests of `STALE` again until cancelled."""
        while True:
            request, server = await self._repeats.get()
            await asyncio.sleep(STALE_SECONDS)
            with suppress(OSError, asyncio.IncompleteReadError):
                await _send_alone(request, server)

    async def _forward(
        self,
        request: bytes,
        writer: asyncio.StreamWriter,
        upstream_reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> bool:
        """Forward a request and its response; return whether the connection can be used again."""
        self.calls[request.split(b" ", 2)[1].decode()] += 1
        fault = self._next_fault(request)
        server = [str(part) for part in upstream.get_extra_info("peername")]
        match fault:
            case RpcFault.LOST:
                return False
            case RpcFault.LATE:
                await asyncio.sleep(LATE_SECONDS)
            case RpcFault.TWICE:
                await _send_alone(request, server)
            case RpcFault.STALE:
                self._repeats.put_nowait((request, server))
            case _:
                pass
        upstream.write(request)
        await upstream.drain()
        if b"/rpc/hints" in request:
            while data := await upstream_reader.read(65536):
                writer.write(data)
                await writer.drain()
            return False
        response = await _read_message(upstream_reader)
        if not response or fault is RpcFault.UNANSWERED:
            return False
        writer.write(response)
        await writer.drain()
        return True

    def _next_fault(self, request: bytes) -> RpcFault:
        if b"/rpc/hints" in request or b"/rpc/leases/claim" in request:
            return RpcFault.NONE
        fault = RpcFault.NONE
        if self._pending:
            fault = self._pending.popleft()
        elif self._random.random() < self.fault_rate:
            fault = self._random.choice(FAULTS)
        self.fault_count += fault is not RpcFault.NONE
        return fault

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for host, port in self._random.sample(self._servers, k=len(self._servers)):
            with suppress(OSError):
                return await asyncio.open_connection(host, int(port), limit=1 << 24)
        return None


async def _send_alone(request: bytes, server: Sequence[str]) -> None:
    """Send a request on a connection of its own, and drop the response."""
    reader, writer = await asyncio.open_connection(server[0], int(server[1]), limit=1 << 24)
    with closing(writer):
        writer.write(request)
        await _read_message(reader)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """Return one request or response with its body; empty at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    sizes = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head + (await reader.readexactly(int(sizes[0])) if sizes else b"")


@asynccontextmanager
async def open_rpc_proxy(
    urls: Sequence[str], random: Random, *, pending: deque[RpcFault] | None = None, fault_rate: float = 0.0
) -> AsyncIterator[RpcProxy]:
    """Run a proxy in front of servers; its `url` is for the worker."""
    proxy = RpcProxy(urls, random, pending=deque() if pending is None else pending, fault_rate=fault_rate)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.CancelledError):
            await proxy.serve_client(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    async with server:
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        repeating = asyncio.get_running_loop().create_task(proxy.repeat_stale())
        try:
            yield proxy
        finally:
            server.close()
            await cancel_and_wait([repeating, *tasks])
