"""Completed items of the plan, told by their conclusions.

    user ▓▓▓▓▓▓▓▓ user ▓▓▓▓ │ user          ▓  what the model and its tools said while the item was in progress
    user          user      note │ user     what users said is always kept

A unit goes if every block of it lies between the start and the end of a completed item: a message that completes one
item and starts the next goes once both are completed. The newest unit never goes.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from holdfast.agent.context.sizes import Sizes
from holdfast.agent.context.units import Unit, note, words
from holdfast.agent.prompt.texts import filled
from holdfast.domain.context import CollapsedTask
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary
from holdfast.domain.untrusted import fence_text

_Place: TypeAlias = tuple[int, int]


def collapse(units: Sequence[Unit], spans: Sequence[CollapsedTask], *, sizes: Sizes) -> list[Unit]:
    """Return `units` with the work of `spans` left out, and a note where each ends."""
    if not spans or not units:
        return list(units)
    *older, newest = units
    return [*_told(older, spans, sizes), newest]


def _told(units: Sequence[Unit], spans: Sequence[CollapsedTask], sizes: Sizes) -> Iterator[Unit]:
    covered = _Covered(spans)
    ending = deque(sorted(spans, key=lambda span: _place(span.end)))
    left_out = -1
    for unit in units:
        while ending and unit.first is not None and ending[0].end.message_sequence_num < unit.first:
            yield from _notes(ending.popleft(), left_out, sizes)
        if covered.whole(unit):
            left_out = unit.first or 0
        else:
            yield unit
    for span in ending:
        yield from _notes(span, left_out, sizes)


def _notes(span: CollapsedTask, left_out: int, sizes: Sizes) -> Iterator[Unit]:
    """Yield a note about `span`, unless nothing of it was there to be left out."""
    if left_out >= span.start.message_sequence_num:
        yield note(sizes.note(Role.SYSTEM, _text(span)), last=span.end.message_sequence_num)


@lru_cache(maxsize=256)
def _text(span: CollapsedTask) -> str:
    told = fence_text(f"{span.title}\n{span.conclusion}", tag="untrusted", seed=str(span.task_id), source="plan")
    return filled("collapsed", task_id=span.task_id, conclusion=told)


class _Covered:
    """The places of a conversation that lie within spans."""

    def __init__(self, spans: Sequence[CollapsedTask]) -> None:
        self._starts: list[_Place] = []
        self._ends: list[_Place] = []
        for start, end in sorted((_place(span.start), _place(span.end)) for span in spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def whole(self, unit: Unit) -> bool:
        """Whether all that the model says in a unit lies within."""
        head = unit.head
        if head.role is not Role.ASSISTANT or unit.first is None or not isinstance(head, Message):
            return False
        blocks = bool(words(head.content)) + len(head.tool_calls)
        return all(self._has((unit.first, block)) for block in range(blocks))

    def _has(self, place: _Place) -> bool:
        at = bisect_right(self._starts, place) - 1
        return at >= 0 and place <= self._ends[at]


def _place(boundary: Boundary) -> _Place:
    return boundary.message_sequence_num, boundary.content_sequence_num
