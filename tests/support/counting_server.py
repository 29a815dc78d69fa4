"""A tool server in its own process: it counts each call before it responds, and outlives its callers.

    call ──► counted ──► "begun" ──(while the name is held, nothing)──► "done"

So a test knows what really happened, whatever became of the caller. A caller that dies between the two answers was
cut off in the middle of its call.

    async with CountingServer() as server:
        async with calling(server.path, tool="charge", key="run.4", name="fuel") as finish:
            await finish()
        assert [call.name for call in await server.calls()] == ["fuel"]
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

import msgspec

FinishCall: TypeAlias = Callable[[], Awaitable[None]]
"""Waits for the end of a started call."""

_READY: Final = b"ready\n"
_OK: Final = b"true"


class CountedCall(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """One call, as the server saw it."""

    tool: str
    key: str
    name: str
    """The subject of the call, chosen by the test."""


class _List(msgspec.Struct, frozen=True, tag="list"):
    prefix: str


class _Hold(msgspec.Struct, frozen=True, tag="hold"):
    name: str


class _Release(msgspec.Struct, frozen=True, tag="release"):
    name: str


class _Reached(msgspec.Struct, frozen=True, tag="reached"):
    name: str


_Request: TypeAlias = CountedCall | _List | _Hold | _Release | _Reached


class CountingServer:
    """The server, from the side of the test."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-calls-"))
        self._process: asyncio.subprocess.Process | None = None

    @property
    def path(self) -> str:
        """The socket to call."""
        return str(self._folder / "socket")

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            self.path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=asyncio.subprocess.PIPE,  # closed when the test ends, which ends the server
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if await self._process.stdout.readline() != _READY:
            raise RuntimeError("the counting server did not start")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await self._process.communicate(b"")
        shutil.rmtree(self._folder, ignore_errors=True)

    async def calls(self, prefix: str = "") -> list[CountedCall]:
        """Return the calls so far with a name prefix."""
        return msgspec.json.decode(await _ask(self.path, _List(prefix)), type=list[CountedCall])

    async def hold(self, name: str) -> None:
        """Hold calls of a name once they have started."""
        await _ask(self.path, _Hold(name))

    async def release(self, name: str) -> None:
        """Release held and later calls of a name."""
        await release(self.path, name)

    async def wait_until_held(self, name: str) -> None:
        """Wait until a call of that name is held, or was."""
        await wait_until_held(self.path, name)


@asynccontextmanager
async def calling(path: str, *, tool: str, key: str, name: str) -> AsyncIterator[FinishCall]:
    """Start a call, counted at the start of the block; the yielded function waits for its end."""
    async with _connection(path) as (reader, writer):
        writer.write(_line(CountedCall(tool=tool, key=key, name=name)))
        await _answer(reader)

        async def finish() -> None:
            await _answer(reader)

        yield finish


async def release(path: str, name: str) -> None:
    """Release held and later calls of a name."""
    await _ask(path, _Release(name))


async def wait_until_held(path: str, name: str) -> None:
    """Wait until a call of that name is held, or was."""
    await _ask(path, _Reached(name))


async def _ask(path: str, request: _Request) -> bytes:
    async with _connection(path) as (reader, writer):
        writer.write(_line(request))
        return await _answer(reader)


@asynccontextmanager
async def _connection(path: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line:
        raise ConnectionResetError("the counting server is gone")
    return line


def _line(request: _Request) -> bytes:
    return msgspec.json.encode(request) + b"\n"


class _Gate:
    """Holds the calls of one name."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


class _CallLog:
    """The calls and holds of the server."""

    def __init__(self) -> None:
        self._calls: list[CountedCall] = []
        self._gates: dict[str, _Gate] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        with suppress(ConnectionError):  # the caller has died
            if line := await reader.readline():
                async for answer in self._answers(msgspec.json.decode(line, type=_Request)):
                    writer.write(answer + b"\n")
                    await writer.drain()
        writer.close()

    async def _answers(self, request: _Request) -> AsyncIterator[bytes]:
        match request:
            case CountedCall():
                self._calls.append(request)
                yield _OK
                if gate := self._gates.get(request.name):
                    gate.reached.set()
                    await gate.opened.wait()
            case _List(prefix=prefix):
                yield msgspec.json.encode([call for call in self._calls if call.name.startswith(prefix)])
                return
            case _Hold(name=name):
                self._gates[name] = _Gate()
            case _Release(name=name):
                if gate := self._gates.pop(name, None):
                    gate.reached.set()
                    gate.opened.set()
            case _Reached(name=name):
                if gate := self._gates.get(name):
                    await gate.reached.wait()
        yield _OK


async def _serve(path: str) -> None:
    await asyncio.start_unix_server(_CallLog().handle, path)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    os._exit(0)  # held calls are abandoned


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
