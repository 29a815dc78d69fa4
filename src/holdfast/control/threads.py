"""Threads: create and change them, and read their messages, history and tree of runs.

The runs of a thread form a tree. A conversation is one chain of it, from the root to a run, by default the newest one.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.branch import BranchTotals, ForkPoint
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, count_fitting
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.thread import (
    DEFAULT_AGENT,
    NewThread,
    Thread,
    ThreadFilter,
    ThreadPatch,
    ThreadStatus,
    ThreadTotals,
)
from holdfast.ports.log import Messages
from holdfast.ports.requests import KeyedRequests
from holdfast.ports.runs import RunFilter, Runs, Threads
from holdfast.ports.workspace import Agents

MAX_NEWEST_RUNS: Final = 50
MAX_MESSAGES_PER_READ: Final = 1000
MAX_HISTORY_RUNS: Final = 200
_MAX_CURSOR_DIGITS: Final = 15
_ID_CURSOR_PREFIX: Final = "."
"""Marks a cursor that is a message id: no id and no number begins with it."""


class RunStub(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a run that a list of branches needs."""

    id: RunId
    base_run_id: RunId | None
    status: RunStatus
    created_at: Instant


class ThreadDetail(Thread, frozen=True, kw_only=True):
    """A thread with its newest runs, newest first."""

    runs: list[RunStub]


