"""Fakes: a journal in memory, a lease on the run of these tests, and a model controlled by the test."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from typing import Final

from holdfast.agent.context.conversation import ConversationWindow, TurnPosition
from holdfast.agent.run_writer import RunWriter
from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.errors import HoldfastError
from holdfast.domain.events import PROTOCOL_VERSION, Event, RunStarted
from holdfast.domain.ids import MessageId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message
from holdfast.domain.stream import StreamNormaliser
from holdfast.ports.model import ModelDelta, ModelFinished, ModelRequest
from holdfast.testing.clock import HeldClock
from tests.support.calls import a_lease
from tests.unit.agent.builders import RUN, THREAD, run

LEASE: Final = a_lease(run())
FIRST: Final = RunStarted(thread_id=THREAD, run_id=RUN, protocol_version=PROTOCOL_VERSION)


class FakeJournal:
    """`Journal` that keeps commits in memory, and raises the next of its `refusals`."""

    def __init__(self, history: Sequence[Message] = ()) -> None:
        self.commits: list[Commit] = []
        self.refusals: list[HoldfastError] = []
        self.gate = asyncio.Event()
        """A commit waits until it is set."""
        self.gate.set()
        self.started = asyncio.Semaphore(0)
        self.history_requests: list[int] = []
        self._history = list(history)
        self._sequences = count(100)
        self._seq = 1

    @property
    def events(self) -> list[Event]:
        """All committed events, including the first one."""
        return [FIRST, *(event for commit in self.commits for event in commit.events)]

    async def commit(self, commit: Commit) -> Committed:
        """Store a commit."""
        self.started.release()
        await self.gate.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        self.commits.append(commit)
        self._seq += len(commit.events)
        return Committed(
            last_event_seq=self._seq,
            message_ids=[message.id or MessageId("made") for message in commit.messages],
            sequences=[next(self._sequences) for _ in commit.messages],
        )

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return earlier messages."""
        self.history_requests.append(before)
        messages = [message for message in self._history if message.sequence is not None and message.sequence < before]
        return messages[-limit:]

    async def open(self, lease: Lease) -> RunSnapshot:
        """Not supported."""
        raise NotImplementedError

    async def charge_ended(self, lease: Lease, usage: Usage) -> bool:
        """Charge nothing: the run goes on."""
        return False

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return nothing."""
        return []

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Not supported."""
        raise NotImplementedError


def new_writer(
    journal: FakeJournal,
    *,
    conversation: ConversationWindow | None = None,
    commit_interval: Callable[[], float] = lambda: 0.0,
) -> RunWriter:
    """Return the writer of a run that has just started."""
    window = conversation or ConversationWindow(RUN, [], turn=TurnPosition(goal=None, position=0), whole=True)
    return RunWriter(
        journal,
        LEASE,
        StreamNormaliser.resume(THREAD, RUN, [FIRST]),
        window,
        HeldClock(),
        last_event_seq=1,
        commit_interval=commit_interval,
    )


class FakeModel:
    """`Model` that streams the deltas of a test; an exception is raised, and `None` ends the stream."""

    name = "fake_model"
    context_window = 100_000
    price_known = True
    address = None
    idle_timeout_seconds = 120.0

    def __init__(self) -> None:
        self.lines: asyncio.Queue[ModelDelta | Exception | None] = asyncio.Queue()
        self.requests: list[ModelRequest] = []
        self.closed = False

    def say(self, *lines: ModelDelta | Exception | None) -> None:
        """Add deltas to stream next."""
        for line in lines:
            self.lines.put_nowait(line)

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return a cost of zero."""
        return 0.0

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Stream the deltas of the test."""
        self.requests.append(request)
        return aclosing(self._play())

    async def _play(self) -> AsyncGenerator[ModelDelta, None]:
        try:
            while (line := await self.lines.get()) is not None:
                if isinstance(line, Exception):
                    raise line
                yield line
                if isinstance(line, ModelFinished):
                    return
        finally:
            self.closed = True
