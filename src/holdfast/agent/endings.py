"""How a worker ends its work on a run: completed, failed, waiting or requeued; and opening of interrupts."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.agent.inbox import consume_inbox_at_end
from holdfast.agent.inbox_reader import child_ended_events
from holdfast.agent.run_context import RunContext
from holdfast.agent.tool_results import add_tool_result
from holdfast.domain.content import Json
from holdfast.domain.errors import InboxNotEmpty
from holdfast.domain.events import RunErrorEvent as RunErrorEvent
from holdfast.domain.events import RunFinished
from holdfast.domain.events.custom import InterruptChanged, StatusChanged
from holdfast.domain.events.messages import AgUiInterrupt as AskedInterrupt
from holdfast.domain.events.messages import InterruptOutcome, SuccessOutcome, TokenUsage
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.interrupt import (
    DEFAULT_INTERRUPT_TIMEOUT_MS,
    Interrupt,
    InterruptKind,
    InterruptStatus,
    NewInterrupt,
)
from holdfast.domain.run import Move, RunError, RunStatus, WaitsFor
from holdfast.domain.step import StepState
from holdfast.tools.tool import InterruptResolved, ResumeCause, TaskEnded


async def complete(ctx: RunContext, output: Json) -> None:
    """End the run well; refused while something that came in is unread (`InboxNotEmpty`)."""
    end = RunFinished(thread_id=ctx.run.thread_id, run_id=ctx.run.id, usage=_token_usage(ctx))
    await ctx.writer.commit(Move(to=RunStatus.COMPLETED, output=output), end=end)


async def fail(ctx: RunContext, error: RunError, *, keep_messages: bool = True) -> None:
    """End the run badly, with no call left open; what people said meanwhile is kept for whoever goes on from it.

    Unless it `hears`, that is read and forgotten.
    """
    ctx.writer.close_open_messages()
    _fail_open_calls(ctx, f"not answered: the run failed: {error.message}")
    if keep_messages:
        consume_inbox_at_end(ctx)
    while True:
        end = RunErrorEvent(message=error.message, code=error.code, usage=_token_usage(ctx))
        try:
            await ctx.writer.commit(Move(to=RunStatus.FAILED, error=error), end=end)
        except InboxNotEmpty:
            unread = await ctx.journal.inbox(ctx.lease)
            if keep_messages:
                ctx.inbox.add(unread)
                consume_inbox_at_end(ctx)
            ctx.writer.draft.consumed = [item.number for item in unread]
        else:
            return


async def suspend(
    ctx: RunContext, reason: WaitsFor, *, waits_on: Sequence[RunId], child_interrupts: Sequence[AskedInterrupt] = ()
) -> None:
    """Let the run wait; refused while something that came in is unread (`InboxNotEmpty`).

    Waiting for a person or a client ends the segment: the next one begins with an answer. What is asked `below`, by
    children that the run waits for, ends it as well.
    """
    move = Move(to=RunStatus.WAITING, reason=reason, waits_on=waits_on)
    questions = _open_interrupts(ctx)
    if reason is WaitsFor.PERSON and (questions or child_interrupts):
        outcome, usage = _segment_outcome(questions, child_interrupts), _token_usage(ctx)
        end = RunFinished(thread_id=ctx.run.thread_id, run_id=ctx.run.id, outcome=outcome, usage=usage)
        await ctx.writer.commit(replace(move, asks=_interrupts_for_parent(outcome)), end=end)
        return
    ctx.writer.emit_custom(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.WAITING, reason=reason))
    await ctx.writer.commit(move)


async def requeue(ctx: RunContext, reason: str, *, at: Instant) -> None:
    """Give the run back to the queue, to be claimed again at a time."""
    ctx.writer.emit_custom(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.QUEUED, reason=reason))
    await ctx.writer.commit(Move(to=RunStatus.QUEUED, reason=reason, wait_until=at))


def open_interrupt(ctx: RunContext, interrupt: NewInterrupt) -> None:
    """Open a question in the commit that makes the run wait."""
    interrupt_id = interrupt.id
    assert interrupt_id is not None
    if interrupt.expires_at is None:
        interrupt = replace(interrupt, expires_at=instant(Millis(ctx.clock.now() + DEFAULT_INTERRUPT_TIMEOUT_MS)))
    ctx.writer.draft.interrupts.append(interrupt)
    ctx.writer.emit_custom(
        InterruptChanged(
            interrupt_id=interrupt_id,
            status=InterruptStatus.OPEN,
            reason=_interrupt_reason(interrupt.kind),
            tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        )
    )


def take_resume_cause(ctx: RunContext, key: str) -> ResumeCause | None:
    """Take what came for the call of that key, if anything did; it is then dealt with."""
    found = ctx.inbox.take_resume_cause(key)
    if found is None:
        return None
    arrival, items = found
    ctx.writer.draft.add(consumed=[item.number for item in items])
    if isinstance(arrival, TaskEnded):
        ctx.writer.emit_custom(*child_ended_events(items))
    if isinstance(arrival, InterruptResolved):
        interrupt_id = InterruptId(derived_id("int", key=key))
        ctx.interrupts.pop(interrupt_id, None)
        status = InterruptStatus.EXPIRED if arrival.expired else InterruptStatus.ANSWERED
        ctx.writer.emit_custom(InterruptChanged(interrupt_id=interrupt_id, status=status))
    return arrival


def cancel_interrupt(ctx: RunContext, interrupt_id: InterruptId) -> None:
    """Take back a question that needs no answer any more."""
    draft = ctx.writer.draft
    unasked = [each for each in draft.interrupts if each.id != interrupt_id]
    if len(unasked) == len(draft.interrupts):
        draft.withdrawn.append(interrupt_id)
    draft.interrupts = unasked
    ctx.interrupts.pop(interrupt_id, None)
    ctx.writer.emit_custom(InterruptChanged(interrupt_id=interrupt_id, status=InterruptStatus.CANCELLED))


def _fail_open_calls(ctx: RunContext, content: str) -> None:
    exchange = ctx.conversation.open_exchange()
    answered = {message.tool_call_id for message in ctx.writer.draft.messages}
    for call in exchange[1] if exchange is not None else ():
        if call.id not in answered:
            step = ctx.ledger.step_for_call(call.id) or ctx.ledger.start_tool_call(call.name, call.id, effectful=False)
            add_tool_result(ctx, call, step, content, StepState.FAILED)
            if not step.state.settled:
                cut_off = StepState.UNKNOWN if step.effectful else StepState.FAILED
                ctx.writer.record_step(ctx.ledger.settle(step, cut_off))


def _open_interrupts(ctx: RunContext) -> list[Interrupt | NewInterrupt]:
    return [*ctx.interrupts.values(), *ctx.writer.draft.interrupts]


def _segment_outcome(
    interrupts: Sequence[Interrupt | NewInterrupt], child_interrupts: Sequence[AskedInterrupt]
) -> InterruptOutcome | SuccessOutcome:
    """Return how a segment ends that leaves questions: a client that has only tools to run is not interrupted."""
    asked = [
        *(_to_ag_ui_interrupt(each) for each in interrupts if each.kind is not InterruptKind.CLIENT_TOOL),
        *child_interrupts,
    ]
    if asked:
        return InterruptOutcome(interrupts=asked)
    return SuccessOutcome(
        pending_tool_call_ids=[each.tool_call_id for each in interrupts if each.tool_call_id is not None]
    )


def _interrupts_for_parent(outcome: InterruptOutcome | SuccessOutcome) -> list[Json]:
    """Return what the run that spawned this one is told of what people are asked."""
    return [msgspec.to_builtins(each) for each in outcome.interrupts] if isinstance(outcome, InterruptOutcome) else []


def _to_ag_ui_interrupt(interrupt: Interrupt | NewInterrupt) -> AskedInterrupt:
    assert interrupt.id is not None
    return AskedInterrupt(
        id=interrupt.id,
        reason=_interrupt_reason(interrupt.kind),
        message=UNSET if interrupt.message is None else interrupt.message,
        tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        response_schema=UNSET if interrupt.response_schema is None else interrupt.response_schema,
        expires_at=UNSET if interrupt.expires_at is None else interrupt.expires_at,
        metadata=_approval_metadata(interrupt),
    )


def _approval_metadata(interrupt: Interrupt | NewInterrupt) -> dict[str, Json] | UnsetType:
    """Return what a person must see to approve something, and what the answer names."""
    if interrupt.kind is not InterruptKind.APPROVAL:
        return UNSET
    return {**interrupt.metadata, "arguments": interrupt.arguments, "digest": interrupt.digest}


def _interrupt_reason(kind: InterruptKind) -> str:
    """Return what the protocol calls the reason."""
    return "input_required" if kind is InterruptKind.INPUT else "tool_call"


def _token_usage(ctx: RunContext) -> list[TokenUsage]:
    usage = ctx.usage
    return [
        TokenUsage(
            model=UNSET if ctx.run.model is None else ctx.run.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cached_input_tokens=usage.cached_input_tokens,
        )
    ]
