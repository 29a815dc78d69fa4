"""Tails: how far the logs of runs are, and their newest events, as far as this process was told and need not read.

A tail may lag behind its log and may begin anywhere, but what it has is on disk, in order and without a gap.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.log import LogAppend, LoggedEvent, LogHead

MOST: Final = 128
"""Runs of which the tail is kept although nobody watches: somebody may be about to."""
KEPT: Final = 32 * 1024
"""Bytes of events that are kept of a run."""

Name: TypeAlias = tuple[SpaceId, RunId]


class Tail:
    """The end of one run's log."""

    __slots__ = ("_growths", "_size", "head")

    def __init__(self) -> None:
        self.head: LogHead | None = None
        """How far the log is; `None` if that must be read."""
        self._growths: deque[LogAppend] = deque()
        self._size = 0

    def see(self, head: LogHead | None) -> None:
        """Take note of what was read; `None` if the run is gone."""
        if head is None:
            self._forget()
        if head is None or self._is_news(head):
            self.head = head

    def grow(self, growth: LogAppend) -> None:
        """Take note of what was told; hints of two writers may arrive in either order."""
        if not self._is_news(growth.head):
            return
        self.head = growth.head
        if not growth.events:
            return
        if self._growths and growth.first != self._growths[-1].head.last_event_seq + 1:
            self._forget()
        self._growths.append(growth)
        self._size += growth.size
        while self._size > KEPT:
            self._size -= self._growths.popleft().size

    def after(self, seq: int) -> list[LoggedEvent]:
        """Return the events that follow a number, as far as they are here; none if they must be read."""
        if not self._growths or seq + 1 < self._growths[0].first:
            return []
        return [event for growth in self._growths if growth.head.last_event_seq > seq for event in growth.after(seq)]

    def _forget(self) -> None:
        self._growths.clear()
        self._size = 0

    def _is_news(self, head: LogHead) -> bool:
        known = self.head
        if known is None or head.last_event_seq > known.last_event_seq:
            return True
        return head.last_event_seq == known.last_event_seq and not known.status.terminal


class Recent:
    """The tails of runs that grew lately, and that nobody watches."""

    def __init__(self) -> None:
        self._tails: OrderedDict[Name, Tail] = OrderedDict()

    def grow(self, growth: LogAppend) -> None:
        """Add to the tail of a run, which is kept for a while."""
        name = growth.head.name
        tail = self._tails[name] = self.take(name)
        tail.grow(growth)
        if len(self._tails) > MOST:
            self._tails.popitem(last=False)

    def find(self, name: Name) -> Tail | None:
        """Return the tail of a run, if it was kept."""
        return self._tails.get(name)

    def take(self, name: Name) -> Tail:
        """Return the tail of a run, which is empty unless it was kept, and keep it no longer."""
        return self._tails.pop(name, None) or Tail()

    def forget(self, names: Iterable[Name]) -> None:
        """Forget runs to which something happened that was not told."""
        for name in names:
            self._tails.pop(name, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._tails.clear()
