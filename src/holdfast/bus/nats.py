"""The bus over a NATS server, which carries hints together with the new events of runs.

A stream on one process so follows a run on another without reading the database for each delta. Nothing depends on it:
while the server is away, streams and workers read the store. The path of the URL is the name of the cluster, `holdfast`
without one; processes with one database must use the same name, and no others.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec
import nats
import nats.errors
from msgspec.structs import replace
from nats.aio.msg import Msg

from holdfast.bus.relay import RelayBus, run_bus
from holdfast.domain.errors import Invalid
from holdfast.ports.bus import WakeHint

DEFAULT_CLUSTER: Final = "holdfast"
CONNECT_TIMEOUT_SECONDS: Final = 5
SEND_INTERVAL_SECONDS: Final = 0.002
"""The shortest time between two messages: the first is sent at once, and those soon after it are merged."""
PING_INTERVAL_SECONDS: Final = 5
"""A connection that answers none of two pings is lost."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(WakeHint)


class NatsBus(RelayBus):
    """`Bus` over a NATS server."""

    connection_errors = (TimeoutError, OSError, EOFError, nats.errors.Error)

    async def relay(self, url: str) -> None:
        """Send and receive hints until the connection is lost."""
        server, subject = split_url(url)

        async def wake() -> None:
            self.outgoing.put(WakeHint())  # the loop would notice a lost connection only when it sends

        async def ignore(error: Exception) -> None:
            """Keep the client from logging: a lost connection ends the loop."""

        connection = await nats.connect(
            server,
            name="holdfast",
            no_echo=True,
            allow_reconnect=False,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            ping_interval=PING_INTERVAL_SECONDS,
            disconnected_cb=wake,
            closed_cb=wake,
            error_cb=ignore,
        )
        try:
            await connection.subscribe(subject, cb=self._receive)
            for _ in range(2):  # the client's first ping may overtake the subscription, which a task of its own sends
                await connection.flush(timeout=CONNECT_TIMEOUT_SECONDS)
            self.local.publish(WakeHint(everything=True))
            async for hint in self.outgoing:
                try:
                    await connection.publish(subject, _payload(hint, limit=connection.max_payload))
                    await connection.flush(timeout=CONNECT_TIMEOUT_SECONDS)
                except self.connection_errors:
                    self.outgoing.put(hint)  # for the next connection: the others do not know what they missed
                    raise
                await asyncio.sleep(SEND_INTERVAL_SECONDS)
        finally:
            with suppress(*self.connection_errors):
                await connection.close()

    async def _receive(self, message: Msg) -> None:
        with suppress(msgspec.DecodeError):  # another version of Holdfast: the fallback of the watcher finds changes
            self.local.publish(_decoder.decode(message.data))


def split_url(url: str) -> tuple[str, str]:
    """Return the address of the server and the subject of the cluster; `Invalid` if the URL cannot be used."""
    wrong = Invalid("the bus needs a URL such as `nats://host:4222/cluster`", field="bus")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise wrong from exc
    if parts.scheme not in ("nats", "tls") or not parts.hostname or port == 0:
        raise wrong
    cluster = parts.path.strip("/") or DEFAULT_CLUSTER
    if not (cluster.isascii() and cluster.replace("_", "a").replace("-", "a").isalnum()):
        raise Invalid(f"`{cluster}` is not a name of a cluster: use letters, digits, `_` and `-`", field="bus")
    return f"{parts.scheme}://{parts.netloc}", f"holdfast.{cluster}.hints"


def _payload(hint: WakeHint, *, limit: int) -> bytes:
    """Return a hint in at most `limit` bytes: without its events if need be, then as `everything`."""
    encoded = _encoder.encode(hint)
    if len(encoded) > limit:
        encoded = _encoder.encode(replace(hint, grown=()))
    if len(encoded) > limit:
        encoded = _encoder.encode(replace(hint, runs=frozenset(), ended=frozenset(), grown=(), everything=True))
    return encoded


def open_bus(url: str) -> AbstractAsyncContextManager[NatsBus]:
    """Run a bus while the block runs."""
    return run_bus(NatsBus(), url)
