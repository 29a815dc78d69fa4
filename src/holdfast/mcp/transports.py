"""MCP transports with limits: streamable HTTP, and JSON-RPC lines over the stdin and stdout of a process.

Responses, lines, unread messages and unsolicited messages of a server are all bounded.
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
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from msgspec.structs import replace

from holdfast.domain.errors import HoldfastError, McpServerFailed
from holdfast.mcp.calls import ConnectionLoss
from holdfast.ports.sandbox import LiveInput, Sandbox, SandboxCommand

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one response, or of all messages on one stream."""
MAX_MESSAGE_VALUES: Final = 200_000
"""Values of one message: to decode millions of them stops the event loop for seconds."""
CONNECT_TIMEOUT_SECONDS: Final = 15.0

_NOT_COUNTED: Final = bytes(set(range(256)) - set(b'[{,"'))


class _ValueCounter:
    """Counts the values of JSON that arrives in pieces, without decoding it; a line break ends every text.

    In a stream of events only those of the current event count: a blank line begins the next one.
    """

    def __init__(self, *, events: bool = False) -> None:
        self._events = events
        self._values = 0
        self._in_text = False
        self._backslash = b""
        """An unpaired backslash at the end of the last piece."""
        self._after_cr = False
        self._line_is_empty = False

    def feed(self, piece: bytes) -> bool:
        """Read the next bytes; return whether a message has too many values."""
        rest = piece.removeprefix(b"\n") if self._after_cr else piece
        self._after_cr = piece.endswith(b"\r")
        first, *lines = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        exceeds = self._feed_line(first)
        for line in lines:
            if self._events and self._line_is_empty:
                self._values = 0
            self._line_is_empty, self._in_text, self._backslash = True, False, b""
            exceeds = self._feed_line(line) or exceeds
        return exceeds

    def _feed_line(self, part: bytes) -> bool:
        self._line_is_empty = self._line_is_empty and not part
        part = self._backslash + part
        unpaired = (len(part) - len(part.rstrip(b"\\"))) % 2
        self._backslash = b"\\" * unpaired
        unescaped = part[: len(part) - unpaired].replace(rb"\\", b"").replace(rb"\"", b"")
        between = unescaped.translate(None, _NOT_COUNTED).split(b'"')
        self._values += sum(map(len, between[self._in_text :: 2]))
        self._in_text ^= len(between) % 2 == 0
        return self._values > MAX_MESSAGE_VALUES


class _LimitedBody(httpx2.AsyncByteStream):
    """A response body that raises if it is compressed, or once it is too long or has too many values."""

    def __init__(self, body: httpx2.AsyncByteStream, headers: httpx2.Headers) -> None:
        self._body = body
        self._compressed = headers.get("content-encoding", "identity") != "identity"
        self._events = headers.get("content-type", "").lower().startswith("text/event-stream")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._compressed:
            raise httpx2.StreamError("the response is compressed, which was not asked for")
        size, values = 0, _ValueCounter(events=self._events)
        async for piece in self._body:
            size += len(piece)
            if size > MAX_RESPONSE_BYTES:
                raise httpx2.StreamError(f"the response is longer than {MAX_RESPONSE_BYTES} bytes")
            if values.feed(piece):
                raise httpx2.StreamError(f"the response has more than {MAX_MESSAGE_VALUES} values")
            yield piece

    async def aclose(self) -> None:
        """Release the connection."""
        await self._body.aclose()


class _LimitedTransport(httpx2.AsyncHTTPTransport):
    """HTTP transport with bounded responses. Proxies of the environment are not used."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _LimitedBody(response.stream, response.headers)
        return response


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Connect to a server over HTTP for the duration of the block."""
    async with (
        limited_http_client(headers) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as streams,
    ):
        yield streams


