"""How items are written for a stream. Each is written once, for all who read it."""

from collections.abc import Sequence
from typing import Final

from holdfast.control.feeds.chunk import Item

RETRY: Final = b"retry: 1000\n\n"
"""How long a browser waits before it comes back, in milliseconds."""
NO_RETRY: Final = b"retry: 86400000\n\n"
"""A browser comes back whatever the reason; after the end there is nothing to come back for."""
KEEPALIVE: Final = b": keepalive\n\n"
PING: Final = '{"type":"ping"}'
PONG: Final = '{"type":"pong"}'


def numbered(items: Sequence[Item]) -> bytes:
    """Write items as events of an SSE stream, with their numbers as ids."""
    return b"".join([b"id: %d\ndata: %b\n\n" % (item.seq, item.data) for item in items])


def plain(items: Sequence[Item]) -> bytes:
    """Write items as events of an SSE stream that cannot be resumed."""
    return b"".join([b"data: %b\n\n" % item.data for item in items])


def envelopes(items: Sequence[Item]) -> list[str]:
    """Write items as messages of a WebSocket."""
    return [f'{{"type":"{item.type}","seq":{item.seq},"data":{item.data.decode()}}}' for item in items]


def comment(text: str) -> bytes:
    """Write something that only people read."""
    return f": {' '.join(text.split())}\n\n".encode()
