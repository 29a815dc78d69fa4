"""Runs that tests of streams work on by hand, as an engine would."""

import asyncio
from typing import Any, Final

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.events import Event, TextMessageContent, TextMessageEnd, TextMessageStart
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.api.site import LIMIT, Site
from tests.builders import assistant, claim
from tests.scenario.agents.agent_workspace import SPACE

TEXT: Final = MessageId("text")


class Hand:
    """Works on a run as an engine would, one commit at a time, as the test likes."""

    def __init__(self, store: Store, run: Run, lease: Lease) -> None:
        self.run = run
        self.said = 0
        self._store = store
        self._lease = lease

    @property
    def id(self) -> RunId:
        """The run's."""
        return self.run.id

    async def say(self, *texts: str) -> None:
        """Add the next pieces of what a model says."""
        start: list[Event] = [] if self.said else [TextMessageStart(message_id=TEXT, role="assistant")]
        self.said += len(texts) + len(start)
        pieces: list[Event] = [TextMessageContent(message_id=TEXT, delta=text) for text in texts]
        await self._store.journal.commit(Commit(lease=self._lease, events=[*start, *pieces]))

    async def finish(self) -> None:
        """Complete the run."""
        closed: list[Event] = [TextMessageEnd(message_id=TEXT)] if self.said else []
        move = Move(to=RunStatus.COMPLETED, output="done")
        await self._store.journal.commit(
            Commit(lease=self._lease, events=closed, messages=[assistant("done")], move=move)
        )


async def begun(stage: Site) -> Hand:
    """Make a run and take it in hand; the stage must have no workers."""
    return await begun_in(stage.store)


async def begun_in(store: Store) -> Hand:
    """Make a run and take it in hand; nobody may work on what the store has."""
    run = (await store.runs.create(SPACE, NewRun(thread=NewThread()))).run
    return Hand(store, run, await claim(store))


async def soon(coming: asyncio.Future[Any] | Any) -> Any:
    """Wait for something that must not take long."""
    async with asyncio.timeout(LIMIT):
        return await coming
