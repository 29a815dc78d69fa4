"""Which agents threads have, so that not every run begins with a look at its thread."""

from typing import Final

from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.ports.runs import Threads

MOST: Final = 4096


class ThreadAgents:
    """What was seen of threads lately. It may have changed since: whoever relies on it has it checked."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._seen: dict[tuple[SpaceId, ThreadId], str] = {}

    def recall(self, space: SpaceId, thread: ThreadId) -> str | None:
        """Return the agent that a thread had, if that is known."""
        return self._seen.get((space, thread))

    async def read(self, space: SpaceId, thread: ThreadId) -> str:
        """Return the agent that a thread has, and remember it."""
        self._seen.pop((space, thread), None)
        agent = (await self._threads.get(space, thread)).agent_type
        self._seen[space, thread] = agent
        if len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]
        return agent
