"""Connections that wait for a complete request: bounded in number and time, so that they leave room for others.

A connection waits from its start, and again after each response, until its next request has arrived with its body.
One whose request is being answered, such as a stream, does not count. Above a limit the connection that made no
progress for the longest time is closed, not the new one: a client that sends is served, however many others idle.

To start the app costs more than all else of a half request. While connections are crowded, the app gets a request only
once its body is complete or fills the buffer, or the connection has lasted for a sweep.
"""

import asyncio
import logging
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

HEAD_TIMEOUT_SECONDS: Final = 20.0
"""Time for the head of a request, from the start of the connection or the first byte."""
BODY_STALL_SECONDS: Final = 20.0
"""Time without a byte of a request body."""
BODY_TIMEOUT_SECONDS: Final = 600.0
"""Time for a whole request body."""
MAX_WAITING: Final = 4096
MIN_WAITING: Final = 64
WAITING_SHARE: Final = 4
"""Waiting connections take at most one in so many file descriptors."""
ADDRESS_SHARE: Final = 2
"""Those of one address take at most one in so many of them."""
CROWDED_SHARE: Final = 4
"""Connections are crowded from one in so many of a limit."""
SWEEP_SECONDS: Final = 1.0
DRAIN_CHECK_SECONDS: Final = 1.0
"""Seconds between two checks whether the peer of a closing connection still reads what is buffered for it."""

_log: Final = logging.getLogger("holdfast.http")


class RequestPhase(Enum):
    """How far the next request of a connection has arrived."""

    IDLE = "idle"
    """Nothing of it; after a response the server itself closes the connection soon."""
    HEAD = "head"
    BODY = "body"


class WaitingConnection(Protocol):
    """A connection without a complete request."""

    @property
    def address(self) -> str:
        """The address of the client."""

    @property
    def is_read_paused(self) -> bool:
        """Whether the server has stopped to read from it."""

    def close_waiting(self, reason: str) -> None:
        """Close the connection, with an error if part of a request has arrived."""

    def start_held(self) -> None:
        """Pass a request that was held because connections were crowded to the app."""


class _Wait:
    __slots__ = ("phase", "progress_at", "started_at")

    def __init__(self, phase: RequestPhase, now: float) -> None:
        self.phase = phase
        self.started_at = self.progress_at = now

    def expired(self, now: float) -> bool:
        if self.phase is RequestPhase.BODY:
            return now - self.progress_at > BODY_STALL_SECONDS or now - self.started_at > BODY_TIMEOUT_SECONDS
        return now - self.started_at > HEAD_TIMEOUT_SECONDS


class WaitingConnections:
    """The waiting connections of a server."""

    def __init__(self, *, max_files: int) -> None:
        self._limit = max(min(max_files // WAITING_SHARE, MAX_WAITING), MIN_WAITING)
        self._address_limit = self._limit // ADDRESS_SHARE
        self._by_address: dict[str, dict[WaitingConnection, _Wait]] = {}
        """Per address, the connections in the order of their last progress."""
        self._count = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._refusals = 0

    def wait(self, connection: WaitingConnection, phase: RequestPhase) -> None:
        """Add a connection that waits, or record its progress."""
        loop = asyncio.get_running_loop()
        waits = self._by_address.setdefault(connection.address, {})
        wait, now = waits.pop(connection, None), loop.time()
        if wait is None or wait.phase is not phase:
            self._count += wait is None
            wait = _Wait(phase, now)
        wait.progress_at = now
        waits[connection] = wait
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._close_expired)
        if len(waits) > self._address_limit:
            self._close_oldest(waits)
        elif self._count > self._limit:
            self._close_oldest(max(self._by_address.values(), key=len))

    def is_crowded(self, address: str) -> bool:
        """Return whether many connections wait, of an address or in all."""
        own = len(self._by_address.get(address, ()))
        return own * CROWDED_SHARE > self._address_limit or self._count * CROWDED_SHARE > self._limit

    def remove(self, connection: WaitingConnection) -> None:
        """Remove a connection whose request is complete, or that is closed."""
        waits = self._by_address.get(connection.address)
        if waits is not None and waits.pop(connection, None) is not None:
            self._count -= 1
            if not waits:
                del self._by_address[connection.address]

    def _close_oldest(self, waits: dict[WaitingConnection, _Wait]) -> None:
        self._refusals += 1
        self._close(next(iter(waits)), "too many connections wait for a request: send requests at once")

    def _close_expired(self) -> None:
        self._sweep = None
        if self._refusals:
            _log.warning("closed %d connections that waited for a request: there were too many", self._refusals)
            self._refusals = 0
        for connection in list(self._expired(asyncio.get_running_loop().time())):
            self._close(connection, "the request did not arrive in time: send it without pauses")
        for connection in [each for waits in self._by_address.values() for each in waits]:
            connection.start_held()
        if self._by_address:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._close_expired)

    def _expired(self, now: float) -> Iterator[WaitingConnection]:
        for waits in self._by_address.values():
            for connection, wait in waits.items():
                if wait.expired(now) and not connection.is_read_paused:
                    yield connection

    def _close(self, connection: WaitingConnection, reason: str) -> None:
        self.remove(connection)
        connection.close_waiting(reason)


def close_draining(
    transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, check_seconds: float = DRAIN_CHECK_SECONDS
) -> None:
    """Close a connection, and abort it once the peer reads nothing of the remaining data between two checks."""
    transport.close()
    loop.call_later(check_seconds, _abort_if_stalled, transport, loop, transport.get_write_buffer_size(), check_seconds)


def _abort_if_stalled(
    transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, previous_size: int, check_seconds: float
) -> None:
    size = transport.get_write_buffer_size()
    if 0 < size < previous_size:
        loop.call_later(check_seconds, _abort_if_stalled, transport, loop, size, check_seconds)
    elif size:
        transport.abort()
