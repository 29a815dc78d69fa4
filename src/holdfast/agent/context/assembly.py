"""Assembly of one model call: as much of the conversation as fits into the token budget.

    system │ [summary of earlier messages] [the turn's own message] [the newest units that fit] [reminders]

    window: │ output │ margin │ system │ tools │ reminders │ conversation: all that is left │

The margin exists because token counts are estimates. The cost is linear in the messages given, whatever the length of
their thread.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.agent.context.outline import Outline, build_outline, empty_conversation_note, omission_note
from holdfast.agent.context.system_prompt import PromptSegment
from holdfast.agent.context.tokens import MeasuredTools, MessageSizer, SizedMessage
from holdfast.agent.context.units import Unit, shorten_results
from holdfast.domain.context import NO_COMPACTION, SEGMENT_SEPARATOR, Compaction, compaction_exhausted
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message, NewMessage, Role

DEFAULT_OUTPUT_TOKENS: Final = 16_384
"""Kept free for an answer without a limit of its own; in a small window one part in eight."""
ESTIMATE_MARGIN_RATIO: Final = 0.1
COMPACT_ABOVE_RATIO: Final = 0.8
"""A conversation that fills more of its share is compacted before it overflows."""
COLLAPSE_ENOUGH_RATIO: Final = 0.6
"""A compaction without a model is enough if it leaves the conversation below this."""
KEEP_AFTER_SUMMARY_RATIO: Final = 0.4
"""How much of its share the messages after a summary may fill."""


class ContextBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, by what they are for."""

    usable: int
    """All that may be sent and answered, in our tokens."""
    output: int
    system: int
    tools: int
    reminders: int
    conversation: int


def allocate_budget(
    window: int, *, system: int, tools: int, reminders: int = 0, output: int | None = None
) -> ContextBudget:
    """Return how `window` tokens are shared out.

    `output` is what an answer may have, if there is a limit.
    """
    if window <= 0:
        raise Invalid("the context window of a model must be more than 0 tokens", field="window")
    usable = int(window * (1 - ESTIMATE_MARGIN_RATIO))
    answer = min(DEFAULT_OUTPUT_TOKENS, usable // 8) if output is None else min(output, usable // 2)
    rest = usable - answer - system - tools - reminders
    return ContextBudget(
        usable=usable, output=answer, system=system, tools=tools, reminders=reminders, conversation=max(rest, 0)
    )


class ContextInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a call of a model is made of."""

    messages: Sequence[Message]
    """The end of the run's chain, oldest first, with everything that has entered the conversation since."""
    whole: bool
    """Whether the chain begins with the first of them."""
    goal: Message | None
    """The user message that this turn answers; it is always sent, wherever it is."""
    segments: Sequence[PromptSegment]
    window: int
    """Tokens that a call of the model may have in all."""
    tools: MeasuredTools = MeasuredTools()
    compaction: Compaction = NO_COMPACTION
    reminders: Sequence[str] = ()
    output: int | None = None
    """Tokens that the answer may have, if there is a limit."""


class AssembledContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent."""

    system: str
    sent: tuple[SizedMessage, ...]
    """The conversation, notes and reminders included."""
    budget: ContextBudget
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
    def total_tokens(self) -> int:
        """How many tokens all of it has."""
        return sum(self.tokens.values())


def assemble(given: ContextInput, *, sizes: MessageSizer) -> AssembledContext:
    """Return what to send: as much of the conversation as fits, the newest first, and what must be there anyway."""
    there = build_outline(given.messages, whole=given.whole, goal=given.goal, compaction=given.compaction, sizes=sizes)
    budget = context_budget(given, sizes=sizes)
    chosen, dropped = _choose_units(there, budget.conversation, sizes)
    front = _leading_notes(there, chosen, dropped=dropped, sizes=sizes)
    said = [part for unit in chosen for part in unit.messages]
    return AssembledContext(
        system=SEGMENT_SEPARATOR.join([segment.text for segment in given.segments]),
        sent=(*front, *said, *_reminder_messages(given, sizes)),
        budget=budget,
        tokens={
            **{segment.name: segment.tokens for segment in given.segments},
            "tools": given.tools.tokens,
            "earlier": _total_tokens(front),
            "conversation": _total_tokens(said),
            "reminders": budget.reminders,
        },
        compaction=there.compaction,
        covered=there.covered,
        first_sequence=next((unit.first for unit in chosen if unit.first is not None), None),
        last_sequence=next((unit.last for unit in reversed(chosen) if unit.last is not None), None),
        needs_compaction=_needs_compaction(there, budget, dropped=dropped),
    )


def context_budget(given: ContextInput, *, sizes: MessageSizer) -> ContextBudget:
    """Return how the window of the model is shared out in a call."""
    return allocate_budget(
        given.window,
        system=sum([segment.tokens for segment in given.segments]),
        tools=given.tools.tokens,
        reminders=_total_tokens(_reminder_messages(given, sizes)),
        output=given.output,
    )


def _reminder_messages(given: ContextInput, sizes: MessageSizer) -> list[SizedMessage]:
    return [sizes.note(Role.SYSTEM, text) for text in given.reminders]


def _choose_units(there: Outline, room: int, sizes: MessageSizer) -> tuple[list[Unit], bool]:
    """Return the units to send, oldest first, and whether others had to be dropped."""
    goal, at = there.goal, there.goal_at
    if not there.units or (there.covered and there.tokens <= room):  # as most of the time, all of it fits
        return [*([] if goal is None else [goal]), *there.units], False
    room -= _required_tokens(there, room, sizes)
    newest = shorten_results(there.units[-1], max_tokens=room, sizes=sizes)
    start = _first_fitting_index(there, room - newest.tokens)
    chosen = [*there.units[start:-1], newest]
    if goal is not None:
        return [goal, *chosen], start > 0
    if at is not None and at < start:
        return [there.units[at], *chosen], start > 1
    return chosen, start > 0


def _required_tokens(there: Outline, room: int, sizes: MessageSizer) -> int:
    """Return the tokens of what is sent in any case, beside the newest unit."""
    required = [there.earlier, there.goal]
    if there.goal_at is not None and there.goal_at < len(there.units) - 1:
        required.append(there.units[there.goal_at])
    if there.tokens > room or not there.covered:
        required.append(omission_note(sizes=sizes))
    return sum([part.tokens for part in required if part is not None])


def _first_fitting_index(there: Outline, room: int) -> int:
    """Return the index of the oldest unit that still fits before the newest; the goal has its room already."""
    for index in range(len(there.units) - 2, -1, -1):
        if index != there.goal_at:
            room -= there.units[index].tokens
        if room < 0:
            return index + 1
    return 0


def _leading_notes(there: Outline, chosen: Sequence[Unit], *, dropped: bool, sizes: MessageSizer) -> list[SizedMessage]:
    front = [there.earlier] if there.earlier is not None else []
    if dropped or not there.covered:
        front.append(omission_note(sizes=sizes))
    if not front and not chosen:
        front.append(empty_conversation_note(sizes=sizes))
    return front


def _needs_compaction(there: Outline, budget: ContextBudget, *, dropped: bool) -> bool:
    if len(there.units) < 2 or compaction_exhausted(there.compaction, tokens=there.tokens):
        return False
    return dropped or not there.covered or there.tokens > budget.conversation * COMPACT_ABOVE_RATIO


def _total_tokens(messages: Sequence[SizedMessage]) -> int:
    return sum([message.tokens for message in messages])
