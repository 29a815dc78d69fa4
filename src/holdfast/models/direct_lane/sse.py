"""Server-sent events, decoded from packets as they arrive."""

from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""A longer event is malformed: a server that never ends one must not fill the memory."""


class SseEvent(NamedTuple):
    """One event; `data` is empty if it has none."""

    name: bytes
    data: bytes


class SseDecoder:
    """Splits packets into events. Lines end with LF, CRLF or CR; an event without its blank line is not complete."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._ends_in_newline = False
        self._after_cr = False

    def feed(self, packet: bytes) -> Iterator[SseEvent]:
        """Yield the events that a packet completes; raise `ValueError` for one that is too long."""
        if self._after_cr or b"\r" in packet:
            packet = self._normalise(packet)
        if not packet:
            return
        boundary = b"\n\n" in packet or (self._ends_in_newline and packet.startswith(b"\n"))
        self._ends_in_newline = packet.endswith(b"\n")
        self._rest.append(packet)
        self._size += len(packet)
        if not boundary:  # joining only at a boundary keeps the cost of an event in many packets linear
            if self._size > MAX_EVENT_BYTES:
                raise ValueError(f"an event is longer than {MAX_EVENT_BYTES} bytes")
            return
        *frames, rest = b"".join(self._rest).split(b"\n\n")
        self._rest, self._size = [rest], len(rest)
        self._ends_in_newline = rest.endswith(b"\n")
        for frame in frames:
            if frame.startswith(b"data: ") and b"\n" not in frame:
                yield SseEvent(b"", frame[6:])
            elif frame:
                yield from _parse_frame(frame)

    def _normalise(self, packet: bytes) -> bytes:
        """Return a packet with LF only; the LF of a CRLF may come in the next packet."""
        if self._after_cr:
            packet = packet.removeprefix(b"\n")
        self._after_cr = packet.endswith(b"\r")
        return packet.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse_frame(frame: bytes) -> Iterator[SseEvent]:
    name, lines = b"", []
    for line in frame.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    if name or lines:
        yield SseEvent(name, b"\n".join(lines))
