"""Compaction: shortening a conversation before it overflows.

    completed plan items ──► their conclusions ──► is that enough? ──► done, without a model call
                                                     └─ no ──► a summary of the older messages

A plan is a value: its caller makes the model call and commits the resulting compaction.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.agent.context.assembly import (
    COLLAPSE_ENOUGH_RATIO,
    KEEP_AFTER_SUMMARY_RATIO,
    ContextBudget,
    ContextInput,
    context_budget,
)
from holdfast.agent.context.outline import Outline, build_outline, summary_note
from holdfast.agent.context.tokens import MessageSizer, SizedMessage
from holdfast.agent.context.units import Unit, elide_middle, text_of
from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.content import TextPart
from holdfast.domain.context import CollapsedTask, Compaction, compaction_exhausted, record_failed_compaction
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.domain.plan import Plan
from holdfast.ports.model import ModelCallPurpose, ModelRequest, ModelSettings
from holdfast.tools.content import sanitize

MAX_SUMMARY_TOKENS: Final = 2_000
"""What a summary may have; in a small window one part in eight of the conversation's share."""
MIN_SUMMARY_TOKENS: Final = 100


class CollapsePlan(msgspec.Struct, frozen=True, kw_only=True):
    """It is enough to tell completed items by their conclusions."""

    compaction: Compaction


class SummaryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A model has to write a summary; `apply_summary` says what comes of it."""

    request: ModelRequest
    base: Compaction
    """What it adds to: the compaction with completed items collapsed, and its tokens before and after that."""
    through: int
    remaining_tokens: int
    """Tokens that are left of the conversation without all that the summary will stand for."""
    max_tokens: int
    """Tokens that the summary may have."""


CompactionPlan: TypeAlias = CollapsePlan | SummaryPlan


def plan_compaction(
    given: ContextInput, *, plan: Plan, run_id: RunId, context_window: int, sizes: MessageSizer
) -> CompactionPlan | None:
    """Return how to make the conversation shorter, or nothing if it cannot be.

    `context_window` is how many messages the thread keeps verbatim: after a summary there are half as many at most.
    """
    budget = context_budget(given, sizes=sizes)
    now = _outline_with(given, given.compaction, sizes)
    if compaction_exhausted(now.compaction, tokens=now.tokens) or len(now.units) < 2:
        return None
    then = _collapse_completed(given, now, plan, sizes)
    base = replace(then.compaction, tokens_before=now.tokens, tokens_after=then.tokens)
    collapse = CollapsePlan(compaction=replace(base, failed_tries=0)) if then.tokens < now.tokens else None
    if collapse is not None and then.covered and then.tokens <= budget.conversation * COLLAPSE_ENOUGH_RATIO:
        return collapse
    return _plan_summary(then, base, budget, run_id=run_id, keep=context_window // 2, sizes=sizes) or collapse


def apply_summary(planned: SummaryPlan, summary: str, *, sizes: MessageSizer) -> Compaction:
    """Return the compaction with that summary; one that makes nothing shorter counts as a failed try."""
    base, before = planned.base, planned.base.tokens_before
    kept = fit_summary(summary, max_tokens=planned.max_tokens, sizes=sizes)
    made = replace(
        base,
        through=planned.through,
        summary=kept,
        collapsed=tuple(span for span in base.collapsed if span.end.message_sequence_num > planned.through),
        failed_tries=0,
    )
    told = summary_note(made, sizes=sizes)
    if told is None or planned.remaining_tokens + told.tokens >= base.tokens_after:
        return record_failed_compaction(base, before=before, after=base.tokens_after)
    return replace(made, tokens_after=planned.remaining_tokens + told.tokens)


def _outline_with(given: ContextInput, compaction: Compaction, sizes: MessageSizer) -> Outline:
    return build_outline(given.messages, whole=given.whole, goal=given.goal, compaction=compaction, sizes=sizes)


def _collapse_completed(given: ContextInput, now: Outline, plan: Plan, sizes: MessageSizer) -> Outline:
    """Return the outline with every completed item collapsed, if that makes it shorter."""
    spans = (*now.compaction.collapsed, *_completed_spans(plan, given.messages, now))
    if len(spans) == len(now.compaction.collapsed):
        return now
    then = _outline_with(given, replace(now.compaction, collapsed=spans), sizes)
    return then if then.tokens < now.tokens else now


def _completed_spans(plan: Plan, messages: Sequence[Message], now: Outline) -> Iterator[CollapsedTask]:
    """Yield the completed items that began and ended before the newest unit, on this chain."""
    newest = now.units[-1].first
    asked = {message.sequence for message in messages if message.tool_calls and message.sequence != newest}
    known = {span.task_id for span in now.compaction.collapsed}
    for item in plan.items:
        start, end = item.start, item.end
        if item.task_id in known or start is None or end is None or item.conclusion is None:
            continue
        if start.message_sequence_num in asked and end.message_sequence_num in asked:
            yield CollapsedTask(
                task_id=item.task_id, title=item.title, conclusion=item.conclusion, start=start, end=end
            )


def _plan_summary(
    there: Outline, base: Compaction, budget: ContextBudget, *, run_id: RunId, keep: int, sizes: MessageSizer
) -> SummaryPlan | None:
    older = there.units[
        : _first_kept_index(there.units, room=int(budget.conversation * KEEP_AFTER_SUMMARY_RATIO), keep=keep)
    ]
    if not older or (len(older) == 1 and there.goal_at == 0):
        return None
    most = min(MAX_SUMMARY_TOKENS, max(budget.conversation // 8, MIN_SUMMARY_TOKENS))
    excerpt = summary_request(
        older,
        earlier=there.earlier,
        run_id=run_id,
        max_input_tokens=budget.usable - 2 * most,
        max_tokens=most,
        sizes=sizes,
    )
    covered = older[: excerpt.units]
    through = max((unit.last for unit in covered if unit.last is not None), default=None)
    if through is None:
        return None
    goal = there.units[there.goal_at].tokens if there.goal_at is not None and there.goal_at < len(covered) else 0
    replaced = sum(unit.tokens for unit in covered) - goal + (there.earlier.tokens if there.earlier else 0)
    return SummaryPlan(
        request=excerpt.request, base=base, through=through, remaining_tokens=there.tokens - replaced, max_tokens=most
    )


def _first_kept_index(units: Sequence[Unit], *, room: int, keep: int) -> int:
    """Return the index from which on units stay as they are: the newest, and those before it that fit."""
    room -= units[-1].tokens
    keep -= len(units[-1].messages)
    for index in range(len(units) - 2, -1, -1):
        room -= units[index].tokens
        keep -= len(units[index].messages)
        if room < 0 or keep < 0:
            return index + 1
    return 0


MAX_MESSAGE_CHARS: Final = 8_000
"""Characters of what a user or the model said that the writer of a summary is shown."""
MAX_RESULT_CHARS: Final = 2_000
MAX_ARGUMENTS_CHARS: Final = 500

_WORDS_PER_TOKEN: Final = 0.6


class SummaryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a summary, and of how many of the units it is one."""

    request: ModelRequest
    units: int


