"""MCP transports with limits: streamable HTTP, and JSON-RPC lines over the stdin and stdout of a process.

Nothing a server sends can grow without bound: not a response, a line, the unread messages, nor unsolicited
messages.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from msgspec.structs import replace

from holdfast.domain.errors import HoldfastError, McpServerFailed
from holdfast.mcp.calls import ConnectionLoss
from holdfast.ports.sandbox import LiveInput, ProcessResult, Sandbox, SandboxCommand

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one answer, or of all that comes on one stream."""
CONNECT_TIMEOUT_SECONDS: Final = 15.0
"""Seconds."""


class _LimitedBody(httpx2.AsyncByteStream):
    """A body that ends in an error when it is too long."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._body:
            size += len(piece)
            if size > MAX_RESPONSE_BYTES:
                raise httpx2.StreamError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._body.aclose()


class _LimitedTransport(httpx2.AsyncHTTPTransport):
    """Requests whose answers have an end. No proxy of the environment is used."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _LimitedBody(response.stream)
        return response


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Talk with a server while the block runs."""
    async with (
        limited_http_client(headers) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as streams,
    ):
        yield streams


def limited_http_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return what makes requests. A server may stay silent: how long is a matter of each call."""
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_SECONDS, read=None)
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_LimitedTransport())


MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one message."""
MAX_UNREAD_MESSAGES: Final = 10_000
"""Messages that have come and that nobody has looked at."""
MAX_UNSOLICITED_MESSAGES: Final = 20_000
"""Messages in a row that answer nothing."""
MAX_INVALID_LINES: Final = 100
"""Lines that are no message: some servers write a word or two there."""
MAX_UNWRITTEN_BYTES: Final = 8 * 1024 * 1024
"""Bytes that it does not read."""
EXIT_GRACE_SECONDS: Final = 1.0
"""Seconds that it has to end by itself, once its input has ended."""
_MAX_STDERR_CHARS: Final = 500


class JsonRpcLines:
    """What a server writes, by messages."""

    def __init__(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._messages = heard
        self._unfinished = bytearray()
        self._unsolicited = 0
        self._invalid_lines = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes; raise what is too much, which ends the server."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            whole = bytes(self._unfinished + line)
            self._unfinished.clear()
            if whole.strip():
                self._take(whole)
        self._unfinished += rest
        if len(self._unfinished) > MAX_LINE_BYTES:
            raise McpServerFailed(f"it sent a message of more than {MAX_LINE_BYTES} bytes, and was ended")

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError) as exc:
            self._invalid_lines += 1
            if self._invalid_lines > MAX_INVALID_LINES:
                raise McpServerFailed(f"it talks nonsense, and was ended: {line[:80]!r}") from exc
            return
        self._count(message)
        try:
            self._messages.send_nowait(SessionMessage(message))
        except anyio.WouldBlock as exc:
            raise McpServerFailed("it sends messages faster than they can be read, and was ended") from exc
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more: it is being ended

    def _count(self, message: JSONRPCMessage) -> None:
        answers = isinstance(message, JSONRPCResponse | JSONRPCError)
        self._unsolicited = 0 if answers else self._unsolicited + 1
        if self._unsolicited > MAX_UNSOLICITED_MESSAGES:
            raise McpServerFailed(
                f"it sent {MAX_UNSOLICITED_MESSAGES} messages in a row that answer nothing, and was ended"
            )


@asynccontextmanager
async def stdio_transport(
    sandbox: Sandbox, command: SandboxCommand, ending: ConnectionLoss
) -> AsyncIterator[TransportStreams]:
    """Run a server while the block runs, and talk with it. `ending` is told when it has ended by itself."""
    live = LiveInput()
    heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](MAX_UNREAD_MESSAGES)
    writing, told = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_run_server(sandbox, replace(command, input=live), heard, ending))
        passing = tasks.create_task(_write_messages(told, live, heard, ending))
        try:
            yield reading, writing
        finally:
            live.close()
            await asyncio.wait([running], timeout=EXIT_GRACE_SECONDS)
            for task in (running, passing):
                task.cancel()
            for stream in (heard, reading, writing, told):
                stream.close()


async def _run_server(
    sandbox: Sandbox,
    command: SandboxCommand,
    heard: MemoryObjectSendStream[SessionMessage | Exception],
    ending: ConnectionLoss,
) -> None:
    try:
        ended = await sandbox.run(command, on_output=JsonRpcLines(heard).feed)
        ending.record(f"it ended ({_exit_reason(ended)}){_stderr_tail(ended)}")
    except HoldfastError as error:
        ending.record(error.message)
    finally:
        heard.close()


async def _write_messages(
    told: MemoryObjectReceiveStream[SessionMessage],
    live: LiveInput,
    heard: MemoryObjectSendStream[SessionMessage | Exception],
    ending: ConnectionLoss,
) -> None:
    """Write what is told to the server, as long as it reads that."""
    async for said in told:
        live.write(said.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if len(live) > MAX_UNWRITTEN_BYTES:
            ending.record(f"it does not read what it is told: {MAX_UNWRITTEN_BYTES} bytes wait")
            heard.close()
            return


def _exit_reason(ended: ProcessResult) -> str:
    if ended.too_many_processes:
        return "killed, because it had too many processes"
    return f"signal {ended.signal}" if ended.exit_code is None else f"exit code {ended.exit_code}"


def _stderr_tail(ended: ProcessResult) -> str:
    said = ended.errors.decode(errors="replace").strip()[-_MAX_STDERR_CHARS:]
    return f": {said}" if said else ""
