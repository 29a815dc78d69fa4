"""Live tasks and sessions over the client socket, each followed after a cursor without loss or duplicates.

    task_a:12,task_c:4      `task_a` up to 12, `task_c` up to 4, and `task_b` between them to its end

A session is a thread, whose runs number their own events and may run concurrently. A session's cursor names the runs
that were not sent to their end, and last the newest. Older runs that it does not name were sent, or not requested.
"""

import re
from copy import copy
from itertools import takewhile
from typing import Final

from holdfast.api.chat.sessions import SessionControl
from holdfast.api.tasks.errors import TaskNotFound
from holdfast.control.errors import BadCursor
from holdfast.control.remote_methods import RemoteMethods
from holdfast.control.streams.broadcast import Subscriber
from holdfast.control.streams.live_streams import LiveStreams
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.run import Run
from holdfast.domain.task_ids import run_id_of, task_id_of
from holdfast.ports.runs import RunFilter, Runs

START_CURSOR: Final = "0"
"""The cursor before the first event."""

_CURSOR_ENTRY: Final = re.compile(r"([A-Za-z0-9_-]{1,128}):([0-9]{1,15})")
_MAX_CURSOR_ENTRIES: Final = 100


class SessionCursor:
    """The position of a client in a session."""

    def __init__(self, positions: dict[RunId, int], newest: RunId | None, *, newest_seq: int = 0) -> None:
        """Continue after `positions`, with the `newest` run sent up to `newest_seq`."""
        self.positions = positions
        """The last event sent of each run that was not sent to its end."""
        self.newest = newest
        self._newest_seq = newest_seq

    def start_run(self, run: RunId) -> None:
        """Add the next run of the session."""
        self.positions[run] = 0
        self.newest, self._newest_seq = run, 0

    def advance(self, run: RunId, seq: int) -> None:
        """Record that a run was sent up to `seq`."""
        self.positions[run] = seq
        if run == self.newest:
            self._newest_seq = seq

    def finish_run(self, run: RunId) -> None:
        """Record that a run was sent to its end."""
        self.positions.pop(run, None)

    def encode(self) -> str:
        """Return the cursor as text."""
        if self.newest is None:
            return START_CURSOR
        older = {run: seq for run, seq in self.positions.items() if run != self.newest}
        entries = {**older, self.newest: self._newest_seq}
        return ",".join(f"{task_id_of(run)}:{seq}" for run, seq in entries.items())


def parse_session_cursor(cursor: str) -> SessionCursor:
    """Return the position that a cursor encodes, or raise `BadCursor`."""
    if cursor == START_CURSOR:
        return SessionCursor({}, None)
    matches = [_CURSOR_ENTRY.fullmatch(part) for part in cursor.split(",", _MAX_CURSOR_ENTRIES)]
    positions = {run_id_of(match[1]): int(match[2]) for match in matches if match is not None}
    if len(positions) != len(matches):
        raise BadCursor("the cursor of a session must be the `cursor` of one of its events", after=cursor[:64])
    newest = next(reversed(positions))
    return SessionCursor(positions, newest, newest_seq=positions[newest])


MAX_TASKS_BEHIND: Final = 1000
"""Tasks that may have started since the cursor of a client."""
FIRST_PAGE_TASKS: Final = 10
"""Page size of the first read of new tasks: usually there is one."""


class LiveSession:
    """Finds the tasks of a session to send, and tracks the position of the client in them."""

    def __init__(self, thread: ThreadId, *, space: SpaceId, runs: Runs) -> None:
        self.id = thread
        self.cursor = SessionCursor({}, None)
        self._space = space
        self._runs = runs
        self._notified: set[RunId] = set()
        self._where = RunFilter(thread_id=thread)

    async def start(self, after: str | None) -> list[Run]:
        """Return the runs to send, oldest first: those after a cursor, or without one those that are active."""
        if after is not None:
            self.cursor = parse_session_cursor(after)
            unfinished = [await self._run_of_cursor(run) for run in list(self.cursor.positions)]
            return [*(run for run in unfinished if run is not None), *await self.new_runs()]
        runs = (await self._runs.page(self._space, where=self._where, limit=MAX_PAGE_SIZE)).items
        active = [run for run in reversed(runs) if not run.status.terminal]
        if runs:
            newest_seq = runs[0].last_event_seq if runs[0].status.terminal else 0
            self.cursor = SessionCursor({run.id: 0 for run in active}, runs[0].id, newest_seq=newest_seq)
        return active

    async def new_runs(self) -> list[Run]:
        """Return the runs after the newest run of the cursor, oldest first, and add them to the cursor."""
        found: list[Run] = []
        cursor: str | None = None
        while len(found) <= MAX_TASKS_BEHIND:
            limit = MAX_PAGE_SIZE if found else FIRST_PAGE_TASKS
            page = await self._runs.page(self._space, where=self._where, limit=limit, cursor=cursor)
            new = list(takewhile(lambda run: run.id != self.cursor.newest, page.items))
            found += new
            cursor = page.next_cursor
            if len(new) < len(page.items) or cursor is None:
                found.reverse()
                for run in found:
                    self.cursor.start_run(run.id)
                return found
        raise BadCursor(
            f"more than {MAX_TASKS_BEHIND} tasks started since: read the messages, and subscribe without `after`"
        )

    def is_new(self, run: RunId) -> bool:
        """Return whether this is the first notification of a run that the cursor does not know."""
        if run in self._notified:
            return False
        self._notified.add(run)
        return run not in self.cursor.positions and run != self.cursor.newest

    async def _run_of_cursor(self, name: RunId) -> Run | None:
        """Return a run that the cursor names; a deleted run is dropped from the cursor."""
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
    """The use cases of a client socket."""

    def __init__(
        self,
        *,
        space: SpaceId,
        streams: LiveStreams,
        runs: Runs,
        sessions: SessionControl,
        methods: RemoteMethods,
        may_run: bool,
    ) -> None:
        """Accept methods from a client that `may_run`."""
        self.may_run = may_run
        self.space = space
        self.streams = streams
        self.methods = methods
        self._runs = runs
        self._sessions = sessions

    def in_space(self, space: SpaceId) -> "LiveControl":
        """Return the use cases of a socket for a space, which the principal may access."""
        other = copy(self)
        other.space = space
        return other

    async def follow_task(self, name: str, *, after: int) -> Subscriber:
        """Subscribe to the log of a task after an event number."""
        try:
            return await self.streams.subscribe_run(self.space, run_id_of(name), after=after)
        except NotFound as exc:
            raise TaskNotFound(f"there is no task `{name}`", id=name) from exc

    async def live_session(self, name: str) -> LiveSession:
        """Return a session to follow."""
        thread = await self._sessions.thread(name, space=self.space)
        return LiveSession(thread.id, space=self.space, runs=self._runs)
