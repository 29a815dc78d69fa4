"""What happened to tasks, read from the logs of their runs."""

from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from holdfast.control.task_contract.events import TaskEvent
from holdfast.control.task_contract.log import TYPES, TaskLog
from holdfast.domain.ids import RunId
from holdfast.domain.run import Run
from holdfast.ports.log import EventLog

PAGE: Final = 1000
COUNTED: Final = 512
"""Tasks of which it is remembered how many events they have."""

_TYPES: Final = sorted(TYPES)


class _Count:
    """How many events a task has, as far as its log was read."""

    def __init__(self) -> None:
        self.log = TaskLog()
        self.events = 0


class TaskHistory:
    """Reads what happened to tasks."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._counts: OrderedDict[RunId, _Count] = OrderedDict()

    async def events(self, run: Run) -> list[TaskEvent]:
        """Return all events of a task so far."""
        return [event async for event in self._read(run, TaskLog())]

    async def count(self, run: Run) -> int:
        """Return how many those are; what was counted before is not read again."""
        count = self._counts.setdefault(run.id, _Count())
        self._counts.move_to_end(run.id)
        if len(self._counts) > COUNTED:
            self._counts.popitem(last=False)
        async for _ in self._read(run, count.log):
            count.events += 1
        return count.events

    async def _read(self, run: Run, log: TaskLog) -> AsyncIterator[TaskEvent]:
        """Yield the events that come after what `log` has read."""
        while log.seq < run.last_event_seq:
            page = await self._events.after(run.space_id, run.id, seq=log.seq, limit=PAGE, types=_TYPES)
            for logged in page:
                if logged.seq <= run.last_event_seq:
                    for event in log.feed(logged):
                        yield event
            if len(page) < PAGE:
                return
