"""Pipes between a worker and one command: how the event loop reads, writes and bounds them.

Of an output longer than its limit, the beginning and the end are kept.
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
"""Bytes read at once: as many as a pipe holds, unless it was made larger."""
_MAX_DRAIN_READS: Final = 64
"""How often an output is read once its command is gone: more than the largest pipe needs."""


class CommandPipes:
    """A socket to talk with the keeper and three pipes, each with the worker's end and theirs."""

    def __init__(self) -> None:
        with ExitStack() as opened:
            self.control, self.their_control = (opened.enter_context(end) for end in socket.socketpair())
            self.their_input, self.input = (opened.enter_context(end) for end in _pipe())
            self.output, self.their_output = (opened.enter_context(end) for end in _pipe())
            self.errors, self.their_errors = (opened.enter_context(end) for end in _pipe())
            opened.pop_all()
        self.their_control.setblocking(True)
        self.control.setblocking(False)
        for ours in (self.input, self.output, self.errors):
            os.set_blocking(ours.fileno(), False)

    def close_remote_ends(self) -> None:
        """Close the ends that others have by now."""
        for theirs in (self.their_control, self.their_input, self.their_output, self.their_errors):
            theirs.close()

    def close(self) -> None:
        """Close every end."""
        self.close_remote_ends()
        for ours in (self.control, self.input, self.output, self.errors):
            ours.close()


class PipeReader:
    """Reads an output of a command as it comes."""

    def __init__(self, file: FileIO, on_data: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._on_data = on_data
        self._loop.add_reader(file.fileno(), self._read)

    def drain(self) -> None:
        """Read all that is there, and no more: somebody else may hold the other end open."""
        for _ in range(_MAX_DRAIN_READS):
            if not self._read():
                break
        self.close()

    def close(self) -> None:
        """Read no more."""
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())
            self._file.close()

    def _read(self) -> bool:
        """Read a piece; say whether there may be another."""
        piece = None if self._file.closed else self._file.read(_READ_BYTES)
        if piece:
            self._on_data(piece)
        elif piece == b"":
            self.close()
        return bool(piece)


class PipeWriter:
    """Writes the input of a command as fast as it is read."""

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
        with suppress(BrokenPipeError):  # a command need not read what it is given
            if self._rest:
                self._rest = self._rest[self._file.write(self._rest) or 0 :]
            if self._rest:
                return
        self.close()


class LivePipeWriter:
    """Writes the input of a command as it comes, and as fast as it is read."""

    def __init__(self, file: FileIO, live: LiveInput) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._live = live
        live.on_change(self._write)
        self._write()

    def close(self) -> None:
        """End the input."""
        if not self._file.closed:
            self._loop.remove_writer(self._file.fileno())
            self._file.close()

    def _write(self) -> None:
        """Write as much as the pipe takes; when it takes more, go on."""
        if self._file.closed:
            return
        try:
            taken = self._file.write(self._live.peek()[:_READ_BYTES]) if len(self._live) else 0
            self._live.take(taken or 0)
        except BrokenPipeError:  # a command need not read what it is told
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
    """Keeps up to `limit` bytes: the first half as it came, and the latest of the rest."""

    def __init__(self, limit: int) -> None:
        self._first = limit - limit // 2
        self._last = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the output."""
        self._seen += len(piece)
        room = self._first - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._last:  # not each time, so that a byte is moved once
            self._trim()

    @property
    def dropped(self) -> int:
        """How many bytes were thrown away."""
        return max(0, self._seen - self._first - self._last)

    def bytes(self) -> bytes:
        """Return what was kept."""
        self._trim()
        return bytes(self._head + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._last)]
