"""The bus of processes that share a PostgreSQL database, over LISTEN and NOTIFY.

Wake-ups that arrive while one is sent travel together in the next notification. A wake-up that does not fit into a
payload is replaced by "everything may have changed".
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final

import asyncpg
import msgspec
from msgspec.structs import replace

from holdfast.bus.local import CoalescingQueue, LocalBus
from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.ports.bus import WakeHint, WakeListener

CHANNEL: Final = "holdfast"
MAX_PAYLOAD_BYTES: Final = 7900
"""PostgreSQL takes payloads of less than 8,000 bytes."""
RECONNECT_INTERVAL_SECONDS: Final = 0.5
"""Seconds between attempts to reconnect."""
NOTIFY_INTERVAL_SECONDS: Final = 0.005
"""Seconds between two notifications: the first goes out at once, and what follows it closely travels together."""

_SERVER_SETTINGS: Final = {
    "application_name": "holdfast-bus",
    "synchronous_commit": "off",
}  # a hint need not reach the disk
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(WakeHint)


class PostgresBus:
    """`Bus` over LISTEN and NOTIFY."""

    def __init__(self) -> None:
        self._readers = LocalBus()
        self._outgoing = CoalescingQueue()

    def publish(self, wake: WakeHint) -> None:
        """Send a hint with the next notification; readers of this process have it at once."""
        self._readers.publish(wake)
        self._outgoing.put(wake)

    def subscribe(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `hear` with each hint from now on while the block runs."""
        return self._readers.subscribe(listener)

    async def run(self, url: str) -> None:
        """Keep a connection, send and receive; what happens while there is none is lost."""
        while True:
            try:
                await self._listen_and_notify(url)
            except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await asyncio.sleep(RECONNECT_INTERVAL_SECONDS)

    async def _listen_and_notify(self, url: str) -> None:
        connection = await asyncpg.connect(url, timeout=10, server_settings=_SERVER_SETTINGS)
        try:
            # With nothing to send, nobody would notice that the connection broke.
            connection.add_termination_listener(lambda _: self._outgoing.put(WakeHint()))
            await connection.add_listener(CHANNEL, self._receive)
            # Something may have been missed while there was no connection.
            self._readers.publish(WakeHint(everything=True))
            async for wake in self._outgoing:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, _payload(connection, wake))
                await asyncio.sleep(NOTIFY_INTERVAL_SECONDS)
        finally:
            connection.terminate()

    def _receive(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        sender, _, hint = payload.partition(" ")
        if sender != str(connection.get_server_pid()):
            self._readers.publish(_decoder.decode(hint))


def _payload(connection: Any, wake: WakeHint) -> str:
    hint = _encoder.encode(replace(wake, grown=()))
    if len(hint) > MAX_PAYLOAD_BYTES:
        hint = _encoder.encode(replace(wake, runs=frozenset(), ended=frozenset(), grown=(), everything=True))
    return f"{connection.get_server_pid()} {hint.decode()}"


@asynccontextmanager
async def open_bus(url: str) -> AsyncIterator[PostgresBus]:
    """Run a bus while the block runs."""
    bus = PostgresBus()
    connection = start_background(bus.run(url), name="holdfast-bus", ended_by="open_bus")
    try:
        yield bus
    finally:
        await cancel_and_wait([connection])
