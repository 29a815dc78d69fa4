"""What was said on a thread: along one chain of its tree, or the tree itself."""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.control.cursors import number_of
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.thread import Thread
from holdfast.ports.log import Messages
from holdfast.ports.runs import RunFilter, Runs, Threads

MOST_AT_ONCE = 1000
NEWEST = 200
_NAMED: Final = "."
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


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
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
        newest = (await self._runs.page(space, where=RunFilter(thread_id=thread), limit=NEWEST)).items
        page: Page[Message] = Page(items=[])
        if newest:
            page = await self._page(space, newest[0].id, limit=limit, cursor=cursor)
        return History(
            messages=page.items,
            next_cursor=page.next_cursor,
            runs=await self._runs_of(space, page.items, newest),
            active_run=_active(newest),
            latest_failed_run=_first(newest, lambda run: run.status is RunStatus.FAILED),
            latest_completed_run=_first(newest, lambda run: run.status is RunStatus.COMPLETED),
        )

    async def tree(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[RunNode]:
        """Return the runs of a thread with what each continues from, the newest first."""
        await self._threads.get(space, thread)
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=limit, cursor=cursor)
        return Page(items=[_node(run) for run in runs.items], next_cursor=runs.next_cursor)

    async def whole(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> Conversation:
        """Return all that was said up to the end of a run."""
        found = await self._threads.get(space, thread)
        at = await self._at(space, thread, run)
        messages = [] if at is None else await self._all(space, at.id)
        return Conversation(thread=found, run=at, messages=messages)

    async def _at(self, space: SpaceId, thread: ThreadId, run: RunId | None) -> Run | None:
        if run is not None:
            return await run_of_thread(self._runs, space, thread, run)
        return await newest_run(self._threads, self._runs, space, thread)

    async def _page(self, space: SpaceId, run: RunId, *, limit: int, cursor: str | None) -> Page[Message]:
        before = None if cursor is None else _before(cursor)
        found = await self._messages.history(space, run, limit=limit + 1, before=before)
        shown = found[-limit:]
        return Page(items=shown, next_cursor=_cursor(shown[0]) if len(found) > limit else None)

    async def _all(self, space: SpaceId, run: RunId) -> list[Message]:
        found = page = await self._messages.history(space, run, limit=MOST_AT_ONCE)
        while len(page) == MOST_AT_ONCE:
            page = await self._messages.history(space, run, limit=MOST_AT_ONCE, before=page[0].place)
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


def _cursor(message: Message) -> str:
    """Return where the page before a message begins. One that waits is named by its id, which it keeps."""
    return f"{_NAMED}{message.id}" if message.sequence is None else str(message.sequence)


def _before(cursor: str) -> int | MessageId:
    if not cursor.startswith(_NAMED):
        return number_of(cursor)
    return MessageId(check_client_id(cursor.removeprefix(_NAMED), field="cursor"))


def _active(runs: list[Run]) -> Run | None:
    """Return the newest run that has not ended; one that waits for another to end is only next."""
    live = [run for run in runs if not run.status.terminal]
    return _first(live, lambda run: run.status is not RunStatus.PENDING) or next(iter(live), None)


def _first(runs: list[Run], fits: Callable[[Run], bool]) -> Run | None:
    return next((run for run in runs if fits(run)), None)


def _node(run: Run) -> RunNode:
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
