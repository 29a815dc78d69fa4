"""The part that buses between processes share: local delivery, merging of outgoing hints, and reconnects."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import ClassVar, Final, TypeVar

from holdfast.bus.local import CoalescingQueue, LocalBus
from holdfast.concurrency import cancel_and_wait, start_background
from holdfast.ports.bus import WakeHint, WakeListener

RECONNECT_INTERVAL_SECONDS: Final = 0.5


class RelayBus(ABC):
    """`Bus` of processes that are connected to one server.

    Hints that are published while one is sent are merged into the next message; those that are sent while the server
    is away are lost.
    """

    connection_errors: ClassVar[tuple[type[Exception], ...]]
    """Errors after which the bus connects again."""

    def __init__(self) -> None:
        self.local = LocalBus()
        self.outgoing = CoalescingQueue()

    def publish(self, hint: WakeHint) -> None:
        """Pass a hint to the subscribers of this process at once, and send it with the next message."""
        self.local.publish(hint)
        self.outgoing.put(hint)

    def subscribe(self, listener: WakeListener) -> AbstractContextManager[None]:
        """Call `listener` with each hint while the block runs."""
        return self.local.subscribe(listener)

    async def run(self, url: str) -> None:
        """Send and receive hints, reconnecting when needed."""
        while True:
            try:
                await self.relay(url)
            except self.connection_errors:
                await asyncio.sleep(RECONNECT_INTERVAL_SECONDS)

    @abstractmethod
    async def relay(self, url: str) -> None:
        """Connect, then send and receive hints until the connection is lost.

        Once connected it publishes `everything` locally, because hints may have been missed before.
        """


B = TypeVar("B", bound=RelayBus)


@asynccontextmanager
async def run_bus(bus: B, url: str) -> AsyncIterator[B]:
    """Run a bus while the block runs."""
    connection = start_background(bus.run(url), name="holdfast-bus", ended_by="run_bus")
    try:
        yield bus
    finally:
        await cancel_and_wait([connection])
