"""Use cases of sessions: list, read, cancel and delete, all in one space.

HoldfastError (domain)
├── Invalid
│   └── SessionNotActive     nothing to cancel
├── NotFound
│   └── SessionNotFound
└── Conflict
    └── SessionActive        cancel its run first, or delete it with `force`
"""

from contextlib import suppress

from holdfast.api.chat.bodies import (
    ListedSession,
    Session,
    SessionMessage,
    to_listed_session,
    to_session,
    to_session_message,
)
from holdfast.api.contract_errors import ContractInvalid
from holdfast.api.tasks.bodies import TaskContext, newest_context
from holdfast.api.tasks.errors import AgentNotFound, ModeNotSupported
from holdfast.control.runs import RunControl
from holdfast.control.threads import ConversationControl, ThreadControl, newest_run
from holdfast.domain.errors import Conflict, IllegalMove, Invalid, ModelRefused, NotFound, RunActive
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.run import ACTIVE_STATUSES, Run
from holdfast.domain.task_ids import task_id_of
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.ports.log import Contexts, Steps
from holdfast.ports.runs import RunFilter, Runs, Threads


class SessionNotActive(Invalid):
    """The session has no active run."""

    code = "SESSION_NOT_ACTIVE"


class SessionNotFound(NotFound):
    """There is no session of that id."""

    code = "SESSION_NOT_FOUND"


class SessionActive(Conflict):
    """A run of the session has not ended."""

    code = "SESSION_ACTIVE"


CHAT_ERRORS = (ContractInvalid, ModeNotSupported, AgentNotFound, SessionNotActive, SessionNotFound, SessionActive)
MODEL_ERRORS = (ContractInvalid, ModelRefused)
"""Errors of model calls without an agent that keep their own codes."""


class SessionControl:
    """The use cases of sessions."""

    def __init__(
        self,
        *,
        space: SpaceId,
        control: RunControl,
        threads: Threads,
        runs: Runs,
        steps: Steps,
        contexts: Contexts,
        thread_control: ThreadControl,
        conversations: ConversationControl,
    ) -> None:
        self._space = space
        self._control = control
        self._threads = threads
        self._runs = runs
        self._steps = steps
        self._contexts = contexts
        self._thread_control = thread_control
        self._conversations = conversations

    async def page(self, *, agent: str | None, children: bool, limit: int, cursor: str | None) -> Page[ListedSession]:
        """Return sessions, the one with the latest task first; those of sub-agents only with `children`."""
        where = ThreadFilter(agent_type=agent, children=children)
        page = await self._threads.page(self._space, where=where, limit=limit, cursor=cursor)
        return Page(items=[to_listed_session(each) for each in page.items], next_cursor=page.next_cursor)

    async def thread(self, name: str, *, space: SpaceId | None = None) -> Thread:
        """Return the thread of a session, which may be of another space."""
        try:
            thread = await self._threads.get(space or self._space, ThreadId(name))
        except NotFound as exc:
            raise _not_found(name) from exc
        if thread.status is ThreadStatus.DELETED:
            raise _not_found(name)
        return thread

    async def get(self, name: str) -> Session:
        """Return a session with its newest task."""
        thread = await self.thread(name)
        return to_session(thread, await newest_run(self._threads, self._runs, self._space, thread.id))

    async def messages(self, name: str, *, limit: int, cursor: str | None) -> Page[SessionMessage]:
        """Return the last messages, oldest first; the next page has the messages before them."""
        thread = await self.thread(name)
        page = await self._conversations.messages(self._space, thread.id, limit=limit, cursor=cursor)
        return Page(items=[to_session_message(each) for each in page.items], next_cursor=page.next_cursor)

    async def context(self, name: str) -> TaskContext | None:
        """Return the model context of the newest iteration; null before the first."""
        thread = await self.thread(name)
        newest = await newest_run(self._threads, self._runs, self._space, thread.id)
        return None if newest is None else await newest_context(self._contexts, self._steps, newest)

    async def cancel(self, name: str) -> list[str]:
        """Cancel the active runs of a session with their children, and return the cancelled tasks."""
        cancelled = await self._cancel_active_runs(await self.thread(name))
        if not cancelled:
            raise SessionNotActive(f"session `{name}` has no active run", id=name)
        return cancelled

    async def delete(self, name: str, *, force: bool) -> None:
        """Remove a session from every list; with an active run only with `force`, which cancels it first."""
        thread = await self.thread(name)
        if force:
            await self._cancel_active_runs(thread)
        try:
            await self._thread_control.delete(self._space, thread.id)
        except RunActive as exc:
            hint = "cancel it, or delete the session with `force=true`"
            raise SessionActive(f"session `{name}` has an active run: {hint}", id=name) from exc

    async def _cancel_active_runs(self, thread: Thread) -> list[str]:
        """Cancel the active runs of a thread, newest first so that no waiting run starts, and return their task ids."""
        active: list[Run] = []
        for status in sorted(ACTIVE_STATUSES):
            where = RunFilter(thread_id=thread.id, statuses=[status])
            active += (await self._runs.page(self._space, where=where, limit=MAX_PAGE_SIZE)).items
        cancelled = []
        for run in sorted(active, key=lambda run: run.created_at, reverse=True):
            with suppress(IllegalMove):  # it ended in the meantime
                await self._control.cancel(self._space, run.id)
                cancelled.append(task_id_of(run.id))
        return cancelled


def _not_found(name: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session `{name}`", id=name)
