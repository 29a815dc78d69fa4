"""The outline of a conversation: its summary, and the units since, with completed plan items collapsed.

    user ▓▓▓▓▓▓▓▓ user ▓▓▓▓ │ user          ▓  messages of the model and its tools while the item was in progress
    user          user      note │ user     messages of users are always kept

A unit is left out if every block of it lies between the start and the end of a completed item. The newest unit stays.
The notes in place of messages are never stored.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from holdfast.agent.context.tokens import MessageSizer, SizedMessage
from holdfast.agent.context.units import Unit, group_units, note_unit, single_unit, text_of
from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.context import CollapsedTask, Compaction, compaction_on_chain
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary
from holdfast.domain.untrusted import fence_text


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be sent, if there is room for all of it."""

    compaction: Compaction
    """What of it is about this chain."""
    earlier: SizedMessage | None
    units: list[Unit]
    goal_at: int | None
    """Which of them has the message that this turn answers, if one has."""
    goal: Unit | None
    """That message, if it is older than all of them."""
    covered: bool
    """Whether everything that is older than the units is told by the summary."""
    tokens: int


def build_outline(
    messages: Sequence[Message], *, whole: bool, goal: Message | None, compaction: Compaction, sizes: MessageSizer
) -> Outline:
    """Return the outline of the conversation that ends with `messages`."""
    usable = compaction_on_chain(compaction, messages)
    live = _messages_after(messages, usable.through)
    there = collapse_spans(group_units(live, sizes=sizes), usable.collapsed, sizes=sizes)
    at = None if goal is None else _goal_index(goal, there)
    older = single_unit(goal, sizes=sizes) if goal is not None and at is None else None
    earlier = summary_note(usable, sizes=sizes)
    return Outline(
        compaction=usable,
        earlier=earlier,
        units=there,
        goal_at=at,
        goal=older,
        covered=whole or len(live) < len(messages),
        tokens=sum([part.tokens for part in (*there, older, earlier) if part is not None]),
    )


def _messages_after(messages: Sequence[Message], through: int | None) -> Sequence[Message]:
    if through is None:
        return messages
    for index, message in enumerate(messages):
        if message.sequence is None or message.sequence > through:
            return messages[index:]
    return ()


def _goal_index(goal: Message, there: Sequence[Unit]) -> int | None:
    # It is near the end of most conversations.
    return next((index for index in range(len(there) - 1, -1, -1) if there[index].head.id == goal.id), None)


_Position: TypeAlias = tuple[int, int]


def collapse_spans(units: Sequence[Unit], spans: Sequence[CollapsedTask], *, sizes: MessageSizer) -> list[Unit]:
    """Return `units` with the work of `spans` left out, and a note where each ends."""
    if not spans or not units:
        return list(units)
    *older, newest = units
    return [*_uncollapsed_units(older, spans, sizes), newest]


def _uncollapsed_units(units: Sequence[Unit], spans: Sequence[CollapsedTask], sizes: MessageSizer) -> Iterator[Unit]:
    covered = _SpanIndex(spans)
    ending = deque(sorted(spans, key=lambda span: _position(span.end)))
    left_out = -1
    for unit in units:
        while ending and unit.first is not None and ending[0].end.message_sequence_num < unit.first:
            yield from _span_note(ending.popleft(), left_out, sizes)
        if covered.covers(unit):
            left_out = unit.first or 0
        else:
            yield unit
    for span in ending:
        yield from _span_note(span, left_out, sizes)


def _span_note(span: CollapsedTask, left_out: int, sizes: MessageSizer) -> Iterator[Unit]:
    """Yield a note about `span`, unless nothing of it was there to be left out."""
    if left_out >= span.start.message_sequence_num:
        yield note_unit(sizes.note(Role.SYSTEM, _span_note_text(span)), last=span.end.message_sequence_num)


@lru_cache(maxsize=256)
def _span_note_text(span: CollapsedTask) -> str:
    told = fence_text(f"{span.title}\n{span.conclusion}", tag="untrusted", seed=str(span.task_id), source="plan")
    return render_text("collapsed", task_id=span.task_id, conclusion=told)


class _SpanIndex:
    """The places of a conversation that lie within spans."""

    def __init__(self, spans: Sequence[CollapsedTask]) -> None:
        self._starts: list[_Position] = []
        self._ends: list[_Position] = []
        for start, end in sorted((_position(span.start), _position(span.end)) for span in spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def covers(self, unit: Unit) -> bool:
        """Whether all that the model says in a unit lies within."""
        head = unit.head
        if head.role is not Role.ASSISTANT or unit.first is None or not isinstance(head, Message):
            return False
        blocks = bool(text_of(head.content)) + len(head.tool_calls)
        return all(self._has((unit.first, block)) for block in range(blocks))

    def _has(self, place: _Position) -> bool:
        at = bisect_right(self._starts, place) - 1
        return at >= 0 and place <= self._ends[at]


def _position(boundary: Boundary) -> _Position:
    return boundary.message_sequence_num, boundary.content_sequence_num


def summary_note(compaction: Compaction, *, sizes: MessageSizer) -> SizedMessage | None:
    """Return what is told of the messages that a summary stands for."""
    # It is the first message and not a system one, because some providers want a user to speak first.
    return sizes.note(Role.USER, _summary_note_text(compaction.summary)) if compaction.summary else None


def omission_note(*, sizes: MessageSizer) -> SizedMessage:
    """Return the note that there was more."""
    return sizes.note(Role.USER, load_text("left_out"))


def empty_conversation_note(*, sizes: MessageSizer) -> SizedMessage:
    """Return what begins a conversation that nobody began."""
    return sizes.note(Role.USER, load_text("nothing_said"))


@lru_cache(maxsize=64)
def _summary_note_text(summary: str) -> str:
    return render_text("earlier", summary=fence_text(summary, tag="untrusted", source="summary"))
