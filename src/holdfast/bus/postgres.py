"""The bus of processes that share a PostgreSQL database, over LISTEN and NOTIFY.

A hint that exceeds the payload limit is replaced by `everything`.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Final

import asyncpg
import msgspec
from msgspec.structs import replace

from holdfast.bus.relay import RelayBus, run_bus
from holdfast.ports.bus import WakeHint

CHANNEL: Final = "holdfast"
MAX_PAYLOAD_BYTES: Final = 7900
"""PostgreSQL accepts payloads of less than 8,000 bytes."""
NOTIFY_INTERVAL_SECONDS: Final = 0.005
"""The shortest time between two notifications: the first is sent at once, and those soon after it are merged."""

# A hint need not reach the disk.
_SERVER_SETTINGS: Final = {"application_name": "holdfast-bus", "synchronous_commit": "off"}
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(WakeHint)


class PostgresBus(RelayBus):
    """`Bus` over LISTEN and NOTIFY."""

    connection_errors = (
        TimeoutError,
        OSError,
        EOFError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # the server has ended the session, and the statement was not sent
    )

    async def relay(self, url: str) -> None:
        """Send and receive hints until the connection is lost."""
        connection = await asyncpg.connect(url, timeout=10, server_settings=_SERVER_SETTINGS)
        try:
            # An empty hint wakes the loop, which otherwise would notice a broken connection only when it sends.
            connection.add_termination_listener(lambda _: self.outgoing.put(WakeHint()))
            own = str(connection.get_server_pid())  # a listener may still be called when the connection is lost
            await connection.add_listener(CHANNEL, partial(self._receive, own))
            self.local.publish(WakeHint(everything=True))
            async for hint in self.outgoing:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, _payload(own, hint))
                await asyncio.sleep(NOTIFY_INTERVAL_SECONDS)
        finally:
            connection.terminate()

    def _receive(self, own: str, connection: Any, pid: int, channel: str, payload: str) -> None:
        sender, _, encoded = payload.partition(" ")
        if sender != own:
            # What another version of Holdfast has sent is found by the watcher, which looks without hints, too.
            with suppress(msgspec.DecodeError):
                self.local.publish(_decoder.decode(encoded))


def _payload(own: str, hint: WakeHint) -> str:
    encoded = _encoder.encode(replace(hint, grown=()))
    if len(encoded) > MAX_PAYLOAD_BYTES:
        encoded = _encoder.encode(replace(hint, runs=frozenset(), ended=frozenset(), grown=(), everything=True))
    return f"{own} {encoded.decode()}"


def open_bus(url: str) -> AbstractAsyncContextManager[PostgresBus]:
    """Run a bus while the block runs."""
    return run_bus(PostgresBus(), url)
