"""The environment of a workload: a store, its own space, and a callback for each finished step."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.events import Event, RunErrorEvent, RunFinished, TerminalEvent, decode_event
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.stream import StreamNormaliser
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock

T = TypeVar("T")

START: Final = 1_750_000_000_000
WORKER: Final = OwnerId("worker")
LEASE: Final = timedelta(minutes=1)
FAR_OFF: Final = timedelta(hours=12)


class Stage:
    """One space of a store. Each operation changes that space in one transaction."""

    def __init__(
        self,
        store: Store,
        space: SpaceId,
        *,
        clock: HeldClock,
        queue: asyncio.Lock,
        note: Callable[[], Awaitable[None]],
    ) -> None:
        self.store = store
        self.space = space
        self.clock = clock
        self.queue = queue
        """Held while a run or a timer is claimable, so that each player claims its own."""
        self._note = note

    async def do(self, operation: Awaitable[T]) -> T:
        """Report a step once it is done."""
        result = await operation
        await self._note()
        return result

    async def claim(self) -> "Worker":
        """Claim the only claimable run."""
        (lease,) = await self.do(self.store.leases.claim(WORKER, lease=LEASE, limit=10))
        assert lease.space_id == self.space
        logged = await self.store.events.after(self.space, lease.run_id)
        stream = StreamNormaliser.resume(lease.thread_id, lease.run_id, [decode_event(event.data) for event in logged])
        return Worker(self, lease, stream)

    def at(self, delay: timedelta) -> Instant:
        """Return an instant in the future."""
        return instant(Millis(self.clock.now() + delay // timedelta(milliseconds=1)))


class Worker:
    """The holder of a run's lease."""

    def __init__(self, stage: Stage, lease: Lease, stream: StreamNormaliser) -> None:
        self.lease = lease
        self._stage = stage
        self._stream = stream

    async def commit(self, *events_to_feed: Event, end: TerminalEvent | None = None, **parts: Any) -> Committed:
        """Commit messages as a legal stream, with further changes."""
        now = self._stage.clock.now()
        events = [legal for event in events_to_feed for legal in self._stream.feed(event, at=now)]
        if end is not None:
            events += self._stream.end(end, at=now)
        journal = self._stage.store.journal
        return await self._stage.do(journal.commit(Commit(lease=self.lease, events=events, **parts)))

    def finished(self) -> RunFinished:
        """Return the event of a successful end."""
        return RunFinished(thread_id=self.lease.thread_id, run_id=self.lease.run_id)

    def failed(self) -> RunErrorEvent:
        """Return the event of a failed end."""
        return RunErrorEvent(message="it broke", code="BROKEN")