def summary_request(
    older: Sequence[Unit],
    *,
    earlier: SizedMessage | None,
    run_id: RunId,
    max_input_tokens: int,
    max_tokens: int,
    sizes: MessageSizer,
) -> SummaryRequest:
    """Return the request for a summary of at most `most` tokens, of as many of the oldest units as fit into `room`.

    What was summarised before is part of it, so that the new summary replaces the old one. There is at least one unit.
    """
    told = [] if earlier is None else [earlier.message]
    max_input_tokens -= sum(sizes.count_message(message) for message in told)
    for unit in older:
        message = _unit_message(unit)
        max_input_tokens -= sizes.count_message(message)
        if max_input_tokens < 0 and len(told) > (earlier is not None):
            break
        told.append(message)
    asked = NewMessage(role=Role.USER, content=render_text("summarise", words=int(max_tokens * _WORDS_PER_TOKEN)))
    request = ModelRequest(
        run_id=run_id,
        system=load_text("summary"),
        messages=[*told, asked],
        # A model that thinks aloud has its thoughts counted too.
        settings=ModelSettings(thinking=False, max_output_tokens=2 * max_tokens),
        purpose=ModelCallPurpose.SUMMARY,
    )
    return SummaryRequest(request=request, units=len(told) - (earlier is not None))


def fit_summary(summary: str, *, max_tokens: int, sizes: MessageSizer) -> str:
    """Return what a model wrote, in at most `most` tokens and as it can be stored."""
    kept: str = sanitize(summary.strip())
    while (length := sizes.count_text(kept)) > max_tokens:
        kept = kept[: min(len(kept) - 1, len(kept) * max_tokens // length)].rstrip()
    return kept


def _unit_message(unit: Unit) -> NewMessage:
    """Return a unit as one message: calls and their results are told in words, so that no tool has to be offered."""
    head = unit.head
    lines = [_message_text(head), *(f"[called {_call_text(call)}]" for call in head.tool_calls)]
    lines += [
        f"[answer]\n{elide_middle(text_of(part.message.content), max_chars=MAX_RESULT_CHARS)}"
        for part in unit.messages[1:]
    ]
    return NewMessage(role=head.role, content="\n".join(line for line in lines if line))


def _message_text(message: Message | NewMessage) -> str:
    said = elide_middle(text_of(message.content), max_chars=MAX_MESSAGE_CHARS)
    if isinstance(message.content, str):
        return said
    attached = [type(part).__name__ for part in message.content if not isinstance(part, TextPart)]
    return "\n".join([said, *(f"[attached: {name.removesuffix('Part').lower()}]" for name in attached)])


def _call_text(call: ToolCall) -> str:
    return f"{call.name} {elide_middle(msgspec.json.encode(call.arguments).decode(), max_chars=MAX_ARGUMENTS_CHARS)}"
