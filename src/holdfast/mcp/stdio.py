"""A server that is a process: JSON-RPC by lines on its input and output.

Nothing it does can grow without bound here: neither a line, nor what is read ahead, nor what it says unasked.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from msgspec.structs import replace

from holdfast.domain.errors import HoldfastError, McpServerFailed
from holdfast.mcp.ending import Ending
from holdfast.ports.sandbox import LiveInput, ProcessResult, Sandbox, SandboxCommand

LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes of one message."""
MOST_UNREAD: Final = 10_000
"""Messages that have come and that nobody has looked at."""
MOST_UNASKED: Final = 20_000
"""Messages in a row that answer nothing."""
MOST_NONSENSE: Final = 100
"""Lines that are no message: some servers write a word or two there."""
MOST_UNWRITTEN: Final = 8 * 1024 * 1024
"""Bytes that it does not read."""
GRACE: Final = 1.0
"""Seconds that it has to end by itself, once its input has ended."""
_LAST_WORDS: Final = 500


class Lines:
    """What a server writes, by messages."""

    def __init__(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._heard = heard
        self._unfinished = bytearray()
        self._unasked = 0
        self._nonsense = 0

    def hear(self, piece: bytes) -> None:
        """Take the next bytes; raise what is too much, which ends the server."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            whole = bytes(self._unfinished + line)
            self._unfinished.clear()
            if whole.strip():
                self._take(whole)
        self._unfinished += rest
        if len(self._unfinished) > LONGEST_LINE:
            raise McpServerFailed(f"it sent a message of more than {LONGEST_LINE} bytes, and was ended")

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError) as exc:
            self._nonsense += 1
            if self._nonsense > MOST_NONSENSE:
                raise McpServerFailed(f"it talks nonsense, and was ended: {line[:80]!r}") from exc
            return
        self._count(message)
        try:
            self._heard.send_nowait(SessionMessage(message))
        except anyio.WouldBlock as exc:
            raise McpServerFailed("it sends messages faster than they can be read, and was ended") from exc
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # nobody listens any more: it is being ended

    def _count(self, message: JSONRPCMessage) -> None:
        answers = isinstance(message, JSONRPCResponse | JSONRPCError)
        self._unasked = 0 if answers else self._unasked + 1
        if self._unasked > MOST_UNASKED:
            raise McpServerFailed(f"it sent {MOST_UNASKED} messages in a row that answer nothing, and was ended")


@asynccontextmanager
async def process_transport(
    sandbox: Sandbox, command: SandboxCommand, ending: Ending
) -> AsyncIterator[TransportStreams]:
    """Run a server while the block runs, and talk with it. `ending` is told when it has ended by itself."""
    live = LiveInput()
    heard, reading = anyio.create_memory_object_stream[SessionMessage | Exception](MOST_UNREAD)
    writing, told = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_run(sandbox, replace(command, input=live), heard, ending))
        passing = tasks.create_task(_pass_on(told, live, heard, ending))
        try:
            yield reading, writing
        finally:
            live.close()
            await asyncio.wait([running], timeout=GRACE)
            for task in (running, passing):
                task.cancel()
            for stream in (heard, reading, writing, told):
                stream.close()


async def _run(
    sandbox: Sandbox, command: SandboxCommand, heard: MemoryObjectSendStream[SessionMessage | Exception], ending: Ending
) -> None:
    try:
        ended = await sandbox.run(command, on_output=Lines(heard).hear)
        ending.tell(f"it ended ({_how(ended)}){_last_words(ended)}")
    except HoldfastError as error:
        ending.tell(error.message)
    finally:
        heard.close()


async def _pass_on(
    told: MemoryObjectReceiveStream[SessionMessage],
    live: LiveInput,
    heard: MemoryObjectSendStream[SessionMessage | Exception],
    ending: Ending,
) -> None:
    """Write what is told to the server, as long as it reads that."""
    async for said in told:
        live.write(said.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if len(live) > MOST_UNWRITTEN:
            ending.tell(f"it does not read what it is told: {MOST_UNWRITTEN} bytes wait")
            heard.close()
            return


def _how(ended: ProcessResult) -> str:
    if ended.crowded:
        return "killed, because it had too many processes"
    return f"signal {ended.signal}" if ended.exit_code is None else f"exit code {ended.exit_code}"


def _last_words(ended: ProcessResult) -> str:
    said = ended.errors.decode(errors="replace").strip()[-_LAST_WORDS:]
    return f": {said}" if said else ""
