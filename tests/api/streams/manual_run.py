"""Runs whose events a test commits itself, as a worker would."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import Event, TextMessageContent, TextMessageEnd, TextMessageStart
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.api.site import TIMEOUT_SECONDS
from tests.builders import FIRST, assistant
from tests.scenario.agents.agent_workspace import SPACE

TEXT: Final = MessageId("text")


class ManualRun:
    """A run that a test has claimed; each method is one commit."""

    def __init__(self, store: Store, run: Run, lease: Lease) -> None:
        self.run = run
        self.event_count = 0
        self._store = store
        self._lease = lease

    @property
    def id(self) -> RunId:
        """The id of the run."""
        return self.run.id

    async def say(self, *texts: str) -> None:
        """Append text of the model, one event per piece."""
        start: list[Event] = [] if self.event_count else [TextMessageStart(message_id=TEXT, role="assistant")]
        self.event_count += len(texts) + len(start)
        pieces: list[Event] = [TextMessageContent(message_id=TEXT, delta=text) for text in texts]
        await self._store.journal.commit(Commit(lease=self._lease, events=[*start, *pieces]))

    async def finish(self) -> None:
        """Complete the run."""
        end: list[Event] = [TextMessageEnd(message_id=TEXT)] if self.event_count else []
        move = Move(to=RunStatus.COMPLETED, output="done")
        await self._store.journal.commit(Commit(lease=self._lease, events=end, messages=[assistant("done")], move=move))


async def start_manual_run(store: Store) -> ManualRun:
    """Create a run and claim it for an hour; the store must have no workers."""
    run = (await store.runs.create(SPACE, NewRun(thread=NewThread()))).run
    claimed = await store.leases.claim(FIRST, lease=timedelta(hours=1), limit=100)  # also what other tests left
    return ManualRun(store, run, next(lease for lease in claimed if lease.run_id == run.id))


async def with_timeout(awaitable: asyncio.Future[Any] | Any) -> Any:
    """Await something that must not take long."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await awaitable
