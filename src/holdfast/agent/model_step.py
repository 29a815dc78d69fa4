"""`ModelStep`: one model call of a run, from building the context to the committed response.

A call that the provider did not serve is requeued and may be retried by another worker. A call lost in a crash is made
again under a new message id, and the log says which messages are void.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import UNSET

from holdfast.agent.context.assembly import AssembledContext
from holdfast.agent.context.builder import ContextBuilder
from holdfast.agent.context.loop_detection import STOP_AFTER_REPEATS, find_repetition
from holdfast.agent.context.snapshot import take_snapshot
from holdfast.agent.endings import complete, requeue
from holdfast.agent.inbox import update_child_interrupts
from holdfast.agent.model_stream import ResponseAccumulator, stream_response
from holdfast.agent.run_context import RunContext, RunFailureSignal
from holdfast.agent.skill_contracts import conclude_contracts, must_go_on, reopen_contracts
from holdfast.agent.structured_output import (
    MAX_OUTPUT_TRIES,
    OUTPUT_INVALID,
    check_output,
    output_schema,
    rejected_answers,
)
from holdfast.concurrency import start_background
from holdfast.domain.content import Json
from holdfast.domain.errors import (
    BudgetExceeded,
    ContextOverflow,
    HoldfastError,
    InboxNotEmpty,
    LeaseLost,
    LimitExceeded,
    ModelRefused,
    ModelUnavailable,
)
from holdfast.domain.events.custom import BudgetSpent, MessagesAbandoned, RetryScheduled
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MessageId, ToolCallId, check_client_id
from holdfast.domain.instant import Millis, instant
from holdfast.domain.limits import check_iterations
from holdfast.domain.message import NewMessage
from holdfast.domain.run import RunError
from holdfast.domain.step import Step, StepState
from holdfast.ports.model import ModelRequest

_log: Final = logging.getLogger("holdfast.agent")

MAX_ABANDONED_CALLS: Final = 10
"""Model calls in a row that workers start and do not finish: a worker that is told to stop uses up no attempt."""


class ModelStep:
    """Makes the model calls of one run."""

    def __init__(self, ctx: RunContext, builder: ContextBuilder) -> None:
        self._ctx = ctx
        self._builder = builder
        self._lost_step = ctx.ledger.unsettled_model_call()
        """The call that a lost worker had started: the next call restarts it."""

    def void_lost_call(self) -> None:
        """Void the messages that a lost worker had streamed of its model call."""
        if self._lost_step is not None:
            self._void(self._lost_step)

    async def run(self) -> bool:
        """Call the model once; return whether the run has ended or was requeued."""
        ctx = self._ctx
        self._check_limits()
        await self._check_rejected_answers()
        for compact in (False, True):
            restarted = self._lost_step is not None
            step = await self._start_step()  # before compaction, whose model call is paid from the same budget
            context_input, context = await self._builder.build(compact=compact)
            if restarted:  # charge the lost call: about the same prompt, and no response
                ctx.add_usage(ctx.estimate_usage(context.total_tokens, 0))
                await ctx.writer.commit()
            snapshot = take_snapshot(context, context_input, step=step.number, model=ctx.model.name)
            ctx.writer.draft.contexts.append(snapshot)
            response = ResponseAccumulator(
                ctx.writer, _message_id(step), assign_call_id=partial(self._assign_call_id, step)
            )
            try:
                request = await self._builder.build_request(context_input, context)
                return await self._stream_and_settle(request, context, step, response)
            except ContextOverflow as error:
                self._abandon(step)
                if compact:
                    raise self._run_failed(error) from error
            except ModelUnavailable as error:
                self._abandon(step, context, response)
                await self._requeue_or_fail(error)
                return True
            except ModelRefused as error:
                self._abandon(step, context, response)
                raise self._run_failed(error) from error
        raise AssertionError("the second attempt returns or raises")

    def _check_limits(self) -> None:
        try:
            check_iterations(self._ctx.run.limits, self._ctx.iterations)
        except LimitExceeded as error:
            raise self._run_failed(error) from error
        self._check_abandoned_calls()
        if self._ctx.iterations < STOP_AFTER_REPEATS:
            return
        repetition = find_repetition(self._ctx.conversation.messages, run_id=self._ctx.run.id)
        if repetition.count >= STOP_AFTER_REPEATS:
            message = f"the model called `{repetition.tool}` {repetition.count} times in a row with the same arguments"
            raise RunFailureSignal(RunError(code="LOOP_DETECTED", message=message, iteration=self._ctx.iterations))

    def _check_abandoned_calls(self) -> None:
        lost = self._lost_step
        if lost is None or (abandoned := self._ctx.ledger.abandoned_calls()) < MAX_ABANDONED_CALLS:
            return
        self._ctx.writer.record_step(self._ctx.ledger.settle(lost, StepState.FAILED))
        message = f"{abandoned} model calls in a row were abandoned, because their worker stopped before the response"
        raise RunFailureSignal(RunError(code="ATTEMPTS_EXHAUSTED", message=message, iteration=self._ctx.iterations))

    async def _check_rejected_answers(self) -> None:
        ctx, schema = self._ctx, output_schema(self._ctx.run, self._ctx.agent)
        if schema is None:
            return
        rejected = rejected_answers(ctx.conversation.messages, ctx.run.id)
        if len(rejected) >= MAX_OUTPUT_TRIES:
            problems = list((await check_output(rejected[0].content, schema)).problems)
            message = f"{len(rejected)} answers in a row did not match the output schema: {'; '.join(problems)}"
            details: dict[str, Json] = {"problems": problems}
            raise RunFailureSignal(
                RunError(code=OUTPUT_INVALID, message=message, iteration=ctx.iterations, details=details)
            )

    async def _start_step(self) -> Step:
        """Record that a model call starts; a run with a budget commits first, which checks that some of it is left."""
        ctx, spent, limits = self._ctx, self._ctx.writer.spent, self._ctx.run.limits
        if spent is not None:
            ctx.writer.spent = None
            ctx.writer.emit_custom(
                BudgetSpent(
                    tokens=spent.total_tokens,
                    cost_usd=UNSET if spent.cost_usd is None else spent.cost_usd,
                    token_budget=UNSET if limits.token_budget is None else limits.token_budget,
                    cost_budget_usd=UNSET if limits.cost_budget_usd is None else limits.cost_budget_usd,
                )
            )
        lost, self._lost_step = self._lost_step, None
        step = ctx.ledger.start_model_call(ctx.model.name) if lost is None else ctx.ledger.restart(lost)
        ctx.writer.record_step(step)
        if ctx.lease.budget_keys:
            try:
                await ctx.writer.commit()
            except BudgetExceeded as error:
                ctx.writer.discard_step(step)
                raise self._run_failed(error) from error
        return step

    async def _stream_and_settle(
        self, request: ModelRequest, context: AssembledContext, step: Step, response: ResponseAccumulator
    ) -> bool:
        ctx = self._ctx
        try:
            finished = await stream_response(ctx.model, request, response, ctx.writer, ctx.config.stream_timings)
        except (asyncio.CancelledError, LeaseLost):
            await self._charge_cut_off(context.total_tokens, response.streamed_text())
            raise
        message, _ = response.build_message()
        ctx.writer.draft.messages.append(message)
        ctx.count_iteration()
        usage = ctx.usage_or_estimate(
            finished.usage, prompt_tokens=context.total_tokens, response_text=response.streamed_text
        )
        ctx.add_usage(usage)
        settled = ctx.ledger.settle(
            step,
            StepState.DONE,
            usage=usage,
            name=finished.model,
            lane=finished.lane,
            first_token_at=response.first_token_at,
        )
        ctx.writer.record_step(settled)
        if message.tool_calls:
            await ctx.commit()
            return False
        return await self._complete(message)

    async def _charge_cut_off(self, prompt_tokens: int, streamed: str) -> None:
        """Charge a call whose run was ended from outside. A run that goes on charges the call when it repeats it."""
        if not streamed:
            return
        usage = self._ctx.estimate_usage(prompt_tokens, self._ctx.tokens.count(streamed))
        charging = start_background(
            self._ctx.journal.charge_ended(self._ctx.lease, usage),
            name="holdfast-charge",
            ended_by="ModelStep._charge_cut_off",
        )
        with suppress(HoldfastError):
            try:
                await asyncio.shield(charging)
            except asyncio.CancelledError:  # the run is released after this, and then it is too late
                await charging
                raise

    async def _complete(self, message: NewMessage) -> bool:
        """Complete the run with the model's response, unless the inbox has an item that the model must see first.

        A response that does not match the output schema of the run, or leaves the contract of a skill broken, enters
        the conversation, and the run goes on.
        """
        output: Json = message.content
        if (schema := output_schema(self._ctx.run, self._ctx.agent)) is not None:
            checked = await check_output(message.content, schema)
            if checked.problems:
                await self._ctx.commit()
                return False
            output = checked.value
        if must_go_on(self._ctx):
            await self._ctx.commit()
            return False
        while True:
            conclude_contracts(self._ctx)
            try:
                await complete(self._ctx, output)
                return True
            except InboxNotEmpty:
                await self._ctx.read_inbox()
            except BudgetExceeded as error:  # the budget is strict: the response is kept, and the run fails
                raise self._run_failed(error) from error
            reopen_contracts(self._ctx)
            update_child_interrupts(self._ctx, ())  # interrupts of children that no call waits for need no model call
            if not self._ctx.inbox.empty:
                await self._ctx.commit()
                return False

    def _abandon(
        self, step: Step, context: AssembledContext | None = None, response: ResponseAccumulator | None = None
    ) -> None:
        """Settle a failed call, void its messages, and charge it unless nothing was streamed."""
        self._void(step)
        usage, streamed = None, "" if response is None else response.streamed_text()
        if streamed and context is not None:
            usage = self._ctx.estimate_usage(context.total_tokens, self._ctx.tokens.count(streamed))
            self._ctx.add_usage(usage)
        first_token_at = None if response is None else response.first_token_at
        self._ctx.writer.record_step(
            self._ctx.ledger.settle(step, StepState.FAILED, usage=usage, first_token_at=first_token_at)
        )

    def _void(self, step: Step) -> None:
        writer = self._ctx.writer
        writer.close_open_messages()
        through = writer.last_event_seq + len(writer.draft.events)
        writer.emit_custom(MessagesAbandoned(message_ids=[_message_id(step)], through=through))

    async def _requeue_or_fail(self, error: ModelUnavailable) -> None:
        ctx, policy, failures = self._ctx, self._ctx.config.retry_policy, self._ctx.ledger.consecutive_failures()
        delay = policy.delay_seconds(failures, error.details.get("retry_after"))
        last = failures >= policy.max_attempts
        _log.warning(
            "run %s: model call failed, %d of %d in a row%s: %s%s",
            ctx.run.id,
            failures,
            policy.max_attempts,
            "" if last else f", next in {delay:g} s",
            error,
            f" ({ctx.model.address})" if ctx.model.address else "",
        )
        if last:
            raise self._run_failed(error) from error
        at = instant(Millis(ctx.clock.now() + round(delay * 1000)))
        ctx.writer.emit_custom(
            RetryScheduled(message=error.message, failures=failures, max_failures=policy.max_attempts, retry_at=at)
        )
        await requeue(ctx, f"{error.code}: {error.message}", at=at)

    def _run_failed(self, error: HoldfastError) -> RunFailureSignal:
        return RunFailureSignal(
            RunError(
                code=error.code, message=error.message, iteration=self._ctx.iterations, details=dict(error.details)
            )
        )

    def _assign_call_id(self, step: Step, proposed: ToolCallId, index: int) -> ToolCallId:
        """Return the provider's id of a tool call, or a derived one if it is not valid or already used."""
        # An id that is only in the stream belongs to a lost call: its derived id would differ in the log.
        used = self._ctx.conversation.has_call(proposed) or self._ctx.writer.stream.has_call(proposed)
        with suppress(HoldfastError):
            check_client_id(proposed, field="id")
            if not used:
                return proposed
        return ToolCallId(derived_id("call", key=f"{step.key}.{step.attempt}", index=index))


def _message_id(step: Step) -> MessageId:
    return MessageId(derived_id("msg", key=f"{step.key}.{step.attempt}"))
