"""The stream of a task: what happened, where it stands, what happens, and how it ended.

event: task      …  one for each event so far
event: status       once
event: task      …  one for each event that comes
event: task         `task.status`, the last word
"""

import msgspec
from msgspec.structs import replace

from holdfast.api.streams.body import Body
from holdfast.api.streams.frames import KEEPALIVE
from holdfast.api.streams.sse import EventStream
from holdfast.control.feeds.chunk import Chunk
from holdfast.control.feeds.feed import Ending
from holdfast.control.feeds.follower import Follower
from holdfast.control.task_contract.errors import TaskNotFound
from holdfast.control.task_contract.events import TaskEvent, last_word
from holdfast.control.task_contract.log import TaskLog
from holdfast.control.task_contract.task import TaskStatus, state_of
from holdfast.control.task_contract.tasks import TaskControl
from holdfast.domain.run import Run


class TaskStream(EventStream):
    """An ASGI app that sends what happens to a task."""

    def __init__(self, tasks: TaskControl, run: Run, follower: Follower, *, after: int) -> None:
        """Send events with an id above `after`; `follower` begins with the log."""
        super().__init__(follower)
        self._tasks = tasks
        self._run = run
        self._after = after
        self._log = TaskLog()

    async def _write_all(self, body: Body) -> Ending:
        try:
            while self._follower.position < self._follower.joined_at:
                if (ending := await self._write_next(body)) is not None:
                    return ending
            body.write(_status(await self._tasks.run(self._run.id), self._log.status))
            while (ending := await self._write_next(body)) is None:
                pass
            if ending is Ending.ENDED:
                body.write(_last_word(await self._tasks.run(self._run.id)))
        except TaskNotFound:
            return Ending.GONE
        return ending

    async def _write_next(self, body: Body) -> Ending | None:
        """Write what comes next, or return why nothing does any more."""
        found = await body.next()
        match found:
            case Chunk():
                if frames := b"".join(self._frames(found)):
                    body.write(frames)
            case None:
                body.write(KEEPALIVE)
            case Ending():
                return found
        return None

    def _frames(self, chunk: Chunk) -> list[bytes]:
        events = (event for logged in chunk.items for event in self._log.feed(logged))
        return [_task(event) for event in events if event.id > self._after]


def _task(event: TaskEvent) -> bytes:
    return b"id: %d\nevent: task\ndata: %b\n\n" % (event.id, msgspec.json.encode(event))


def _status(run: Run, told: TaskStatus) -> bytes:
    """Say where the events so far have led to: what happened since follows, and must not be told before."""
    state = state_of(run)
    if state.status is not told:
        state = replace(state, status=told, output=None, error=None)
    return b"event: status\ndata: %b\n\n" % msgspec.json.encode(state)


def _last_word(run: Run) -> bytes:
    word = last_word(state_of(run), at=run.completed_at or run.created_at)
    return b"event: task\ndata: %b\n\n" % msgspec.json.encode(word)
