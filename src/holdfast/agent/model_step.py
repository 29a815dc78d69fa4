"""`ModelStep`: one model call of a run, from building the context to the committed answer.

A call that the provider did not serve is requeued and may be retried by another worker. A call lost in a crash is made
again under a new message id, and the log says which messages are void.
"""

from msgspec import UNSET

from holdfast.agent.context.assembly import AssembledContext
from holdfast.agent.context.builder import ContextBuilder
from holdfast.agent.context.loop_detection import STOP_AFTER_REPEATS, find_repetition
from holdfast.agent.endings import complete, requeue
from holdfast.agent.inbox import update_child_interrupts
from holdfast.agent.model_stream import ResponseAccumulator, stream_response
from holdfast.agent.run_context import RunContext, RunFailed
from holdfast.domain.errors import (
    BudgetExceeded,
    ContextOverflow,
    HoldfastError,
    InboxNotEmpty,
    LimitExceeded,
    ModelRefused,
    ModelUnavailable,
)
from holdfast.domain.events.custom import BudgetSpent, MessagesAbandoned
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MessageId, ToolCallId, check_client_id
from holdfast.domain.instant import Millis, instant
from holdfast.domain.limits import Usage, check_iterations
from holdfast.domain.message import NewMessage
from holdfast.domain.run import RunError
from holdfast.domain.step import Step, StepState
from holdfast.ports.model import ModelRequest


