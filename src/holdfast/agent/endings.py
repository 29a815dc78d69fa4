"""Moves of a run by its worker: complete, fail, suspend and requeue it, and open and close its interrupts."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.distillation import distilled_memories, queue_distillation
from holdfast.agent.inbox import consume_inbox_at_end
from holdfast.agent.inbox_reader import child_ended_events
from holdfast.agent.run_context import RunContext
from holdfast.agent.skill_contracts import conclude_contracts
from holdfast.agent.tool_results import add_tool_result
from holdfast.domain.content import Json
from holdfast.domain.context import RECALL_VALUE
from holdfast.domain.distillation import is_distiller
from holdfast.domain.errors import BudgetExceeded, InboxNotEmpty
from holdfast.domain.events import RunErrorEvent, RunFinished
from holdfast.domain.events.custom import InterruptChanged, StatusChanged
from holdfast.domain.events.messages import AgUiInterrupt, InterruptOutcome, SuccessOutcome, TokenUsage
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
    """Complete the run; raise `InboxNotEmpty` if it has unread inbox items."""
    end = RunFinished(thread_id=ctx.run.thread_id, run_id=ctx.run.id, usage=_token_usage(ctx))
    memories = await distilled_memories(ctx, output) if is_distiller(ctx.agent.name) else []
    recalled, follow_up = ctx.values.get(RECALL_VALUE), queue_distillation(ctx)
    draft = ctx.writer.draft
    draft.memories += memories
    draft.follow_ups += [] if follow_up is None else [follow_up]
    try:
        await ctx.writer.commit(Move(to=RunStatus.COMPLETED, output=output), end=end)
    except (InboxNotEmpty, BudgetExceeded):  # the run goes on, or fails: it adds them when it completes
        kept = ctx.writer.draft
        kept.memories = [each for each in kept.memories if each not in memories]
        kept.follow_ups = [each for each in kept.follow_ups if each is not follow_up]
        if recalled is not None:
            ctx.set_values({RECALL_VALUE: recalled})
        raise


async def fail(ctx: RunContext, error: RunError, *, keep_messages: bool = True) -> None:
    """Fail the run and settle its open calls.

    Messages and edits of people in the inbox are kept for a run that continues from this one, unless `keep_messages`
    is false.
    """
    ctx.writer.close_open_messages()
    _fail_open_calls(ctx, f"not answered: the run failed: {error.message}")
    if keep_messages:
        consume_inbox_at_end(ctx)
    conclude_contracts(ctx)
    while True:
        end = RunErrorEvent(message=error.message, code=error.code, usage=_token_usage(ctx))
        try:
            return await ctx.writer.commit(Move(to=RunStatus.FAILED, error=error), end=end)
        except InboxNotEmpty:
            unread = await ctx.journal.inbox(ctx.lease)
        if keep_messages:
            ctx.inbox.add(unread)
            consume_inbox_at_end(ctx)
        ctx.writer.draft.consumed = [item.number for item in unread]


def _fail_open_calls(ctx: RunContext, content: str) -> None:
    exchange = ctx.conversation.open_exchange()
    answered = {message.tool_call_id for message in ctx.writer.draft.messages}
    for call in exchange[1] if exchange is not None else ():
        if call.id not in answered:
            step = ctx.ledger.step_for_call(call.id) or ctx.ledger.start_tool_call(call.name, call.id, effectful=False)
            add_tool_result(ctx, call, step, content, StepState.FAILED)
            if not step.state.settled:
                state = StepState.UNKNOWN if step.effectful else StepState.FAILED
                ctx.writer.record_step(ctx.ledger.settle(step, state))


async def suspend(
    ctx: RunContext, reason: WaitsFor, *, waits_on: Sequence[RunId], child_interrupts: Sequence[AgUiInterrupt] = ()
) -> None:
    """Move the run to waiting; raise `InboxNotEmpty` if it has unread inbox items.

    Waiting for a person or a client ends the segment, and a response starts the next one. So do open interrupts of
    children that the run waits for.
    """
    move = Move(to=RunStatus.WAITING, reason=reason, waits_on=waits_on)
    own: list[Interrupt | NewInterrupt] = [*ctx.interrupts.values(), *ctx.writer.draft.interrupts]
    if reason is not WaitsFor.PERSON or not (own or child_interrupts):
        ctx.writer.emit_custom(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.WAITING, reason=reason))
        await ctx.writer.commit(move)
        return
    # A client tool is not an interrupt: the segment succeeds, and the client runs its pending calls.
    interrupts = [
        *(_to_ag_ui_interrupt(each) for each in own if each.kind is not InterruptKind.CLIENT_TOOL),
        *child_interrupts,
    ]
    outcome: InterruptOutcome | SuccessOutcome
    if interrupts:
        outcome = InterruptOutcome(interrupts=interrupts)
    else:
        outcome = SuccessOutcome(
            pending_tool_call_ids=[each.tool_call_id for each in own if each.tool_call_id is not None]
        )
    end = RunFinished(thread_id=ctx.run.thread_id, run_id=ctx.run.id, outcome=outcome, usage=_token_usage(ctx))
    await ctx.writer.commit(replace(move, asks=[msgspec.to_builtins(each) for each in interrupts]), end=end)


async def requeue(ctx: RunContext, reason: str, *, at: Instant) -> None:
    """Return the run to the queue, claimable at `at`."""
    ctx.writer.emit_custom(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.QUEUED, reason=reason))
    await ctx.writer.commit(Move(to=RunStatus.QUEUED, reason=reason, wait_until=at))


def open_interrupt(ctx: RunContext, interrupt: NewInterrupt) -> None:
    """Open an interrupt in the commit that suspends the run."""
    interrupt_id = interrupt.id
    assert interrupt_id is not None
    if interrupt.expires_at is None:
        interrupt = replace(interrupt, expires_at=instant(Millis(ctx.clock.now() + DEFAULT_INTERRUPT_TIMEOUT_MS)))
    ctx.writer.draft.interrupts.append(interrupt)
    ctx.writer.emit_custom(
        InterruptChanged(
            interrupt_id=interrupt_id,
            status=InterruptStatus.OPEN,
            reason=_ag_ui_reason(interrupt.kind),
            tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        )
    )


def take_resume_cause(ctx: RunContext, key: str) -> ResumeCause | None:
    """Take the cause that resumes the wait with that key, if it has arrived; its inbox items are consumed."""
    found = ctx.inbox.take_resume_cause(key)
    if found is None:
        return None
    cause, items = found
    ctx.writer.draft.consumed += [item.number for item in items]
    if isinstance(cause, TaskEnded):
        ctx.writer.emit_custom(*child_ended_events(items))
    if isinstance(cause, InterruptResolved):
        interrupt_id = InterruptId(derived_id("int", key=key))
        ctx.interrupts.pop(interrupt_id, None)
        status = InterruptStatus.EXPIRED if cause.expired else InterruptStatus.ANSWERED
        ctx.writer.emit_custom(InterruptChanged(interrupt_id=interrupt_id, status=status))
    return cause


def cancel_interrupt(ctx: RunContext, interrupt_id: InterruptId) -> None:
    """Cancel an interrupt that needs no response any more."""
    draft = ctx.writer.draft
    others = [each for each in draft.interrupts if each.id != interrupt_id]
    if len(others) == len(draft.interrupts):
        draft.withdrawn.append(interrupt_id)
    draft.interrupts = others
    ctx.interrupts.pop(interrupt_id, None)
    ctx.writer.emit_custom(InterruptChanged(interrupt_id=interrupt_id, status=InterruptStatus.CANCELLED))


def _to_ag_ui_interrupt(interrupt: Interrupt | NewInterrupt) -> AgUiInterrupt:
    assert interrupt.id is not None
    approval = {**interrupt.metadata, "arguments": interrupt.arguments, "digest": interrupt.digest}
    return AgUiInterrupt(
        id=interrupt.id,
        reason=_ag_ui_reason(interrupt.kind),
        message=UNSET if interrupt.message is None else interrupt.message,
        tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        response_schema=UNSET if interrupt.response_schema is None else interrupt.response_schema,
        expires_at=UNSET if interrupt.expires_at is None else interrupt.expires_at,
        metadata=approval if interrupt.kind is InterruptKind.APPROVAL else UNSET,
    )


def _ag_ui_reason(kind: InterruptKind) -> str:
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
