"""The feed of a run: its log as it grows."""

from collections.abc import Sequence

from holdfast.control.feeds.feed import PAGE, Ending, Feed
from holdfast.ports.bus import RunWatcher
from holdfast.ports.log import EventLog, LoggedEvent, LogHead


class RunFeed(Feed):
    """The events of a run."""

    def __init__(self, start: int, *, head: LogHead, events: EventLog, watching: RunWatcher) -> None:
        """Make a feed of a run that is known to be as far as `head` says, with what need not be read of it."""
        super().__init__(start)
        self._space = head.space_id
        self._run = head.run_id
        self._known = head.last_event_seq
        self._events = events
        self._watching = watching
        if fresh := self._fresh():
            self.add(fresh)

    async def page(self, after: int, *, limit: int = PAGE) -> Sequence[LoggedEvent]:
        """Return events after a number."""
        return await self._events.after(self._space, self._run, seq=after, limit=limit)

    async def _follow(self) -> None:
        with self._watching.watch(self._space, self._run) as watch:
            await self._read(self._known)  # at once: the first event need not wait for a look at the run
            while self.ending is None:
                head = await watch.beyond(self.last)
                if head is None:
                    self.end(Ending.GONE)
                    return
                await self._read(head.last_event_seq)
                if head.status.terminal and self.last >= head.last_event_seq:
                    self.end(Ending.ENDED)

    async def _read(self, through: int) -> None:
        while self.last < through and (events := self._fresh() or await self.page(self.last)):
            self.add(events)

    def _fresh(self) -> Sequence[LoggedEvent]:
        return self._watching.fresh(self._space, self._run, self.last)
