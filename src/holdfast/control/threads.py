"""Threads in the hands of people and clients."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch, ThreadStatus
from holdfast.ports.runs import RunFilter, Runs, Threads
from holdfast.ports.workspace import Agents

NEWEST_RUNS = 50


class RunStub(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a run as a list of branches needs."""

    id: RunId
    base_run_id: RunId | None
    status: RunStatus
    created_at: Instant


class ThreadDetail(Thread, frozen=True, kw_only=True):
    """A thread with its newest runs, the newest first."""

    runs: list[RunStub]


class ThreadControl:
    """What can be done with threads."""

    def __init__(
        self,
        *,
        threads: Threads,
        runs: Runs,
        agents: Agents,
        default_agent: Callable[[], str | None] = lambda: None,
        by: str | None = None,
    ) -> None:
        self._threads = threads
        self._runs = runs
        self._agents = agents
        self._default_agent = default_agent
        self._by = by

    async def create(self, space: SpaceId, new: NewThread, *, agent: str | None) -> Thread:
        """Make a thread for an agent, or for the workspace's default one; an unknown agent raises `NotFound`."""
        chosen = self._default_agent() or new.agent_type if agent is None else self._agents.get(agent).name
        return await self._threads.create(space, replace(new, agent_type=chosen, created_by=self._by))

    async def page(
        self, space: SpaceId, *, where: ThreadFilter, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Thread]:
        """Return threads, the one with the latest run first."""
        return await self._threads.page(space, where=where, limit=limit, cursor=cursor)

    async def get(self, space: SpaceId, thread: ThreadId) -> ThreadDetail:
        """Return a thread with its newest runs."""
        found = await self._threads.get(space, thread)
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=NEWEST_RUNS)
        return ThreadDetail(**msgspec.structs.asdict(found), runs=[_stub(run) for run in runs.items])

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change what `patch` names; an unknown agent raises `NotFound`."""
        if patch.agent_type is not UNSET:
            self._agents.get(patch.agent_type)
        return await self._threads.update(space, thread, patch)

    async def archive(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Let a thread take no new run until it is unarchived; live ones go on."""
        return await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.ARCHIVED))

    async def unarchive(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Let an archived thread take runs again."""
        return await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.ACTIVE))

    async def delete(self, space: SpaceId, thread: ThreadId) -> None:
        """Take a thread out of every list for good; one with a live run is refused (`RunActive`)."""
        await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.DELETED))


def _stub(run: Run) -> RunStub:
    return RunStub(id=run.id, base_run_id=run.base_run_id, status=run.status, created_at=run.created_at)
