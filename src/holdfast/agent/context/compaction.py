"""Compaction: shortening a conversation before it overflows.

    completed plan items ──► their conclusions ──► is that enough? ──► done, without a model call
                                                     └─ no ──► a summary of the older messages

A plan is a value: its caller makes the model call and commits the resulting compaction.
"""

from collections.abc import Sequence
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
from holdfast.agent.context.units import Unit, elide_middle
from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.content import TextPart, plain_text
from holdfast.domain.context import CollapsedTask, Compaction, compaction_exhausted, record_failed_compaction
from holdfast.domain.ids import RunId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.plan import Plan
from holdfast.ports.model import ModelCallPurpose, ModelRequest, ModelSettings
from holdfast.tools.content import sanitize

MAX_SUMMARY_TOKENS: Final = 2_000
"""The maximum in a large window; in a small one, an eighth of the conversation's budget."""
MIN_SUMMARY_TOKENS: Final = 100


class SummaryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A model has to write a summary, which `apply_summary` turns into a compaction."""

    request: ModelRequest
    base: Compaction
    """The compaction to extend: completed items are collapsed, with the tokens before and after that."""
    through: int
    remaining_tokens: int
    """Tokens of the conversation without the messages that the summary replaces."""
    max_total_tokens: int
    """The maximum of the conversation with the summary; one that makes it longer is useless."""
    max_tokens: int
    """The maximum length of the summary."""
    gap: bool
    """Whether messages before the summarised ones are left out."""


CompactionPlan: TypeAlias = Compaction | SummaryPlan
"""A finished compaction, if collapsing completed plan items is enough, or the plan of a summary."""


def plan_compaction(
    context_input: ContextInput, *, plan: Plan, run_id: RunId, context_window: int, sizes: MessageSizer
) -> CompactionPlan | None:
    """Return how to shorten the conversation, or null if it cannot be shortened.

    `context_window` is how many recent messages a summary leaves, if they fit.
    """
    budget = context_budget(context_input, sizes=sizes)
    before = _outline_with(context_input, context_input.compaction, sizes)
    if compaction_exhausted(before.compaction, tokens=before.tokens) or len(before.units) < 2:
        return None
    after = _collapse_completed(context_input, before, plan, sizes)
    base = replace(after.compaction, tokens_before=before.tokens, tokens_after=after.tokens)
    collapse = replace(base, failed_tries=0) if after.tokens < before.tokens else None
    if collapse is not None and after.covered and after.tokens <= budget.conversation * COLLAPSE_ENOUGH_RATIO:
        return collapse
    return _plan_summary(after, base, budget, run_id=run_id, keep=context_window, sizes=sizes) or collapse


def apply_summary(plan: SummaryPlan, summary: str, *, sizes: MessageSizer) -> Compaction:
    """Return the compaction with that summary; a useless summary counts as a failed try."""
    base = plan.base
    compaction = replace(
        base,
        through=plan.through,
        summary=fit_summary(summary, max_tokens=plan.max_tokens, sizes=sizes),
        collapsed=tuple(span for span in base.collapsed if span.end.message_sequence_num > plan.through),
        failed_tries=0,
        gap=plan.gap,
    )
    note = summary_note(compaction, sizes=sizes)
    if note is None or plan.remaining_tokens + note.tokens > plan.max_total_tokens:
        return record_failed_compaction(base, before=base.tokens_before, after=base.tokens_after)
    return replace(compaction, tokens_after=plan.remaining_tokens + note.tokens)


def _outline_with(context_input: ContextInput, compaction: Compaction, sizes: MessageSizer) -> Outline:
    messages, whole, goal = context_input.messages, context_input.whole, context_input.goal
    return build_outline(messages, whole=whole, goal=goal, compaction=compaction, sizes=sizes)


def _collapse_completed(context_input: ContextInput, outline: Outline, plan: Plan, sizes: MessageSizer) -> Outline:
    """Collapse the plan items that started and ended on this chain before the newest unit, if that saves tokens."""
    newest = outline.units[-1].first
    requests = {each.sequence for each in context_input.messages if each.tool_calls and each.sequence != newest}
    spans = list(outline.compaction.collapsed)
    collapsed_ids = {span.task_id for span in spans}
    for item in plan.items:
        start, end = item.start, item.end
        if item.task_id in collapsed_ids or start is None or end is None or item.conclusion is None:
            continue
        if start.message_sequence_num in requests and end.message_sequence_num in requests:
            spans.append(
                CollapsedTask(task_id=item.task_id, title=item.title, conclusion=item.conclusion, start=start, end=end)
            )
    if len(spans) == len(outline.compaction.collapsed):
        return outline
    collapsed = _outline_with(context_input, replace(outline.compaction, collapsed=tuple(spans)), sizes)
    return collapsed if collapsed.tokens < outline.tokens else outline


def _plan_summary(
    outline: Outline, base: Compaction, budget: ContextBudget, *, run_id: RunId, keep: int, sizes: MessageSizer
) -> SummaryPlan | None:
    goal_at, earlier = outline.goal_at, outline.earlier
    keep_tokens = int(budget.conversation * KEEP_AFTER_SUMMARY_RATIO)
    older = outline.units[: _first_kept_index(outline.units, keep_tokens=keep_tokens, keep=keep)]
    if not older or (len(older) == 1 and goal_at == 0):
        return None
    max_tokens = min(MAX_SUMMARY_TOKENS, max(budget.conversation // 8, MIN_SUMMARY_TOKENS))
    request, count = summary_request(
        older,
        earlier=earlier,
        run_id=run_id,
        max_input_tokens=budget.usable - 2 * max_tokens,
        max_tokens=max_tokens,
        sizes=sizes,
    )
    covered = older[:count]
    through = max((unit.last for unit in covered if unit.last is not None), default=None)
    if through is None:
        return None
    goal_tokens = outline.units[goal_at].tokens if goal_at is not None and goal_at < len(covered) else 0
    replaced = sum(unit.tokens for unit in covered) - goal_tokens + (earlier.tokens if earlier else 0)
    return SummaryPlan(
        request=request,
        base=base,
        through=through,
        remaining_tokens=outline.tokens - replaced,
        # Without a summary, messages that no summary covers are not sent at all.
        max_total_tokens=base.tokens_after - 1 if outline.covered else max(base.tokens_after - 1, budget.conversation),
        max_tokens=max_tokens,
        gap=base.gap or not outline.covered,
    )


def _first_kept_index(units: Sequence[Unit], *, keep_tokens: int, keep: int) -> int:
    """Return the index from which units are kept: the newest one, and those before it that fit."""
    keep_tokens -= units[-1].tokens
    keep -= len(units[-1].messages)
    for index in range(len(units) - 2, -1, -1):
        keep_tokens -= units[index].tokens
        keep -= len(units[index].messages)
        if keep_tokens < 0 or keep < 0:
            return index + 1
    return 0


MAX_MESSAGE_CHARS: Final = 8_000
"""Characters of a user or assistant message that are given to the model that writes the summary."""
MAX_RESULT_CHARS: Final = 2_000
MAX_ARGUMENTS_CHARS: Final = 500

_WORDS_PER_TOKEN: Final = 0.6


def summary_request(
    older: Sequence[Unit],
    *,
    earlier: SizedMessage | None,
    run_id: RunId,
    max_input_tokens: int,
    max_tokens: int,
    sizes: MessageSizer,
) -> tuple[ModelRequest, int]:
    """Return the request for a summary of the oldest units that fit into `max_input_tokens`, and how many they are.

    The previous summary is part of the input, so that the new one replaces it. There is at least one unit.
    """
    messages = [] if earlier is None else [earlier.message]
    max_input_tokens -= sum(sizes.count_message(message) for message in messages)
    count = 0
    for unit in older:
        message = _unit_message(unit)
        max_input_tokens -= sizes.count_message(message)
        if max_input_tokens < 0 and count:
            break
        messages.append(message)
        count += 1
    prompt = NewMessage(role=Role.USER, content=render_text("summarise", words=int(max_tokens * _WORDS_PER_TOKEN)))
    request = ModelRequest(
        run_id=run_id,
        system=load_text("summary"),
        messages=[*messages, prompt],
        # Reasoning counts as output too.
        settings=ModelSettings(thinking=False, max_output_tokens=2 * max_tokens),
        purpose=ModelCallPurpose.SUMMARY,
    )
    return request, count


def fit_summary(summary: str, *, max_tokens: int, sizes: MessageSizer) -> str:
    """Return a summary in storable form, cut to `max_tokens`."""
    fitted: str = sanitize(summary.strip())
    while (length := sizes.count_text(fitted)) > max_tokens:
        fitted = fitted[: min(len(fitted) - 1, len(fitted) * max_tokens // length)].rstrip()
    return fitted


def _unit_message(unit: Unit) -> NewMessage:
    """Return a unit as one message, with calls and results as text, so that the request needs no tools."""
    head = unit.head
    lines = [elide_middle(plain_text(head.content), max_chars=MAX_MESSAGE_CHARS)]
    if not isinstance(head.content, str):
        attached = [type(part).__name__ for part in head.content if not isinstance(part, TextPart)]
        lines += [f"[attached: {name.removesuffix('Part').lower()}]" for name in attached]
    for call in head.tool_calls:
        arguments = elide_middle(msgspec.json.encode(call.arguments).decode(), max_chars=MAX_ARGUMENTS_CHARS)
        lines.append(f"[called {call.name} {arguments}]")
    for part in unit.messages[1:]:
        lines.append(f"[answer]\n{elide_middle(plain_text(part.message.content), max_chars=MAX_RESULT_CHARS)}")
    return NewMessage(role=head.role, content="\n".join(line for line in lines if line))
