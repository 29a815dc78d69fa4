"""Consumption of the inbox: messages and edits enter the run before the next model call.

While tool calls wait, no message may come between them and their results, so messages are held in a value of the run.
Interrupts of children that the run waits for are kept in another value, and shown as interrupts of this run.
"""

from collections.abc import Collection, Sequence
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
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxItem, is_from_person
from holdfast.domain.interrupt import CHILD_INTERRUPTS_VALUE, child_interrupts
from holdfast.domain.message import NewMessage
from holdfast.domain.plan import Plan
from holdfast.domain.plan_edit import apply_edits
from holdfast.tools.builtin.plan import PLAN_VALUE
from holdfast.tools.tool import encode_value

HELD_MESSAGES_VALUE: Final = "mail"
"""The value of a run that holds messages until its tool calls are answered."""


async def consume_inbox(ctx: RunContext) -> None:
    """Add every held message and inbox item to the run, and commit."""
    items = ctx.inbox.take_all()
    held = _held_messages(ctx)
    if not items and not held:
        return
    ctx.writer.draft.messages += _without_used_ids(ctx, [*held, *messages_from(items)])
    if held:
        ctx.set_values({HELD_MESSAGES_VALUE: None})
    _apply_items(ctx, items)
    await ctx.commit()


def hold_messages(ctx: RunContext) -> None:
    """Hold the messages of the inbox for later, and apply its other items, so that the run can keep waiting."""
    items = ctx.inbox.take_all()
    if messages := messages_from(items):
        ctx.set_values({HELD_MESSAGES_VALUE: msgspec.to_builtins([*_held_messages(ctx), *messages])})
    _apply_items(ctx, items)


def consume_inbox_at_end(ctx: RunContext) -> None:
    """Keep the messages and edits of people for a run that continues from this one; discard all other items."""
    items = ctx.inbox.take_all()
    kept, held = [item for item in items if is_from_person(item)], _held_messages(ctx)
    ctx.writer.draft.messages += _without_used_ids(ctx, [*held, *messages_from(kept)])
    ctx.writer.draft.consumed += [item.number for item in items]
    if held:
        ctx.set_values({HELD_MESSAGES_VALUE: None})
    _apply_edits(ctx, kept)


def _apply_items(ctx: RunContext, items: list[InboxItem]) -> None:
    ctx.writer.draft.consumed += [item.number for item in items]
    exchange = ctx.conversation.open_exchange()
    mark_tainted(ctx, taint_sources(items), at=None if exchange is None else exchange[0].sequence)
    _apply_edits(ctx, items)
    ctx.writer.emit_custom(*child_ended_events(items))


def _apply_edits(ctx: RunContext, items: Sequence[InboxItem]) -> None:
    """Apply people's edits of values and of the plan; the plan is emitted even if no edit of it applies any more."""
    ctx.set_values(edited_values(items))
    if edits := plan_edits(items):
        plan = apply_edits(msgspec.convert(ctx.values.get(PLAN_VALUE) or {}, Plan), edits)
        ctx.set_values({PLAN_VALUE: encode_value(plan)})
        ctx.writer.emit_custom(PlanChanged(items=plan.items))


def _without_used_ids(ctx: RunContext, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Drop message ids that are already used: a message that a client sends twice must not end the run."""
    used = {message.id for message in ctx.conversation.messages}
    unique = []
    for message in messages:
        unique.append(replace(message, id=None) if message.id in used else message)
        if message.id is not None:
            used.add(message.id)
    return unique


def _held_messages(ctx: RunContext) -> list[NewMessage]:
    held = ctx.values.get(HELD_MESSAGES_VALUE)
    return msgspec.convert(held, list[NewMessage]) if held else []


def update_child_interrupts(ctx: RunContext, awaited: Collection[RunId]) -> None:
    """Apply the inbox items about interrupts, and keep the open interrupts of the awaited children."""
    before = child_interrupts(ctx.values)
    current = dict(before)
    items = ctx.inbox.take_interrupt_items()
    for item in items:
        closed = decode_closed_interrupt_id(item)
        if closed is not None:
            current = {child: [each for each in opened if each.id != closed] for child, opened in current.items()}
        else:
            child, opened = decode_child_interrupts(item)
            # The tool call is the child's: its id means nothing in the stream of this run.
            current[child] = [replace(each, subagent_run_id=child, tool_call_id=UNSET) for each in opened]
    ctx.writer.draft.consumed += [item.number for item in items]
    kept = {child: opened for child, opened in current.items() if child in awaited and opened}
    if kept != before:
        ctx.set_values({CHILD_INTERRUPTS_VALUE: msgspec.to_builtins(kept) or None})
