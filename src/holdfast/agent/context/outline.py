"""The outline of a conversation: its summary, and the units since, with completed plan items collapsed.

    user ▓▓▓▓▓▓▓▓ user ▓▓▓▓ │ user          ▓  messages of the model and its tools while the item was in progress
    user          user      note │ user     messages of users are always kept

A unit is collapsed if every block of it lies between the start and the end of a completed item. The newest unit stays.
The notes in place of messages are never stored.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from holdfast.agent.context.tokens import MessageSizer, SizedMessage
from holdfast.agent.context.units import Unit, group_units, single_unit
from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.content import plain_text
from holdfast.domain.context import CollapsedTask, Compaction, compaction_on_chain
from holdfast.domain.message import Message, Role
from holdfast.domain.plan import Boundary
from holdfast.domain.untrusted import fence_text


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation to send, if all of it fits."""

    compaction: Compaction
    """The part of the compaction that applies to this chain."""
    earlier: SizedMessage | None
    """The summary of earlier messages."""
    units: list[Unit]
    goal_at: int | None
    """The index of the unit with the goal of this turn, if one has it."""
    goal: Unit | None
    """The goal, if it is older than all units."""
    covered: bool
    """Whether the summary covers everything before the units."""
    tokens: int


def build_outline(
    messages: Sequence[Message], *, whole: bool, goal: Message | None, compaction: Compaction, sizes: MessageSizer
) -> Outline:
    """Return the outline of the conversation that ends with `messages`."""
    applicable = compaction_on_chain(compaction, messages)
    recent = _messages_after(messages, applicable.through)
    units = collapse_spans(group_units(recent, sizes=sizes), applicable.collapsed, sizes=sizes)
    goal_at = None
    if goal is not None:  # searched backwards: it is usually near the end
        goal_at = next((index for index in range(len(units) - 1, -1, -1) if units[index].head.id == goal.id), None)
    old_goal = single_unit(goal, sizes=sizes) if goal is not None and goal_at is None else None
    earlier = summary_note(applicable, sizes=sizes)
    return Outline(
        compaction=applicable,
        earlier=earlier,
        units=units,
        goal_at=goal_at,
        goal=old_goal,
        covered=whole or len(recent) < len(messages),
        tokens=sum([part.tokens for part in (*units, old_goal, earlier) if part is not None]),
    )


def _messages_after(messages: Sequence[Message], through: int | None) -> Sequence[Message]:
    if through is None:
        return messages
    for index, message in enumerate(messages):
        if message.sequence is None or message.sequence > through:
            return messages[index:]
    return ()


_Position: TypeAlias = tuple[int, int]


def collapse_spans(units: Sequence[Unit], spans: Sequence[CollapsedTask], *, sizes: MessageSizer) -> list[Unit]:
    """Return `units` without those that `spans` cover, and with a note at the end of each span; the newest is kept."""
    if not spans or not units:
        return list(units)
    index = _SpanIndex(spans)
    ending = deque(sorted(spans, key=lambda span: _position(span.end)))
    kept: list[Unit] = []
    last_collapsed = -1

    def add_note(span: CollapsedTask) -> None:
        if last_collapsed >= span.start.message_sequence_num:  # else no unit of the span was collapsed
            note = sizes.note(Role.SYSTEM, _span_note_text(span))
            kept.append(Unit(messages=(note,), tokens=note.tokens, last=span.end.message_sequence_num))

    for unit in units[:-1]:
        while ending and unit.first is not None and ending[0].end.message_sequence_num < unit.first:
            add_note(ending.popleft())
        if index.covers(unit):
            last_collapsed = unit.first or 0
        else:
            kept.append(unit)
    for span in ending:
        add_note(span)
    return [*kept, units[-1]]


@lru_cache(maxsize=256)
def _span_note_text(span: CollapsedTask) -> str:
    conclusion = fence_text(f"{span.title}\n{span.conclusion}", tag="untrusted", seed=str(span.task_id), source="plan")
    return render_text("collapsed", task_id=span.task_id, conclusion=conclusion)


class _SpanIndex:
    """Merged spans of a conversation, for fast lookup."""

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
        """Return whether every block of an assistant message lies within a span."""
        head = unit.head
        if head.role is not Role.ASSISTANT or unit.first is None or not isinstance(head, Message):
            return False
        blocks = bool(plain_text(head.content)) + len(head.tool_calls)
        return all(self._has((unit.first, block)) for block in range(blocks))

    def _has(self, position: _Position) -> bool:
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position <= self._ends[index]


def _position(boundary: Boundary) -> _Position:
    return boundary.message_sequence_num, boundary.content_sequence_num


def summary_note(compaction: Compaction, *, sizes: MessageSizer) -> SizedMessage | None:
    """Return the summary as a message, if there is one."""
    # A user message, not a system one: some providers require that the first message is from the user.
    if not compaction.summary:
        return None
    return sizes.note(Role.USER, _summary_note_text(compaction.summary, gap=compaction.gap))


def omission_note(*, sizes: MessageSizer) -> SizedMessage:
    """Return the note that older messages are omitted."""
    return sizes.note(Role.USER, load_text("left_out"))


def empty_conversation_note(*, sizes: MessageSizer) -> SizedMessage:
    """Return the message that starts a conversation without messages."""
    return sizes.note(Role.USER, load_text("nothing_said"))


@lru_cache(maxsize=64)
def _summary_note_text(summary: str, *, gap: bool) -> str:
    note = render_text("earlier", summary=fence_text(summary, tag="untrusted", source="summary"))
    return f"{load_text('left_out')}\n{note}" if gap else note
