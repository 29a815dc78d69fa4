"""Assembly of one model call: as much of the conversation as fits into the token budget.

    system │ [summary of earlier messages] [the turn's own message] [the newest units that fit] [reminders]

    window: │ output │ margin │ system │ tools │ reminders │ conversation: the rest │

The margin exists because token counts are estimates. The cost is linear in the messages that were read, not in those of
the thread.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.agent.context.outline import Outline, build_outline, empty_conversation_note, omission_note
from holdfast.agent.context.system_prompt import PromptSegment
from holdfast.agent.context.tokens import MeasuredTools, MessageSizer, SizedMessage
from holdfast.agent.context.units import Unit, shorten_results
from holdfast.domain.context import (
    NO_COMPACTION,
    SEGMENT_SEPARATOR,
    Compaction,
    InjectedItem,
    compaction_exhausted,
)
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message, NewMessage, Role

DEFAULT_OUTPUT_TOKENS: Final = 16_384
"""Reserved for a response without a limit of its own; at most one eighth of a small window."""
ESTIMATE_MARGIN_RATIO: Final = 0.1
COMPACT_ABOVE_RATIO: Final = 0.8
"""A conversation that fills more than this of its budget is compacted."""
COLLAPSE_ENOUGH_RATIO: Final = 0.6
"""Collapsing is enough, without a summary, if the conversation then fills at most this of its budget."""
KEEP_AFTER_SUMMARY_RATIO: Final = 0.4
"""The messages that are kept after a summary fill at most this of the conversation's budget."""


class ContextBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of the context window, by purpose."""

    usable: int
    """The window without the margin."""
    output: int
    system: int
    tools: int
    reminders: int
    conversation: int


def allocate_budget(
    window: int, *, system: int, tools: int, reminders: int = 0, output: int | None = None
) -> ContextBudget:
    """Divide a window of so many tokens; `output` is the limit of the response, if it has one."""
    if window <= 0:
        raise Invalid("the context window of a model must be more than 0 tokens", field="window")
    usable = int(window * (1 - ESTIMATE_MARGIN_RATIO))
    reserved = min(DEFAULT_OUTPUT_TOKENS, usable // 8) if output is None else min(output, usable // 2)
    rest = usable - reserved - system - tools - reminders
    return ContextBudget(
        usable=usable, output=reserved, system=system, tools=tools, reminders=reminders, conversation=max(rest, 0)
    )


class ContextInput(msgspec.Struct, frozen=True, kw_only=True):
    """The parts from which the context of a model call is assembled."""

    messages: Sequence[Message]
    """The end of the run's chain, oldest first."""
    whole: bool
    """Whether the chain starts with the first of them."""
    goal: Message | None
    """The user message that started this turn; it is always sent, however old it is."""
    segments: Sequence[PromptSegment]
    window: int
    """Tokens of the model's context window."""
    tools: MeasuredTools = MeasuredTools()
    compaction: Compaction = NO_COMPACTION
    reminders: Sequence[str] = ()
    output: int | None = None
    """Tokens that the response may have, if it is limited."""
    memory: Sequence[InjectedItem] = ()
    """What was recalled into the segments."""


class AssembledContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a model call."""

    system: str
    sent: tuple[SizedMessage, ...]
    """The conversation, with notes and reminders."""
    budget: ContextBudget
    tokens: dict[str, int]
    """Tokens by prompt segment, and of `earlier`, `conversation`, `reminders` and `tools`."""
    compaction: Compaction
    """The part of the compaction that applies to this chain."""
    covered: bool
    """Whether the summary covers every message before those that were read. If not, more may fit."""
    read_tokens: int
    """Tokens of the conversation that was read, sent or not."""
    first_sequence: int | None
    last_sequence: int | None
    needs_compaction: bool

    @property
    def messages(self) -> list[Message | NewMessage]:
        """The messages that are sent."""
        return [each.message for each in self.sent]

    @property
    def total_tokens(self) -> int:
        """The tokens of all parts together."""
        return sum(self.tokens.values())


def assemble(context_input: ContextInput, *, sizes: MessageSizer) -> AssembledContext:
    """Return the context to send: the required parts, and as many of the newest units as fit."""
    outline = build_outline(
        context_input.messages,
        whole=context_input.whole,
        goal=context_input.goal,
        compaction=context_input.compaction,
        sizes=sizes,
    )
    budget = context_budget(context_input, sizes=sizes)
    units, dropped = _choose_units(outline, budget.conversation, sizes)
    notes = [outline.earlier] if outline.earlier is not None else []
    if dropped or not outline.covered:
        notes.append(omission_note(sizes=sizes))
    if not notes and not units:
        notes.append(empty_conversation_note(sizes=sizes))
    conversation = [message for unit in units for message in unit.messages]
    can_compact = len(outline.units) >= 2 and not compaction_exhausted(outline.compaction, tokens=outline.tokens)
    too_long = outline.tokens > budget.conversation * COMPACT_ABOVE_RATIO
    return AssembledContext(
        system=SEGMENT_SEPARATOR.join([segment.text for segment in context_input.segments]),
        sent=(*notes, *conversation, *_reminder_messages(context_input, sizes)),
        budget=budget,
        tokens={
            **{segment.name: segment.tokens for segment in context_input.segments},
            "tools": context_input.tools.tokens,
            "earlier": _total_tokens(notes),
            "conversation": _total_tokens(conversation),
            "reminders": budget.reminders,
        },
        compaction=outline.compaction,
        covered=outline.covered,
        read_tokens=outline.tokens,
        first_sequence=next((unit.first for unit in units if unit.first is not None), None),
        last_sequence=next((unit.last for unit in reversed(units) if unit.last is not None), None),
        needs_compaction=can_compact and (dropped or not outline.covered or too_long),
    )


def context_budget(context_input: ContextInput, *, sizes: MessageSizer) -> ContextBudget:
    """Divide the model's context window among the parts of a call."""
    return allocate_budget(
        context_input.window,
        system=sum([segment.tokens for segment in context_input.segments]),
        tools=context_input.tools.tokens,
        reminders=_total_tokens(_reminder_messages(context_input, sizes)),
        output=context_input.output,
    )


def _reminder_messages(context_input: ContextInput, sizes: MessageSizer) -> list[SizedMessage]:
    return [sizes.note(Role.SYSTEM, text) for text in context_input.reminders]


def _choose_units(outline: Outline, max_tokens: int, sizes: MessageSizer) -> tuple[list[Unit], bool]:
    """Return the units to send, oldest first, and whether others were dropped."""
    units, goal, goal_at = outline.units, outline.goal, outline.goal_at
    if not units or (outline.covered and outline.tokens <= max_tokens):  # usually everything fits
        return [*([] if goal is None else [goal]), *units], False
    required = [outline.earlier, goal]
    if goal_at is not None and goal_at < len(units) - 1:
        required.append(units[goal_at])
    if outline.tokens > max_tokens or not outline.covered:
        required.append(omission_note(sizes=sizes))
    max_tokens -= sum([part.tokens for part in required if part is not None])
    newest = shorten_results(units[-1], max_tokens=max_tokens, sizes=sizes)
    start = _first_fitting_index(outline, max_tokens - newest.tokens)
    chosen = [*units[start:-1], newest]
    if goal is not None:
        return [goal, *chosen], start > 0
    if goal_at is not None and goal_at < start:
        return [units[goal_at], *chosen], start > 1
    return chosen, start > 0


def _first_fitting_index(outline: Outline, max_tokens: int) -> int:
    """Return the index of the oldest unit that still fits before the newest; the goal is already counted."""
    for index in range(len(outline.units) - 2, -1, -1):
        if index != outline.goal_at:
            max_tokens -= outline.units[index].tokens
        if max_tokens < 0:
            return index + 1
    return 0


def _total_tokens(messages: Sequence[SizedMessage]) -> int:
    return sum([message.tokens for message in messages])
