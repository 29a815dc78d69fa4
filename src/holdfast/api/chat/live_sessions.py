"""Live tasks and sessions over the client socket, each followed after a cursor without loss or duplicates.

    task_a:12,task_c:4      `task_a` up to 12, `task_c` up to 4, and `task_b` between them to its end

A session is a thread, whose runs number their own events and may run concurrently. A session's cursor names the runs
that were not sent to their end, and last the newest. Any older run that it does not name was sent, or was not wanted.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from holdfast.api.chat.sessions import SessionControl
from holdfast.api.tasks.errors import TaskNotFound
from holdfast.control.errors import BadCursor
from holdfast.control.remote_methods import MethodClient, MethodFrame, RemoteMethod, RemoteMethods
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.run import Run
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.ports.runs import RunFilter, Runs

START_CURSOR: Final = "0"
"""The cursor before everything."""

_CURSOR_ENTRY: Final = re.compile(r"([A-Za-z0-9_-]{1,128}):([0-9]{1,15})")
_MAX_CURSOR_ENTRIES: Final = 100


class SessionCursor:
    """How far a session was told."""

    def __init__(self, positions: dict[RunId, int], newest: RunId | None, *, newest_seq: int = 0) -> None:
        """Go on from `positions`, with the `newest` task told up to `last`."""
        self.positions = positions
        """Of the tasks that were not told to their end."""
        self.newest = newest
        self._last = newest_seq

    def start_run(self, run: RunId) -> None:
        """Go on to the next run of the session."""
        self.positions[run] = 0
        self.newest, self._last = run, 0

    def advance(self, run: RunId, seq: int) -> None:
        """Have told a run so far."""
        self.positions[run] = seq
        if run == self.newest:
            self._last = seq

    def finish_run(self, run: RunId) -> None:
        """Have told all of a run."""
        self.positions.pop(run, None)

    def encode(self) -> str:
        """Return it as a cursor."""
        if self.newest is None:
            return START_CURSOR
        named = {**{run: seq for run, seq in self.positions.items() if run != self.newest}, self.newest: self._last}
        return ",".join(f"{task_id_of(run)}:{seq}" for run, seq in named.items())


def parse_session_cursor(cursor: str) -> SessionCursor:
    """Return the trail that a cursor stands for; raise `BadCursor` if it is none."""
    if cursor == START_CURSOR:
        return SessionCursor({}, None)
    pairs = [_CURSOR_ENTRY.fullmatch(part) for part in cursor.split(",", _MAX_CURSOR_ENTRIES)]
    found = {run_id_of(pair[1]): int(pair[2]) for pair in pairs if pair is not None}
    if len(found) != len(pairs):
        raise BadCursor("the cursor of a session must be one that an event came with", after=cursor[:64])
    newest = next(reversed(found))
    return SessionCursor(found, newest, newest_seq=found[newest])


MAX_TASKS_BEHIND: Final = 1000
"""Tasks that a reader may be behind."""
FIRST_PAGE_TASKS: Final = 10
"""Tasks that are looked at first: mostly one is new."""


class LiveSession:
    """Finds the tasks of a session that are to be told, and remembers how far they were."""

    def __init__(self, thread: ThreadId, *, space: SpaceId, runs: Runs) -> None:
        self.id = thread
        self.cursor = SessionCursor({}, None)
        self._space = space
        self._runs = runs
        self._heard_of: set[RunId] = set()
        self._where = RunFilter(thread_id=thread)

    async def start(self, after: str | None) -> list[Run]:
        """Return the tasks to tell, the oldest first: those after a cursor, or else those that have not ended."""
        if after is None:
            return await self._under_way()
        self.cursor = parse_session_cursor(after)
        begun = [await self._named(run) for run in list(self.cursor.positions)]
        return [*(run for run in begun if run is not None), *await self.new_runs()]

    async def new_runs(self) -> list[Run]:
        """Return the tasks that came after all that are known, the oldest first."""
        found = await self._since_newest()
        for run in found:
            self.cursor.start_run(run.id)
        return found

    def is_new(self, run: RunId) -> bool:
        """Say whether nothing was heard of a run before."""
        if run in self._heard_of:
            return False
        self._heard_of.add(run)
        return run not in self.cursor.positions and run != self.cursor.newest

    async def _under_way(self) -> list[Run]:
        newest = (await self._runs.page(self._space, where=self._where, limit=MAX_PAGE_SIZE)).items
        live = [run for run in reversed(newest) if not run.status.terminal]
        if newest:
            last = newest[0].last_event_seq if newest[0].status.terminal else 0
            self.cursor = SessionCursor({run.id: 0 for run in live}, newest[0].id, newest_seq=last)
        return live

    async def _since_newest(self) -> list[Run]:
        found: list[Run] = []
        cursor: str | None = None
        while len(found) <= MAX_TASKS_BEHIND:
            limit = MAX_PAGE_SIZE if found else FIRST_PAGE_TASKS
            page = await self._runs.page(self._space, where=self._where, limit=limit, cursor=cursor)
            for run in page.items:
                if run.id == self.cursor.newest:
                    return found[::-1]
                found.append(run)
            cursor = page.next_cursor
            if cursor is None:
                return found[::-1]
        raise BadCursor(
            f"more than {MAX_TASKS_BEHIND} tasks came since: read the messages, and subscribe without `after`"
        )

    async def _named(self, name: RunId) -> Run | None:
        """Return a run that a cursor names; one that was deleted since has no more to tell."""
        try:
            run = await self._runs.get(self._space, name)
        except NotFound:
            run = None
        if run is not None and run.thread_id == self.id:
            return run
        if run is not None or name == self.cursor.newest:
            raise BadCursor(f"this session has no task `{task_id_of(name)}`: subscribe without `after`")
        self.cursor.finish_run(name)
        return None


class LiveControl:
    """What can be done over a socket."""

    def __init__(
        self, *, space: SpaceId, feeds: LiveStreams, runs: Runs, sessions: SessionControl, methods: RemoteMethods
    ) -> None:
        self._space = space
        self._feeds = feeds
        self._runs = runs
        self._sessions = sessions
        self._methods = methods

    async def follow_space(self) -> Subscriber:
        """Follow the space: it hints at new runs, shows signs of life, and tells when the server stops."""
        return await self._feeds.subscribe_space(self._space)

    async def follow_task(self, name: str, *, after: int) -> Subscriber:
        """Follow the log of a task after a number."""
        try:
            return await self._feeds.subscribe_run(self._space, run_id_of(name), after=after)
        except NotFound as exc:
            raise TaskNotFound(f"there is no task `{name}`", id=name) from exc

    async def follow_run(self, run: RunId, *, after: int) -> Subscriber:
        """Follow the log of a run of a session after a number."""
        return await self._feeds.subscribe_run(self._space, run, after=after)

    async def live_session(self, name: str) -> LiveSession:
        """Return a session to be followed."""
        thread = await self._sessions.thread(name)
        return LiveSession(thread.id, space=self._space, runs=self._runs)

    def connected(self, send: Callable[[MethodFrame], None]) -> AbstractContextManager[MethodClient]:
        """Have a client while the block runs; `tell` has something sent to it."""
        return self._methods.connected(self._space, send=send)

    def offer(self, client: MethodClient, methods: Sequence[RemoteMethod], *, id: str | None) -> None:
        """Let a client offer methods, in place of all that it offered before."""
        self._methods.offer(client, methods, id=id)