class ModelStep:
    """Makes the model calls of one run."""

    def __init__(self, ctx: RunContext, builder: ContextBuilder) -> None:
        self._ctx = ctx
        self._builder = builder
        self._lost_step = ctx.ledger.unsettled_model_call()
        """The call that a lost worker had begun: it is the next one to be made, and not settled before."""

    def void_lost_call(self) -> None:
        """Void what a lost worker had streamed of its model call."""
        if self._lost_step is not None:
            self._void(self._lost_step)

    async def run(self) -> bool:
        """Call the model once; return whether the worker has let go of the run."""
        self._check_limits()
        for compact in (False, True):
            again = self._lost_step is not None
            step = await self._start_step()  # first of all: a summary is paid for from the same budget
            given, assembled = await self._builder.build(compact=compact)
            if again:
                await self._charge_lost_call(assembled.total_tokens)
            self._ctx.count_model_call()
            self._ctx.writer.draft.contexts.append(self._builder.take_snapshot(given, assembled, step=step.number))
            answer = ResponseAccumulator(self._ctx.writer, _message_id(step), assign_call_id=_CallIds(self._ctx, step))
            try:
                return await self._stream_and_settle(
                    await self._builder.build_request(given, assembled), assembled, step, answer
                )
            except ContextOverflow as error:
                self._abandon(step)
                if compact:
                    raise self._run_failed(error) from error
            except ModelUnavailable as error:
                self._abandon(step, usage=self._partial_usage(assembled.total_tokens, answer.streamed_text()))
                await self._requeue_or_fail(error)
                return True
            except ModelRefused as error:
                self._abandon(step, usage=self._partial_usage(assembled.total_tokens, answer.streamed_text()))
                raise self._run_failed(error) from error
        raise AssertionError("the second try returns or raises")

    def _check_limits(self) -> None:
        try:
            check_iterations(self._ctx.run.limits, self._ctx.iterations)
        except LimitExceeded as error:
            raise self._run_failed(error) from error
        if self._ctx.iterations < STOP_AFTER_REPEATS:
            return  # nothing can have been called so often yet
        row = find_repetition(self._ctx.conversation.messages, run_id=self._ctx.run.id)
        if row.action == "stop":
            message = f"the model called `{row.tool}` {row.count} times in a row with the same arguments"
            raise RunFailed(RunError(code="LOOP_DETECTED", message=message, iteration=self._ctx.iterations))

    async def _start_step(self) -> Step:
        """Record that a call begins; where there is a budget, it must be seen to have something left."""
        self._emit_budget()
        work = self._ctx
        step = work.writer.record_step(self._next_step())
        if work.lease.budget_keys:
            try:
                await work.writer.commit()
            except BudgetExceeded as error:
                work.writer.discard_step(step)
                raise self._run_failed(error) from error
        return step

    def _next_step(self) -> Step:
        ledger, cut_off = self._ctx.ledger, self._lost_step
        self._lost_step = None
        return ledger.start_model_call(self._ctx.model.name) if cut_off is None else ledger.restart(cut_off)

    def _emit_budget(self) -> None:
        spent, limits = self._ctx.writer.spent, self._ctx.run.limits
        if spent is None:
            return
        self._ctx.writer.spent = None
        self._ctx.writer.emit_custom(
            BudgetSpent(
                tokens=spent.total_tokens,
                cost_usd=UNSET if spent.cost_usd is None else spent.cost_usd,
                token_budget=UNSET if limits.token_budget is None else limits.token_budget,
                cost_budget_usd=UNSET if limits.cost_budget_usd is None else limits.cost_budget_usd,
            )
        )

    async def _stream_and_settle(
        self, request: ModelRequest, assembled: AssembledContext, step: Step, response: ResponseAccumulator
    ) -> bool:
        work = self._ctx
        finished = await stream_response(work.model, request, response, work.writer, work.config.commit_interval)
        message, _ = response.build_message()
        work.writer.draft.messages.append(message)
        usage = work.usage_or_estimate(
            finished.usage, prompt_tokens=assembled.total_tokens, response_text=response.streamed_text
        )
        work.add_usage(usage)
        work.writer.record_step(work.ledger.settle(step, StepState.DONE, usage=usage))
        if message.tool_calls:
            await work.commit()
            return False
        return await self._complete(message)

    async def _complete(self, message: NewMessage) -> bool:
        """End the run with what was said, unless something came in that the model has to hear first."""
        while True:
            try:
                await complete(self._ctx, message.content)
            except InboxNotEmpty:
                await self._ctx.read_inbox()
                update_child_interrupts(self._ctx, ())  # what those ask whom nobody waits for is no news to the model
                if not self._ctx.inbox.empty:
                    await self._ctx.commit()
                    return False
            else:
                return True

    async def _charge_lost_call(self, tokens: int) -> None:
        """Charge for a call that a lost worker had begun: about what this one is told, and no answer."""
        self._ctx.add_usage(self._ctx.estimate_usage(tokens, 0))
        await self._ctx.writer.commit()

    def _partial_usage(self, tokens: int, streamed: str) -> Usage | None:
        """Return what a call used that broke off: nothing if nothing came, for then it was not served."""
        return self._ctx.estimate_usage(tokens, self._ctx.tokens.count(streamed)) if streamed else None

    def _abandon(self, step: Step, *, usage: Usage | None = None) -> None:
        """Settle a call that came to nothing, charge it, and void what it had said."""
        self._void(step)
        if usage is not None:
            self._ctx.add_usage(usage)
        self._ctx.writer.record_step(self._ctx.ledger.settle(step, StepState.FAILED, usage=usage))

    def _void(self, step: Step) -> None:
        """Close what a call had said, and say that it is void."""
        log = self._ctx.writer
        log.close_open_messages()
        through = log.last_event_seq + len(log.draft.events)
        log.emit_custom(MessagesAbandoned(message_ids=[_message_id(step)], through=through))

    async def _requeue_or_fail(self, error: ModelUnavailable) -> None:
        patience, failures = self._ctx.config.retry_policy, self._ctx.ledger.consecutive_failures()
        if failures >= patience.max_attempts:
            raise self._run_failed(error) from error
        pause = patience.delay_seconds(failures, error.details.get("retry_after"))
        at = instant(Millis(self._ctx.clock.now() + round(pause * 1000)))
        await requeue(self._ctx, f"{error.code}: {error.message}", at=at)

    def _run_failed(self, error: HoldfastError) -> RunFailed:
        return RunFailed(
            RunError(
                code=error.code, message=error.message, iteration=self._ctx.iterations, details=dict(error.details)
            )
        )


class _CallIds:
    """Gives calls their ids: the provider's, unless it was used before or is no id."""

    def __init__(self, ctx: RunContext, step: Step) -> None:
        self._ctx = ctx
        self._step = step

    def __call__(self, proposed: ToolCallId, index: int) -> ToolCallId:
        # One that was logged and not said is of a call that was lost: the log would name it differently.
        used = self._ctx.conversation.has_call(proposed) or self._ctx.writer.stream.has_call(proposed)
        if _is_valid_id(proposed) and not used:
            return proposed
        return ToolCallId(derived_id("call", key=f"{self._step.key}.{self._step.attempt}", index=index))


def _is_valid_id(name: str) -> bool:
    try:
        return bool(check_client_id(name, field="id"))
    except HoldfastError:
        return False


def _message_id(step: Step) -> MessageId:
    return MessageId(derived_id("msg", key=f"{step.key}.{step.attempt}"))
