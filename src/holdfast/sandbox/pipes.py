"""Pipes between a worker and one command, read and written by the event loop.

An output longer than its limit keeps its beginning and its end.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import FileIO
from typing import Final

from holdfast.ports.sandbox import LiveInput

_READ_BYTES: Final = 1 << 16
"""Bytes per read: the default capacity of a pipe."""
_MAX_DRAIN_READS: Final = 64
"""Reads of an output after its command has ended: more than the largest pipe needs."""


class CommandPipes:
    """The control socket to the monitor and three pipes, each with the worker's end and the remote end."""

    def __init__(self) -> None:
        with ExitStack() as ends:
            self.control, self.remote_control = (ends.enter_context(end) for end in socket.socketpair())
            self.remote_input, self.input = (ends.enter_context(end) for end in _pipe())
            self.output, self.remote_output = (ends.enter_context(end) for end in _pipe())
            self.errors, self.remote_errors = (ends.enter_context(end) for end in _pipe())
            ends.pop_all()
        self.remote_control.setblocking(True)
        self.control.setblocking(False)
        for pipe in (self.input, self.output, self.errors):
            os.set_blocking(pipe.fileno(), False)

    def close_remote_ends(self) -> None:
        """Close the remote ends, once the monitor has its copies."""
        for end in (self.remote_control, self.remote_input, self.remote_output, self.remote_errors):
            end.close()

    def close(self) -> None:
        """Close every end."""
        self.close_remote_ends()
        for end in (self.control, self.input, self.output, self.errors):
            end.close()


class PipeReader:
    """Reads one output of a command as it arrives."""

    def __init__(self, file: FileIO, on_data: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._on_data = on_data
        self._loop.add_reader(file.fileno(), self._read)

    def drain(self) -> None:
        """Read what is buffered, then close: end of file may never come, if another process holds the other end."""
        for _ in range(_MAX_DRAIN_READS):
            if not self._read():
                break
        self.close()

    def close(self) -> None:
        """Stop reading."""
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())
            self._file.close()

    def _read(self) -> bool:
        """Read one piece; return whether there may be more."""
        piece = None if self._file.closed else self._file.read(_READ_BYTES)
        if piece:
            self._on_data(piece)
        elif piece == b"":
            self.close()
        return bool(piece)


class PipeWriter:
    """Writes a fixed input as fast as the command reads it."""

    def __init__(self, file: FileIO, text: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._rest = memoryview(text)
        self._loop.add_writer(file.fileno(), self._write)

    def close(self) -> None:
        """End the input."""
        if not self._file.closed:
            self._loop.remove_writer(self._file.fileno())
            self._file.close()

    def _write(self) -> None:
        with suppress(BrokenPipeError):  # a command need not read its input
            if self._rest:
                self._rest = self._rest[self._file.write(self._rest) or 0 :]
            if self._rest:
                return
        self.close()


class LivePipeWriter(PipeWriter):
    """Writes a live input as it arrives, as fast as the command reads it."""

    def __init__(self, file: FileIO, live: LiveInput) -> None:
        self._live = live
        super().__init__(file, b"")
        live.on_change(self._write)
        self._write()

    def _write(self) -> None:
        """Write as much as the pipe accepts; continue when it accepts more."""
        if self._file.closed:
            return
        try:
            written = self._file.write(self._live.peek()[:_READ_BYTES]) if len(self._live) else 0
            self._live.take(written or 0)
        except BrokenPipeError:  # a command need not read its input
            self.close()
            return
        if len(self._live):
            self._loop.add_writer(self._file.fileno(), self._write)
        elif self._live.closed:
            self.close()
        else:
            self._loop.remove_writer(self._file.fileno())


def _pipe() -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return FileIO(reading, "rb"), FileIO(writing, "wb")


class BoundedOutput:
    """Keeps up to `limit` bytes of an output: half from its beginning, half from its end."""

    def __init__(self, limit: int) -> None:
        self._max_head = limit - limit // 2
        self._max_tail = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, piece: bytes) -> None:
        """Append the next bytes of the output."""
        self._total += len(piece)
        room = self._max_head - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._max_tail:  # not each time, so that a byte is moved once
            self._trim()

    @property
    def dropped(self) -> int:
        """The number of bytes dropped."""
        return max(0, self._total - self._max_head - self._max_tail)

    def bytes(self) -> bytes:
        """Return the kept bytes."""
        self._trim()
        return bytes(self._head + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._max_tail)]
