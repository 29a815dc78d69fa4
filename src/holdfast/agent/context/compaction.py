"""Compaction: making a conversation shorter before it overflows.

    completed items of the plan ──► their conclusions ──► is that enough? ──► done, without a model
                                                            └─ no ──► a summary of what is older

What is planned here is a value; whoever asks for it makes the model call and commits the compaction that comes of it.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.agent.context import notes
from holdfast.agent.context.assembly import ContextInput, budget_of
from holdfast.agent.context.budget import ENOUGH, KEPT, Budget
from holdfast.agent.context.outline import Outline, outline
from holdfast.agent.context.sizes import Sizes
from holdfast.agent.context.summary import fitted, summary_request
from holdfast.agent.context.units import Unit
from holdfast.domain.context import CollapsedTask, Compaction, compaction_exhausted, record_failed_compaction
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message
from holdfast.domain.plan import Plan
from holdfast.ports.model import ModelRequest

SUMMARY_TOKENS: Final = 2_000
"""What a summary may have; in a small window one part in eight of the conversation's share."""
LEAST_SUMMARY: Final = 100


class Collapse(msgspec.Struct, frozen=True, kw_only=True):
    """It is enough to tell completed items by their conclusions."""

    compaction: Compaction


class Summarise(msgspec.Struct, frozen=True, kw_only=True):
    """A model has to write a summary; `apply_summary` says what comes of it."""

    request: ModelRequest
    base: Compaction
    """What it adds to: the compaction with completed items collapsed, and its tokens before and after that."""
    through: int
    rest: int
    """Tokens that are left of the conversation without all that the summary will stand for."""
    most: int
    """Tokens that the summary may have."""


CompactionPlan: TypeAlias = Collapse | Summarise


def plan_compaction(
    given: ContextInput, *, plan: Plan, run_id: RunId, context_window: int, sizes: Sizes
) -> CompactionPlan | None:
    """Return how to make the conversation shorter, or nothing if it cannot be.

    `context_window` is how many messages the thread keeps verbatim: after a summary there are half as many at most.
    """
    budget = budget_of(given, sizes=sizes)
    now = _outline(given, given.compaction, sizes)
    if compaction_exhausted(now.compaction, tokens=now.tokens) or len(now.units) < 2:
        return None
    then = _collapsed(given, now, plan, sizes)
    base = replace(then.compaction, tokens_before=now.tokens, tokens_after=then.tokens)
    collapse = Collapse(compaction=replace(base, failed_tries=0)) if then.tokens < now.tokens else None
    if collapse is not None and then.covered and then.tokens <= budget.conversation * ENOUGH:
        return collapse
    return _summarise(then, base, budget, run_id=run_id, keep=context_window // 2, sizes=sizes) or collapse


def apply_summary(planned: Summarise, summary: str, *, sizes: Sizes) -> Compaction:
    """Return the compaction with that summary; one that makes nothing shorter counts as a failed try."""
    base, before = planned.base, planned.base.tokens_before
    kept = fitted(summary, most=planned.most, sizes=sizes)
    made = replace(
        base,
        through=planned.through,
        summary=kept,
        collapsed=tuple(span for span in base.collapsed if span.end.message_sequence_num > planned.through),
        failed_tries=0,
    )
    told = notes.earlier(made, sizes=sizes)
    if told is None or planned.rest + told.tokens >= base.tokens_after:
        return record_failed_compaction(base, before=before, after=base.tokens_after)
    return replace(made, tokens_after=planned.rest + told.tokens)


def _outline(given: ContextInput, compaction: Compaction, sizes: Sizes) -> Outline:
    return outline(given.messages, whole=given.whole, goal=given.goal, compaction=compaction, sizes=sizes)


def _collapsed(given: ContextInput, now: Outline, plan: Plan, sizes: Sizes) -> Outline:
    """Return the outline with every completed item collapsed, if that makes it shorter."""
    spans = (*now.compaction.collapsed, *_completed(plan, given.messages, now))
    if len(spans) == len(now.compaction.collapsed):
        return now
    then = _outline(given, replace(now.compaction, collapsed=spans), sizes)
    return then if then.tokens < now.tokens else now


def _completed(plan: Plan, messages: Sequence[Message], now: Outline) -> Iterator[CollapsedTask]:
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


def _summarise(
    there: Outline, base: Compaction, budget: Budget, *, run_id: RunId, keep: int, sizes: Sizes
) -> Summarise | None:
    older = there.units[: _tail(there.units, room=int(budget.conversation * KEPT), keep=keep)]
    if not older or (len(older) == 1 and there.goal_at == 0):
        return None
    most = min(SUMMARY_TOKENS, max(budget.conversation // 8, LEAST_SUMMARY))
    excerpt = summary_request(
        older, earlier=there.earlier, run_id=run_id, room=budget.usable - 2 * most, most=most, sizes=sizes
    )
    covered = older[: excerpt.units]
    through = max((unit.last for unit in covered if unit.last is not None), default=None)
    if through is None:
        return None
    goal = there.units[there.goal_at].tokens if there.goal_at is not None and there.goal_at < len(covered) else 0
    replaced = sum(unit.tokens for unit in covered) - goal + (there.earlier.tokens if there.earlier else 0)
    return Summarise(request=excerpt.request, base=base, through=through, rest=there.tokens - replaced, most=most)


def _tail(units: Sequence[Unit], *, room: int, keep: int) -> int:
    """Return the index from which on units stay as they are: the newest, and those before it that fit."""
    room -= units[-1].tokens
    keep -= len(units[-1].messages)
    for index in range(len(units) - 2, -1, -1):
        room -= units[index].tokens
        keep -= len(units[index].messages)
        if room < 0 or keep < 0:
            return index + 1
    return 0
