"""The bus of processes that share a PostgreSQL database, over LISTEN and NOTIFY.

Hints that are published while one is sent are merged into the next notification. A hint that exceeds the payload limit
is replaced by `everything`.
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
"""PostgreSQL accepts payloads of less than 8,000 bytes."""
RECONNECT_INTERVAL_SECONDS: Final = 0.5
NOTIFY_INTERVAL_SECONDS: Final = 0.005
"""The shortest time between two notifications: the first is sent at once, and those soon after it are merged."""

# A hint need not reach the disk.
_SERVER_SETTINGS: Final = {"application_name": "holdfast-bus", "synchronous_commit": "off"}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(WakeHint)


class PostgresBus:
    """`Bus` over LISTEN and NOTIFY."""

    def __init__(self) -> None:
        self._local = LocalBus()
        self._outgoing = CoalescingQueue()

    def publish(self, hint: WakeHint) -> None:
        """Send a hint with the next notification, and pass it to the subscribers of this process at once."""
        self._local.publish(hint)
        self._outgoing.put(hint)

    def subscribe(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `listener` with each hint while the block runs."""
        return self._local.subscribe(listener)

    async def run(self, url: str) -> None:
        """Send and receive hints, reconnecting when needed; hints that are sent while disconnected are lost."""
        while True:
            try:
                await self._listen_and_notify(url)
            except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await asyncio.sleep(RECONNECT_INTERVAL_SECONDS)

    async def _listen_and_notify(self, url: str) -> None:
        connection = await asyncpg.connect(url, timeout=10, server_settings=_SERVER_SETTINGS)
        try:
            # An empty hint wakes the loop, which otherwise would notice a broken connection only when it sends.
            connection.add_termination_listener(lambda _: self._outgoing.put(WakeHint()))
            await connection.add_listener(CHANNEL, self._receive)
            # Hints may have been missed while there was no connection.
            self._local.publish(WakeHint(everything=True))
            async for hint in self._outgoing:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, _payload(connection, hint))
                await asyncio.sleep(NOTIFY_INTERVAL_SECONDS)
        finally:
            connection.terminate()

    def _receive(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        sender, _, encoded = payload.partition(" ")
        if sender != str(connection.get_server_pid()):
            self._local.publish(_decoder.decode(encoded))


def _payload(connection: Any, hint: WakeHint) -> str:
    encoded = _encoder.encode(replace(hint, grown=()))
    if len(encoded) > MAX_PAYLOAD_BYTES:
        encoded = _encoder.encode(replace(hint, runs=frozenset(), ended=frozenset(), grown=(), everything=True))
    return f"{connection.get_server_pid()} {encoded.decode()}"


@asynccontextmanager
async def open_bus(url: str) -> AsyncIterator[PostgresBus]:
    """Run a bus while the block runs."""
    bus = PostgresBus()
    connection = start_background(bus.run(url), name="holdfast-bus", ended_by="open_bus")
    try:
        yield bus
    finally:
        await cancel_and_wait([connection])
