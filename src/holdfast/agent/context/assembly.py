"""Assembly: from a conversation to what one call of a model is told.

    system │ [what was earlier] [the turn's own message] [the newest units that fit] [reminders]

It costs time in proportion to the messages given, whatever the length of their thread.
"""

from collections.abc import Sequence

import msgspec

from holdfast.agent.context import notes
from holdfast.agent.context.budget import COMPACT_AT, Budget, share_out
from holdfast.agent.context.outline import Outline, outline
from holdfast.agent.context.shorten import shortened
from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.agent.context.tools import OfferedTools
from holdfast.agent.context.units import Unit
from holdfast.agent.prompt.segment import Segment
from holdfast.domain.context import NO_COMPACTION, SEGMENT_SEPARATOR, Compaction, compaction_exhausted
from holdfast.domain.message import Message, NewMessage, Role


class ContextInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a call of a model is made of."""

    messages: Sequence[Message]
    """The end of the run's chain, oldest first, with everything that has entered the conversation since."""
    whole: bool
    """Whether the chain begins with the first of them."""
    goal: Message | None
    """The user message that this turn answers; it is always sent, wherever it is."""
    segments: Sequence[Segment]
    window: int
    """Tokens that a call of the model may have in all."""
    tools: OfferedTools = OfferedTools()
    compaction: Compaction = NO_COMPACTION
    reminders: Sequence[str] = ()
    output: int | None = None
    """Tokens that the answer may have, if there is a limit."""


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent."""

    system: str
    sent: tuple[Sized, ...]
    """The conversation, notes and reminders included."""
    budget: Budget
    tokens: dict[str, int]
    """By segment; `earlier`, `conversation`, `reminders` and `tools` are some too."""
    compaction: Compaction
    """What of the compaction given is about this chain."""
    covered: bool
    """Whether the summary tells of everything before the window. If not, read further back before compacting."""
    first_sequence: int | None
    last_sequence: int | None
    needs_compaction: bool

    @property
    def messages(self) -> list[Message | NewMessage]:
        """The conversation as a model is told it."""
        return [each.message for each in self.sent]

    @property
    def total(self) -> int:
        """How many tokens all of it has."""
        return sum(self.tokens.values())


def assemble(given: ContextInput, *, sizes: Sizes) -> Assembled:
    """Return what to send: as much of the conversation as fits, the newest first, and what must be there anyway."""
    there = outline(given.messages, whole=given.whole, goal=given.goal, compaction=given.compaction, sizes=sizes)
    budget = budget_of(given, sizes=sizes)
    chosen, dropped = _chosen(there, budget.conversation, sizes)
    front = _front(there, chosen, dropped=dropped, sizes=sizes)
    said = [part for unit in chosen for part in unit.messages]
    return Assembled(
        system=SEGMENT_SEPARATOR.join([segment.text for segment in given.segments]),
        sent=(*front, *said, *_reminders(given, sizes)),
        budget=budget,
        tokens={
            **{segment.name: segment.tokens for segment in given.segments},
            "tools": given.tools.tokens,
            "earlier": _length(front),
            "conversation": _length(said),
            "reminders": budget.reminders,
        },
        compaction=there.compaction,
        covered=there.covered,
        first_sequence=next((unit.first for unit in chosen if unit.first is not None), None),
        last_sequence=next((unit.last for unit in reversed(chosen) if unit.last is not None), None),
        needs_compaction=_needs_compaction(there, budget, dropped=dropped),
    )


def budget_of(given: ContextInput, *, sizes: Sizes) -> Budget:
    """Return how the window of the model is shared out in a call."""
    return share_out(
        given.window,
        system=sum([segment.tokens for segment in given.segments]),
        tools=given.tools.tokens,
        reminders=_length(_reminders(given, sizes)),
        output=given.output,
    )


def _reminders(given: ContextInput, sizes: Sizes) -> list[Sized]:
    return [sizes.note(Role.SYSTEM, text) for text in given.reminders]


def _chosen(there: Outline, room: int, sizes: Sizes) -> tuple[list[Unit], bool]:
    """Return the units to send, oldest first, and whether others had to be dropped."""
    goal, at = there.goal, there.goal_at
    if not there.units or (there.covered and there.tokens <= room):  # as most of the time, all of it fits
        return [*([] if goal is None else [goal]), *there.units], False
    room -= _required(there, room, sizes)
    newest = shortened(there.units[-1], most=room, sizes=sizes)
    start = _start(there, room - newest.tokens)
    chosen = [*there.units[start:-1], newest]
    if goal is not None:
        return [goal, *chosen], start > 0
    if at is not None and at < start:
        return [there.units[at], *chosen], start > 1
    return chosen, start > 0


def _required(there: Outline, room: int, sizes: Sizes) -> int:
    """Return the tokens of what is sent in any case, beside the newest unit."""
    required = [there.earlier, there.goal]
    if there.goal_at is not None and there.goal_at < len(there.units) - 1:
        required.append(there.units[there.goal_at])
    if there.tokens > room or not there.covered:
        required.append(notes.left_out(sizes=sizes))
    return sum([part.tokens for part in required if part is not None])


def _start(there: Outline, room: int) -> int:
    """Return the index of the oldest unit that still fits before the newest; the goal has its room already."""
    for index in range(len(there.units) - 2, -1, -1):
        if index != there.goal_at:
            room -= there.units[index].tokens
        if room < 0:
            return index + 1
    return 0


def _front(there: Outline, chosen: Sequence[Unit], *, dropped: bool, sizes: Sizes) -> list[Sized]:
    front = [there.earlier] if there.earlier is not None else []
    if dropped or not there.covered:
        front.append(notes.left_out(sizes=sizes))
    if not front and not chosen:
        front.append(notes.nothing_said(sizes=sizes))
    return front


def _needs_compaction(there: Outline, budget: Budget, *, dropped: bool) -> bool:
    if len(there.units) < 2 or compaction_exhausted(there.compaction, tokens=there.tokens):
        return False
    return dropped or not there.covered or there.tokens > budget.conversation * COMPACT_AT


def _length(messages: Sequence[Sized]) -> int:
    return sum([message.tokens for message in messages])