class LatestRun(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run of a thread, as lists show it."""

    id: RunId
    agent_type: str
    status: RunStatus
    status_reason: str | None
    usage: Usage
    created_at: Instant
    started_at: Instant | None
    completed_at: Instant | None


class ListedThread(Thread, frozen=True, kw_only=True):
    """A thread in a list."""

    latest_run: LatestRun | None
    usage: Usage
    """Of its runs and their sub-agents."""
    open_questions: int


class ThreadControl:
    """Commands and queries for threads."""

    def __init__(
        self,
        *,
        threads: Threads,
        runs: Runs,
        requests: KeyedRequests,
        agents: Agents,
        default_agent: Callable[[], str | None] = lambda: None,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the author of new threads."""
        self._threads = threads
        self._runs = runs
        self._requests = requests
        self._agents = agents
        self._default_agent = default_agent
        self._principal = principal

    @property
    def default_agent(self) -> str:
        """The agent of threads that name none."""
        return self._default_agent() or DEFAULT_AGENT

    async def create(
        self, space: SpaceId, new: NewThread, *, agent: str | None, request: KeyedRequest | None = None
    ) -> KeyedResult[Thread]:
        """Create a thread for `agent`, or for the workspace's default agent; an unknown agent raises `NotFound`."""
        if (earlier := await self._requests.find(space, request, kind=Thread)) is not None:
            return KeyedResult(value=earlier, replayed=True)  # also if its agent does not exist any more
        chosen = self.default_agent if agent is None else (await self._agents.of_space(space, agent)).name
        thread = replace(new, agent_type=chosen, created_by=self._principal)
        return await self._requests.once(
            space, request, kind=Thread, create=lambda ports: ports.threads.create(space, thread)
        )

    async def page(
        self, space: SpaceId, *, where: ThreadFilter, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[ListedThread]:
        """Return threads by the time of their latest run, newest first, each with that run."""
        page = await self._threads.page(space, where=where, limit=limit, cursor=cursor)
        found = await self._runs.newest_of_threads([(space, thread.id) for thread in page.items])
        latest = {run.thread_id: msgspec.convert(run, LatestRun, from_attributes=True) for run in found}
        totals = await self._threads.totals(space, list(latest))
        items = [
            ListedThread(
                **msgspec.structs.asdict(each),
                latest_run=latest.get(each.id),
                **msgspec.structs.asdict(totals.get(each.id, ThreadTotals())),
            )
            for each in page.items
        ]
        return Page(items=items, next_cursor=page.next_cursor)

    async def get(self, space: SpaceId, thread: ThreadId) -> ThreadDetail:
        """Return a thread with its newest runs."""
        found = await self._threads.get(space, thread)
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=MAX_NEWEST_RUNS)
        stubs = msgspec.convert(runs.items, list[RunStub], from_attributes=True)
        return ThreadDetail(**msgspec.structs.asdict(found), runs=stubs)

    async def update(self, space: SpaceId, thread: ThreadId, patch: ThreadPatch) -> Thread:
        """Change the fields that `patch` sets; an unknown agent raises `NotFound`."""
        if patch.agent_type is not UNSET:
            await self._agents.of_space(space, patch.agent_type)
        return await self._threads.update(space, thread, patch)

    async def archive(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Refuse new runs on a thread until it is unarchived; active runs continue."""
        return await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.ARCHIVED))

    async def unarchive(self, space: SpaceId, thread: ThreadId) -> Thread:
        """Accept new runs on an archived thread again."""
        return await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.ACTIVE))

    async def delete(self, space: SpaceId, thread: ThreadId) -> None:
        """Delete a thread, which removes it from all lists; a thread with an active run raises `RunActive`."""
        await self._threads.update(space, thread, ThreadPatch(status=ThreadStatus.DELETED))


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a conversation with the runs it comes from, and the state of the thread.

    The last three fields are searched among the newest 200 runs of the thread.
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
    """A complete conversation."""

    thread: Thread
    run: Run | None
    """The last run of the conversation's chain."""
    messages: list[Message]


class BranchView(BranchTotals, frozen=True, kw_only=True):
    """One of two branches: what it says and did after the last common message."""

    run: Run
    messages: list[Message]
    more: bool
    """Whether more messages follow: read them with `after_sequence`."""


class CommonMessage(ForkPoint, frozen=True, kw_only=True):
    """The last message that two branches have in common."""

    message: Message | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two branches of a thread from their last common message on; null if they share none."""

    common: CommonMessage | None
    a: BranchView
    b: BranchView


class ConversationControl:
    """Queries for the conversations of a thread. The run defaults to the newest one."""

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
        """Return the last messages of a run's conversation, oldest first; the next page holds earlier messages."""
        found = await conversation_run(self._threads, self._runs, space, thread, run)
        return Page(items=[]) if found is None else await self._page(space, found.id, limit=limit, cursor=cursor)

    async def messages_after(
        self, space: SpaceId, thread: ThreadId, sequence: int, *, run: RunId | None = None, limit: int
    ) -> Page[Message]:
        """Return the messages after a sequence, oldest first; the cursor is the sequence to go on after."""
        found = await self._conversation(space, thread, run)
        messages = await self._messages.after(space, found.id, sequence=sequence, limit=limit + 1)
        page = messages[: min(limit, count_fitting(messages, _message_chars))]
        last = page[-1].sequence if page else None
        more = len(messages) > len(page) and last is not None
        return Page(items=page, next_cursor=str(last) if more else None)

    async def messages_around(
        self, space: SpaceId, thread: ThreadId, sequence: int, *, run: RunId | None = None, limit: int
    ) -> Page[Message]:
        """Return a message with those before and after it, oldest first; the next page holds earlier messages."""
        found = await self._conversation(space, thread, run)
        earlier = Page[Message](items=[])
        if limit > 1:
            earlier = await self._page(space, found.id, limit=limit // 2, cursor=str(sequence))
        else:  # no room for others, but the sequence is checked
            await self._messages.history(space, found.id, limit=1, before=sequence)
        return Page(
            items=[*earlier.items, *await self._from(space, found.id, sequence, limit=limit - limit // 2)],
            next_cursor=earlier.next_cursor,
        )

    async def _from(self, space: SpaceId, run: RunId, sequence: int, *, limit: int) -> list[Message]:
        """Return the message at a sequence and those after it."""
        before = await self._messages.history(space, run, limit=1, before=sequence)
        last = before[-1].sequence if before else None
        messages = await self._messages.after(space, run, sequence=last, limit=limit)
        return messages[: count_fitting(messages, _message_chars)]

    async def message(
        self, space: SpaceId, thread: ThreadId, message: MessageId, *, run: RunId | None = None
    ) -> Message:
        """Return a message of a thread: of the branch of `run`, or else its newest version with that id."""
        if run is not None:
            return await self._messages.get(space, (await self._conversation(space, thread, run)).id, message)
        found = await self._messages.find_in_thread(space, thread, message)
        if not found:
            raise NotFound(f"there is no message `{message}` on thread `{thread}`", id=message)
        return found[0]

    async def compare(self, space: SpaceId, thread: ThreadId, a: RunId, b: RunId, *, limit: int) -> Comparison:
        """Return two branches from their last common message on, with what each did and cost."""
        runs = [await run_of_thread(self._runs, space, thread, run) for run in (a, b)]
        if a == b:
            raise Invalid("`a` and `b` are the same run: name two branches", field="b")
        point, common = await self._runs.branch_point(space, a, b), None
        if point is not None:
            message = next(iter(await self._from(space, a, point.sequence, limit=1)), None)
            common = CommonMessage(run_id=point.run_id, sequence=point.sequence, message=message)
        sequence = None if point is None else point.sequence
        views = []
        for run, other in zip(runs, (b, a), strict=True):
            messages = await self._messages.after(space, run.id, sequence=sequence, limit=limit + 1)
            totals = await self._runs.branch_totals(space, run.id, other=other)
            shown = messages[: min(limit, count_fitting(messages, _message_chars))]
            fields = msgspec.structs.asdict(totals)
            views.append(BranchView(**fields, run=run, messages=shown, more=len(messages) > len(shown)))
        return Comparison(common=common, a=views[0], b=views[1])

    async def _conversation(self, space: SpaceId, thread: ThreadId, run: RunId | None) -> Run:
        found = await conversation_run(self._threads, self._runs, space, thread, run)
        if found is None:
            raise Invalid(f"thread `{thread}` has no message yet", field="thread_id")
        return found

    async def history(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> History:
        """Return the newest conversation with its runs."""
        await self._threads.get(space, thread)
        newest = (await self._runs.page(space, where=RunFilter(thread_id=thread), limit=MAX_HISTORY_RUNS)).items
        page: Page[Message] = Page(items=[])
        if newest:
            page = await self._page(space, newest[0].id, limit=limit, cursor=cursor)
        by_id = {run.id: run for run in newest}
        run_ids = dict.fromkeys(message.run_id for message in page.items)
        live = [run for run in newest if not run.status.terminal]
        return History(
            messages=page.items,
            next_cursor=page.next_cursor,
            runs=[by_id.get(run_id) or await self._runs.get(space, run_id) for run_id in run_ids],
            # A pending run only waits for another one to end, so any other active run goes first.
            active_run=next((run for run in live if run.status is not RunStatus.PENDING), next(iter(live), None)),
            latest_failed_run=next((run for run in newest if run.status is RunStatus.FAILED), None),
            latest_completed_run=next((run for run in newest if run.status is RunStatus.COMPLETED), None),
        )

    async def tree(
        self, space: SpaceId, thread: ThreadId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[RunNode]:
        """Return the runs of a thread with the base of each, newest first."""
        await self._threads.get(space, thread)
        runs = await self._runs.page(space, where=RunFilter(thread_id=thread), limit=limit, cursor=cursor)
        nodes = msgspec.convert(runs.items, list[RunNode], from_attributes=True)
        return Page(items=nodes, next_cursor=runs.next_cursor)

    async def export(self, space: SpaceId, thread: ThreadId, *, run: RunId | None = None) -> ThreadExport:
        """Return all messages up to the end of a run."""
        found = await self._threads.get(space, thread)
        last = await conversation_run(self._threads, self._runs, space, thread, run)
        messages: list[Message] = []
        if last is not None:
            messages = page = await self._messages.history(space, last.id, limit=MAX_MESSAGES_PER_READ)
            while len(page) == MAX_MESSAGES_PER_READ:
                before = page[0].cursor
                page = await self._messages.history(space, last.id, limit=MAX_MESSAGES_PER_READ, before=before)
                messages = [*page, *messages]
        return ThreadExport(thread=found, run=last, messages=messages)

    async def _page(self, space: SpaceId, run: RunId, *, limit: int, cursor: str | None) -> Page[Message]:
        before: int | MessageId | None = None
        if cursor is not None and cursor.startswith(_ID_CURSOR_PREFIX):
            before = MessageId(check_client_id(cursor.removeprefix(_ID_CURSOR_PREFIX), field="cursor"))
        elif cursor is not None:
            before = parse_number_cursor(cursor)
        found = await self._messages.history(space, run, limit=limit + 1, before=before)
        page = found[-min(limit, count_fitting(reversed(found), _message_chars)) :]
        if len(found) == len(page):
            return Page(items=page)
        # A message that waits for its run to begin has no sequence yet, but its id stays.
        first = page[0]
        next_cursor = f"{_ID_CURSOR_PREFIX}{first.id}" if first.sequence is None else str(first.sequence)
        return Page(items=page, next_cursor=next_cursor)


def _message_chars(message: Message) -> int:
    content = message.content if isinstance(message.content, str) else msgspec.json.encode(message.content)
    return len(content) + len(msgspec.json.encode(message.metadata))


async def conversation_run(
    threads: Threads, runs: Runs, space: SpaceId, thread: ThreadId, run: RunId | None
) -> Run | None:
    """Return `run`, which must belong to the thread, or else the newest run of the thread."""
    if run is not None:
        return await run_of_thread(runs, space, thread, run)
    return await newest_run(threads, runs, space, thread)


async def newest_run(threads: Threads, runs: Runs, space: SpaceId, thread: ThreadId) -> Run | None:
    """Return the newest run of a thread, if it has one."""
    await threads.get(space, thread)
    found = await runs.page(space, where=RunFilter(thread_id=thread), limit=1)
    return found.items[0] if found.items else None


async def run_of_thread(runs: Runs, space: SpaceId, thread: ThreadId, run: RunId) -> Run:
    """Return a run, or raise `NotFound` if it does not belong to the thread."""
    found = await runs.get(space, run)
    if found.thread_id != thread:
        raise NotFound(f"there is no run `{run}` on thread `{thread}`", id=run)
    return found


def parse_number_cursor(cursor: str) -> int:
    """Return the number of a cursor, or raise `Invalid`."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _MAX_CURSOR_DIGITS):
        raise Invalid("the cursor is not valid: leave it out to begin at the start", field="cursor")
    return int(cursor)
