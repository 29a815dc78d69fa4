"""Consumption of the inbox: messages and edits enter the run before the next model call.

While tool calls wait, nothing may come between them and their results, so messages are held in a value of the run.
Interrupts of children that the run waits for are kept in another value, and shown as interrupts of this run.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.inbox_reader import (
    child_ended_events,
    decode_child_interrupts,
    decode_closed_interrupt_id,
    edited_values,
    messages_from,
    plan_edits,
    taint_sources,
)
from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.domain.events.custom import PlanChanged
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxItem, is_from_person
from holdfast.domain.interrupt import CHILD_INTERRUPTS_VALUE, child_interrupts
from holdfast.domain.message import NewMessage
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import PlanEdit, apply_edits
from holdfast.tools.builtin.plan import PLAN_VALUE as PLAN
from holdfast.tools.tool import encode_value

HELD_MESSAGES: Final = "mail"
"""The value of a run that keeps what the model is to be told once its calls are answered."""


async def consume_inbox(ctx: RunContext) -> None:
    """Let everything that came in enter the conversation."""
    items = ctx.inbox.take_all()
    held = _held_messages(ctx)
    if not items and not held:
        return
    ctx.writer.draft.add(messages=_without_used_ids(ctx, [*held, *messages_from(items)]))
    if held:
        ctx.set_values({HELD_MESSAGES: None})
    _apply_items(ctx, items)
    await ctx.commit()


def hold_messages(ctx: RunContext) -> None:
    """Keep what came in for later, so that the run can go on waiting."""
    items = ctx.inbox.take_all()
    if messages := messages_from(items):
        ctx.set_values({HELD_MESSAGES: msgspec.to_builtins([*_held_messages(ctx), *messages])})
    _apply_items(ctx, items)


def consume_inbox_at_end(ctx: RunContext) -> None:
    """Keep what people said and changed, though the run ends before it reads it: whoever goes on from it does.

    The rest of what came in is of no use any more.
    """
    items = ctx.inbox.take_all()
    kept = [item for item in items if is_from_person(item)]
    ctx.writer.draft.add(
        messages=_without_used_ids(ctx, [*_held_messages(ctx), *messages_from(kept)]),
        consumed=[i.number for i in items],
    )
    if _held_messages(ctx):
        ctx.set_values({HELD_MESSAGES: None})
    _apply_edits(ctx, kept)


def _apply_items(ctx: RunContext, items: list[InboxItem]) -> None:
    ctx.writer.draft.add(consumed=[item.number for item in items])
    exchange = ctx.conversation.open_exchange()
    mark_tainted(ctx, taint_sources(items), at=None if exchange is None else exchange[0].sequence)
    _apply_edits(ctx, items)
    ctx.writer.emit_custom(*child_ended_events(items))


def _apply_edits(ctx: RunContext, items: Sequence[InboxItem]) -> None:
    ctx.set_values(edited_values(items))
    if changes := plan_edits(items):
        _apply_plan_edits(ctx, changes)


def _apply_plan_edits(ctx: RunContext, changes: Sequence[PlanEdit]) -> None:
    """Take in what people changed of the plan, and tell what it is then, even if nothing of it fits any more."""
    plan = apply_edits(msgspec.convert(ctx.values.get(PLAN) or {}, Plan), changes)
    ctx.set_values({PLAN: encode_value(plan)})
    ctx.writer.emit_custom(PlanChanged(items=plan.items))


def _without_used_ids(ctx: RunContext, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return messages without the ids that were used before: somebody who says a thing twice must not end the run."""
    used = {message.id for message in ctx.conversation.messages}
    said = []
    for message in messages:
        said.append(replace(message, id=None) if message.id in used else message)
        if message.id is not None:
            used.add(message.id)
    return said


def _held_messages(ctx: RunContext) -> list[NewMessage]:
    held = ctx.values.get(HELD_MESSAGES)
    return msgspec.convert(held, list[NewMessage]) if held else []


def update_child_interrupts(ctx: RunContext, awaited: Collection[RunId]) -> None:
    """Take in what children ask and what was answered, and keep what those ask that the run waits for."""
    before = child_interrupts(ctx.values)
    asked = dict(before)
    items = ctx.inbox.take_interrupt_items()
    for item in items:
        asked = _apply_interrupt_item(asked, item)
    ctx.writer.draft.add(consumed=[item.number for item in items])
    kept = {child: questions for child, questions in asked.items() if child in awaited and questions}
    if kept != before:
        ctx.set_values({CHILD_INTERRUPTS_VALUE: msgspec.to_builtins(kept) or None})


def _apply_interrupt_item(
    asked: Mapping[RunId, list[AgUiInterrupt]], item: InboxItem
) -> dict[RunId, list[AgUiInterrupt]]:
    closed = decode_closed_interrupt_id(item)
    if closed is not None:
        return {child: [each for each in questions if each.id != closed] for child, questions in asked.items()}
    child, questions = decode_child_interrupts(item)
    # A call of the child means nothing in the stream of the run that shows its question.
    return {**asked, child: [replace(each, subagent_run_id=child, tool_call_id=UNSET) for each in questions]}
