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
from holdfast.api.tasks.bodies import TaskContext, newest_context
from holdfast.api.tasks.errors import AgentNotFound, ModeNotSupported, TaskInvalid
from holdfast.control.runs import RunControl
from holdfast.control.threads import ConversationControl, ThreadControl, newest_run
from holdfast.domain.errors import Conflict, IllegalMove, Invalid, ModelRefused, NotFound, RunActive
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.run import LIVE_STATUSES, Run
from holdfast.domain.task_ids import task_id_of
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.ports.log import Contexts, Steps
from holdfast.ports.runs import RunFilter, Runs, Threads


class SessionNotActive(Invalid):
    """No run of the session is under way."""

    code = "SESSION_NOT_ACTIVE"


class SessionNotFound(NotFound):
    """There is no session of that id."""

    code = "SESSION_NOT_FOUND"


class SessionActive(Conflict):
    """A run of the session has not ended."""

    code = "SESSION_ACTIVE"


CHAT_ERRORS = (TaskInvalid, ModeNotSupported, AgentNotFound, SessionNotActive, SessionNotFound, SessionActive)
MODEL_ERRORS = (TaskInvalid, ModelRefused)
"""What a call of a model without an agent has codes of its own for."""


class SessionControl:
    """What can be done with sessions."""

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
        self._keeping = thread_control
        self._conversations = conversations

    async def page(self, *, agent: str | None, limit: int, cursor: str | None) -> Page[ListedSession]:
        """Return sessions, the one with the latest task first."""
        where = ThreadFilter(agent_type=agent)
        page = await self._threads.page(self._space, where=where, limit=limit, cursor=cursor)
        return Page(items=[to_listed_session(each) for each in page.items], next_cursor=page.next_cursor)

    async def thread(self, name: str) -> Thread:
        """Return the thread that a session is."""
        try:
            thread = await self._threads.get(self._space, ThreadId(name))
        except NotFound as exc:
            raise _not_found(name) from exc
        if thread.status is ThreadStatus.DELETED:
            raise _not_found(name)
        return thread

    async def get(self, name: str) -> Session:
        """Return a session."""
        thread = await self.thread(name)
        return to_session(thread, await self._newest(thread))

    async def messages(self, name: str, *, limit: int, cursor: str | None) -> Page[SessionMessage]:
        """Return the end of what was said, oldest first; the next page is what was said before."""
        thread = await self.thread(name)
        page = await self._conversations.messages(self._space, thread.id, limit=limit, cursor=cursor)
        return Page(items=[to_session_message(each) for each in page.items], next_cursor=page.next_cursor)

    async def context(self, name: str) -> TaskContext | None:
        """Return what the model was told in the newest iteration; nothing before the first."""
        newest = await self._newest(await self.thread(name))
        return None if newest is None else await newest_context(self._contexts, self._steps, newest)

    async def cancel(self, name: str) -> list[str]:
        """End what is under way in a session, with all below it, and return the tasks that ended."""
        thread = await self.thread(name)
        ended = [run for run in await self._live(thread) if await self._end(run)]
        if not ended:
            raise SessionNotActive(f"nothing is under way in session `{name}`", id=name)
        return [task_id_of(run.id) for run in ended]

    async def delete(self, name: str, *, force: bool) -> None:
        """Take a session out of every list; one with a run under way only with `force`, which ends it first."""
        thread = await self.thread(name)
        for run in await self._live(thread) if force else ():
            await self._end(run)
        try:
            await self._keeping.delete(self._space, thread.id)
        except RunActive as exc:
            hint = "cancel it, or delete it with `force=true`"
            raise SessionActive(f"something is under way in session `{name}`: {hint}", id=name) from exc

    async def _newest(self, thread: Thread) -> Run | None:
        return await newest_run(self._threads, self._runs, self._space, thread.id)

    async def _live(self, thread: Thread) -> list[Run]:
        """Return the runs that have not ended, those that others wait for last, so that none begins meanwhile."""
        found: list[Run] = []
        for status in sorted(LIVE_STATUSES):
            where = RunFilter(thread_id=thread.id, status=status)
            found += (await self._runs.page(self._space, where=where, limit=MAX_PAGE_SIZE)).items
        return sorted(found, key=lambda run: run.created_at, reverse=True)

    async def _end(self, run: Run) -> bool:
        """End a run, and say whether it had not ended by itself."""
        with suppress(IllegalMove):
            await self._control.cancel(self._space, run.id)
            return True
        return False


def _not_found(name: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session `{name}`", id=name)
