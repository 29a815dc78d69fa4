"""How a worker lets go of a run: it has ended, or waits, or is to be tried again later."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.agent.mail import ended_children
from holdfast.agent.settling import answer
from holdfast.agent.taking_in import take_in_last
from holdfast.agent.work import Work
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


async def complete(work: Work, output: Json) -> None:
    """End the run well; refused while something that came in is unread (`InboxNotEmpty`)."""
    end = RunFinished(thread_id=work.run.thread_id, run_id=work.run.id, usage=_usage(work))
    await work.log.commit(Move(to=RunStatus.COMPLETED, output=output), end=end)


async def fail(work: Work, error: RunError, *, hears: bool = True) -> None:
    """End the run badly, with no call left open; what people said meanwhile is kept for whoever goes on from it.

    Unless it `hears`, that is read and forgotten.
    """
    work.log.close()
    _answer_open_calls(work, f"not answered: the run failed: {error.message}")
    if hears:
        take_in_last(work)
    while True:
        end = RunErrorEvent(message=error.message, code=error.code, usage=_usage(work))
        try:
            await work.log.commit(Move(to=RunStatus.FAILED, error=error), end=end)
        except InboxNotEmpty:
            unread = await work.journal.inbox(work.lease)
            if hears:
                work.mail.put(unread)
                take_in_last(work)
            work.log.draft.consumed = [item.number for item in unread]
        else:
            return


async def wait(
    work: Work, reason: WaitsFor, *, waits_on: Sequence[RunId], below: Sequence[AskedInterrupt] = ()
) -> None:
    """Let the run wait; refused while something that came in is unread (`InboxNotEmpty`).

    Waiting for a person or a client ends the segment: the next one begins with an answer. What is asked `below`, by
    children that the run waits for, ends it as well.
    """
    move = Move(to=RunStatus.WAITING, reason=reason, waits_on=waits_on)
    questions = _open_questions(work)
    if reason is WaitsFor.PERSON and (questions or below):
        outcome, usage = _outcome(questions, below), _usage(work)
        end = RunFinished(thread_id=work.run.thread_id, run_id=work.run.id, outcome=outcome, usage=usage)
        await work.log.commit(replace(move, asks=_asks(outcome)), end=end)
        return
    work.log.tell(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.WAITING, reason=reason))
    await work.log.commit(move)


async def try_later(work: Work, reason: str, *, at: Instant) -> None:
    """Give the run back to the queue, to be claimed again at a time."""
    work.log.tell(StatusChanged(from_=RunStatus.RUNNING, to=RunStatus.QUEUED, reason=reason))
    await work.log.commit(Move(to=RunStatus.QUEUED, reason=reason, wait_until=at))


def ask(work: Work, interrupt: NewInterrupt) -> None:
    """Open a question in the commit that makes the run wait."""
    interrupt_id = interrupt.id
    assert interrupt_id is not None
    if interrupt.expires_at is None:
        interrupt = replace(interrupt, expires_at=instant(Millis(work.clock.now() + DEFAULT_INTERRUPT_TIMEOUT_MS)))
    work.log.draft.interrupts.append(interrupt)
    work.log.tell(
        InterruptChanged(
            interrupt_id=interrupt_id,
            status=InterruptStatus.OPEN,
            reason=_reason(interrupt.kind),
            tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        )
    )


def arrived(work: Work, key: str) -> ResumeCause | None:
    """Take what came for the call of that key, if anything did; it is then dealt with."""
    found = work.mail.arrival(key)
    if found is None:
        return None
    arrival, items = found
    work.log.draft.add(consumed=[item.number for item in items])
    if isinstance(arrival, TaskEnded):
        work.log.tell(*ended_children(items))
    if isinstance(arrival, InterruptResolved):
        interrupt_id = InterruptId(derived_id("int", key=key))
        work.interrupts.pop(interrupt_id, None)
        status = InterruptStatus.EXPIRED if arrival.expired else InterruptStatus.ANSWERED
        work.log.tell(InterruptChanged(interrupt_id=interrupt_id, status=status))
    return arrival


def withdraw(work: Work, interrupt_id: InterruptId) -> None:
    """Take back a question that needs no answer any more."""
    draft = work.log.draft
    unasked = [each for each in draft.interrupts if each.id != interrupt_id]
    if len(unasked) == len(draft.interrupts):
        draft.withdrawn.append(interrupt_id)
    draft.interrupts = unasked
    work.interrupts.pop(interrupt_id, None)
    work.log.tell(InterruptChanged(interrupt_id=interrupt_id, status=InterruptStatus.CANCELLED))


def _answer_open_calls(work: Work, content: str) -> None:
    exchange = work.conversation.open_exchange()
    answered = {message.tool_call_id for message in work.log.draft.messages}
    for call in exchange[1] if exchange is not None else ():
        if call.id not in answered:
            step = work.ledger.of_call(call.id) or work.ledger.tool_call(call.name, call.id, effectful=False)
            answer(work, call, step, content, StepState.FAILED)
            if not step.state.settled:
                cut_off = StepState.UNKNOWN if step.effectful else StepState.FAILED
                work.log.step(work.ledger.settle(step, cut_off))


def _open_questions(work: Work) -> list[Interrupt | NewInterrupt]:
    return [*work.interrupts.values(), *work.log.draft.interrupts]


def _outcome(
    questions: Sequence[Interrupt | NewInterrupt], below: Sequence[AskedInterrupt]
) -> InterruptOutcome | SuccessOutcome:
    """Return how a segment ends that leaves questions: a client that has only tools to run is not interrupted."""
    asked = [*(_asked(each) for each in questions if each.kind is not InterruptKind.CLIENT_TOOL), *below]
    if asked:
        return InterruptOutcome(interrupts=asked)
    return SuccessOutcome(
        pending_tool_call_ids=[each.tool_call_id for each in questions if each.tool_call_id is not None]
    )


def _asks(outcome: InterruptOutcome | SuccessOutcome) -> list[Json]:
    """Return what the run that spawned this one is told of what people are asked."""
    return [msgspec.to_builtins(each) for each in outcome.interrupts] if isinstance(outcome, InterruptOutcome) else []


def _asked(interrupt: Interrupt | NewInterrupt) -> AskedInterrupt:
    assert interrupt.id is not None
    return AskedInterrupt(
        id=interrupt.id,
        reason=_reason(interrupt.kind),
        message=UNSET if interrupt.message is None else interrupt.message,
        tool_call_id=UNSET if interrupt.tool_call_id is None else interrupt.tool_call_id,
        response_schema=UNSET if interrupt.response_schema is None else interrupt.response_schema,
        expires_at=UNSET if interrupt.expires_at is None else interrupt.expires_at,
        metadata=_shown(interrupt),
    )


def _shown(interrupt: Interrupt | NewInterrupt) -> dict[str, Json] | UnsetType:
    """Return what a person must see to approve something, and what the answer names."""
    if interrupt.kind is not InterruptKind.APPROVAL:
        return UNSET
    return {**interrupt.metadata, "arguments": interrupt.arguments, "digest": interrupt.digest}


def _reason(kind: InterruptKind) -> str:
    """Return what the protocol calls the reason."""
    return "input_required" if kind is InterruptKind.INPUT else "tool_call"


def _usage(work: Work) -> list[TokenUsage]:
    usage = work.usage
    return [
        TokenUsage(
            model=UNSET if work.run.model is None else work.run.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            cached_input_tokens=usage.cached_input_tokens,
        )
    ]
