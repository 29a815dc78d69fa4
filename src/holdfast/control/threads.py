"""Threads: create and change them, and read their messages, history and tree of runs.

The runs of a thread form a tree. A conversation is one chain of it, from the root to a run; without a run, the
newest one is meant.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.thread import NewThread, Thread, ThreadFilter, ThreadPatch, ThreadStatus
from holdfast.ports.log import Messages
from holdfast.ports.runs import RunFilter, Runs, Threads
from holdfast.ports.workspace import Agents

MAX_NEWEST_RUNS = 50


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
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=MAX_NEWEST_RUNS)
        return ThreadDetail(**msgspec.structs.asdict(found), runs=[_run_stub(run) for run in runs.items])

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


def _run_stub(run: Run) -> RunStub:
    return RunStub(id=run.id, base_run_id=run.base_run_id, status=run.status, created_at=run.created_at)


MAX_MESSAGES_PER_READ = 1000
MAX_HISTORY_RUNS = 200
_ID_CURSOR_PREFIX: Final = "."
"""No id and no number begins with it."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a conversation with the runs it comes from, and where the thread stands.

    The last three are looked for among the thread's newest 200 runs.
    """

    messages: list[Message]
    next_cursor: str | None
    runs: list[Run]
    active_run: Run | None
    latest_failed_run: Run | None
    latest_completed_run: Run | None


class RunNode(msgspec.Struct, frozen=True, kw_only=True):
    """A run in the tree of its thread: it continues from `base_run_id`, after the message at `base_sequence`."""

    id: RunId
    base_run_id: RunId | None
    base_sequence: int | None
    status: RunStatus
    mode: Mode
    agent_type: str
    created_at: Instant
    completed_at: Instant | None


class ThreadExport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole conversation, for keeping."""

    thread: Thread
    run: Run | None
    """Where it was read: the end of its chain."""
    messages: list[Message]


class ConversationControl:
    """What can be read of a thread. Without a run, its newest one is meant."""

    def __init__(self, *, threads: Threads, runs: Runs, messages: Messages) -> None:
        self._threads = threads
        self._runs = runs
        self._messages = messages

    async def messages(
        self,
        space: SpaceId,
        thread: ThreadId,
        *,
        run: RunId | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Message]:
        """Return the end of a run's conversation, oldest first; the next page is what was said before."""
        at = await self._at(space, thread, run)
        return Page(items=[]) if at is None else await self._page(space, at.id, limit=limit, cursor=cursor)

    async def history(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> History:
        """Return the newest conversation with its runs."""
        await self._threads.get(space, thread)
        newest = (await self._runs.page(space, where=RunFilter(thread_id=thread), limit=MAX_HISTORY_RUNS)).items
        page: Page[Message] = Page(items=[])
        if newest:
            page = await self._page(space, newest[0].id, limit=limit, cursor=cursor)
        return History(
            messages=page.items,
            next_cursor=page.next_cursor,
            runs=await self._runs_of(space, page.items, newest),
            active_run=_active_run(newest),
            latest_failed_run=_first_matching(newest, lambda run: run.status is RunStatus.FAILED),
            latest_completed_run=_first_matching(newest, lambda run: run.status is RunStatus.COMPLETED),
        )

    async def tree(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[RunNode]:
        """Return the runs of a thread with what each continues from, the newest first."""
        await self._threads.get(space, thread)
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=limit, cursor=cursor)
        return Page(items=[_run_node(run) for run in runs.items], next_cursor=runs.next_cursor)

    async def export(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> ThreadExport:
        """Return all that was said up to the end of a run."""
        found = await self._threads.get(space, thread)
        at = await self._at(space, thread, run)
        messages = [] if at is None else await self._all(space, at.id)
        return ThreadExport(thread=found, run=at, messages=messages)

    async def _at(self, space: SpaceId, thread: ThreadId, run: RunId | None) -> Run | None:
        if run is not None:
            return await run_of_thread(self._runs, space, thread, run)
        return await newest_run(self._threads, self._runs, space, thread)

    async def _page(self, space: SpaceId, run: RunId, *, limit: int, cursor: str | None) -> Page[Message]:
        before = None if cursor is None else _parse_message_cursor(cursor)
        found = await self._messages.history(space, run, limit=limit + 1, before=before)
        shown = found[-limit:]
        return Page(items=shown, next_cursor=_message_cursor(shown[0]) if len(found) > limit else None)

    async def _all(self, space: SpaceId, run: RunId) -> list[Message]:
        found = page = await self._messages.history(space, run, limit=MAX_MESSAGES_PER_READ)
        while len(page) == MAX_MESSAGES_PER_READ:
            page = await self._messages.history(space, run, limit=MAX_MESSAGES_PER_READ, before=page[0].cursor)
            found = [*page, *found]
        return found

    async def _runs_of(self, space: SpaceId, messages: list[Message], known: list[Run]) -> list[Run]:
        runs = {run.id: run for run in known}
        wanted = dict.fromkeys(message.run_id for message in messages)
        return [runs[name] if name in runs else await self._runs.get(space, name) for name in wanted]


async def newest_run(threads: Threads, runs: Runs, space: SpaceId, thread: ThreadId) -> Run | None:
    """Return the newest run of a thread, if it has one."""
    await threads.get(space, thread)
    found = await runs.page(space, where=RunFilter(thread_id=thread), limit=1)
    return found.items[0] if found.items else None


async def run_of_thread(runs: Runs, space: SpaceId, thread: ThreadId, run: RunId) -> Run:
    """Return a run, which must be of that thread (`NotFound`)."""
    found = await runs.get(space, run)
    if found.thread_id != thread:
        raise NotFound(f"there is no run `{run}` on thread `{thread}`", id=run)
    return found


def _message_cursor(message: Message) -> str:
    """Return where the page before a message begins. One that waits is named by its id, which it keeps."""
    return f"{_ID_CURSOR_PREFIX}{message.id}" if message.sequence is None else str(message.sequence)


def _parse_message_cursor(cursor: str) -> int | MessageId:
    if not cursor.startswith(_ID_CURSOR_PREFIX):
        return parse_number_cursor(cursor)
    return MessageId(check_client_id(cursor.removeprefix(_ID_CURSOR_PREFIX), field="cursor"))


def _active_run(runs: list[Run]) -> Run | None:
    """Return the newest run that has not ended; one that waits for another to end is only next."""
    live = [run for run in runs if not run.status.terminal]
    return _first_matching(live, lambda run: run.status is not RunStatus.PENDING) or next(iter(live), None)


def _first_matching(runs: list[Run], fits: Callable[[Run], bool]) -> Run | None:
    return next((run for run in runs if fits(run)), None)


def _run_node(run: Run) -> RunNode:
    return RunNode(
        id=run.id,
        base_run_id=run.base_run_id,
        base_sequence=run.base_sequence,
        status=run.status,
        mode=run.mode,
        agent_type=run.agent_type,
        created_at=run.created_at,
        completed_at=run.completed_at,
    )


_MAX_CURSOR_DIGITS = 15


def parse_number_cursor(cursor: str) -> int:
    """Return the number that a cursor of ours is."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS):
        raise Invalid("the cursor is not one of ours: leave it out to begin at the start", field="cursor")
    return int(cursor)