def limited_http_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return an HTTP client without a read timeout: each call has its own."""
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_SECONDS, read=None)
    # A compressed response of a few bytes may have any length.
    headers = {"Accept-Encoding": "identity", **headers}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=_LimitedTransport())


MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one message."""
MAX_UNREAD_MESSAGES: Final = 10_000
"""Received messages that were not read yet."""
MAX_UNSOLICITED_MESSAGES: Final = 20_000
"""Messages in a row that are not responses."""
MAX_INVALID_LINES: Final = 100
"""Lines that are not messages: some servers print log lines to stdout."""
MAX_UNWRITTEN_BYTES: Final = 8 * 1024 * 1024
"""Bytes waiting for the server to read them."""
EXIT_GRACE_SECONDS: Final = 1.0
"""Seconds a server has to exit once its input is closed."""


class JsonRpcLines:
    """Splits the output of a server into messages, and raises when it exceeds a limit."""

    def __init__(self, messages: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._messages = messages
        self._partial_line = bytearray()
        self._values = _ValueCounter()
        self._unsolicited = 0
        self._invalid_lines = 0

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the output; an exception ends the server."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._count(line)
            whole = bytes(self._partial_line + line)
            self._partial_line.clear()
            self._values = _ValueCounter()
            if whole.strip():
                self._parse(whole)
        self._partial_line += rest
        self._count(rest)
        if len(self._partial_line) > MAX_LINE_BYTES:
            raise McpServerFailed(f"it sent a message of more than {MAX_LINE_BYTES} bytes, and was killed")

    def _count(self, part: bytes) -> None:
        if self._values.feed(part):
            raise McpServerFailed(f"it sent a message of more than {MAX_MESSAGE_VALUES} values, and was killed")

    def _parse(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError) as exc:
            self._invalid_lines += 1
            if self._invalid_lines > MAX_INVALID_LINES:
                raise McpServerFailed(f"it sent invalid messages, and was killed: {line[:80]!r}") from exc
            return
        is_response = isinstance(message, JSONRPCResponse | JSONRPCError)
        self._unsolicited = 0 if is_response else self._unsolicited + 1
        if self._unsolicited > MAX_UNSOLICITED_MESSAGES:
            raise McpServerFailed(f"it sent {MAX_UNSOLICITED_MESSAGES} unsolicited messages in a row, and was killed")
        try:
            self._messages.send_nowait(SessionMessage(message))
        except anyio.WouldBlock as exc:
            raise McpServerFailed("it sends messages faster than they can be read, and was killed") from exc
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the connection is being closed


@asynccontextmanager
async def stdio_transport(
    sandbox: Sandbox, command: SandboxCommand, loss: ConnectionLoss
) -> AsyncIterator[TransportStreams]:
    """Run a server process for the duration of the block; `loss` records its exit."""
    live = LiveInput()
    received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](MAX_UNREAD_MESSAGES)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as tasks:
        connected = replace(command, input=live, on_stderr=loss.add_stderr)
        server = tasks.create_task(_run_server(sandbox, connected, received, loss))
        writer = tasks.create_task(_write_messages(sent, live, received, loss))
        try:
            yield reading, writing
        finally:
            live.close()
            await asyncio.wait([server], timeout=EXIT_GRACE_SECONDS)
            for task in (server, writer):
                task.cancel()
            for stream in (received, reading, writing, sent):
                stream.close()


async def _run_server(
    sandbox: Sandbox,
    command: SandboxCommand,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    loss: ConnectionLoss,
) -> None:
    try:
        result = await sandbox.run(command, on_output=JsonRpcLines(received).feed)
        reason = f"signal {result.signal}" if result.exit_code is None else f"exit code {result.exit_code}"
        if result.too_many_processes:
            reason = "killed, because it had too many processes"
        loss.record(f"it ended ({reason})", shows_stderr=True)
    except HoldfastError as error:
        loss.record(error.message)
    finally:
        received.close()


async def _write_messages(
    sent: MemoryObjectReceiveStream[SessionMessage],
    live: LiveInput,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    loss: ConnectionLoss,
) -> None:
    """Write outgoing messages to the server's stdin; end the connection if it stops reading."""
    async for outgoing in sent:
        live.write(outgoing.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if len(live) > MAX_UNWRITTEN_BYTES:
            loss.record(f"it does not read its input: {MAX_UNWRITTEN_BYTES} bytes wait")
            received.close()
            return
