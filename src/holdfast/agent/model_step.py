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

    def __init__(self, work: RunContext, telling: ContextBuilder) -> None:
        self._work = work
        self._telling = telling
        self._cut_off = work.ledger.unsettled_model_call()
        """The call that a lost worker had begun: it is the next one to be made, and not settled before."""

    def void_what_was_cut_off(self) -> None:
        """Void what a lost worker had streamed of its model call."""
        if self._cut_off is not None:
            self._void(self._cut_off)

    async def think(self) -> bool:
        """Call the model once; return whether the worker has let go of the run."""
        self._check_limits()
        for compact in (False, True):
            again = self._cut_off is not None
            step = await self._begin()  # first of all: a summary is paid for from the same budget
            given, assembled = await self._telling.tell(compact=compact)
            if again:
                await self._pay(assembled.total)
            self._work.count_call()
            self._work.log.draft.contexts.append(self._telling.snapshot(given, assembled, step=step.number))
            answer = ResponseAccumulator(self._work.log, _message_id(step), name_call=_CallIds(self._work, step))
            try:
                return await self._answered(await self._telling.request(given, assembled), assembled, step, answer)
            except ContextOverflow as error:
                self._abandon(step)
                if compact:
                    raise self._failed(error) from error
            except ModelUnavailable as error:
                self._abandon(step, usage=self._estimate(assembled.total, answer.streamed()))
                await self._try_later(error)
                return True
            except ModelRefused as error:
                self._abandon(step, usage=self._estimate(assembled.total, answer.streamed()))
                raise self._failed(error) from error
        raise AssertionError("the second try returns or raises")

    def _check_limits(self) -> None:
        try:
            check_iterations(self._work.run.limits, self._work.iterations)
        except LimitExceeded as error:
            raise self._failed(error) from error
        if self._work.iterations < STOP_AFTER_REPEATS:
            return  # nothing can have been called so often yet
        row = find_repetition(self._work.conversation.messages, run_id=self._work.run.id)
        if row.verdict == "stop":
            message = f"the model called `{row.tool}` {row.count} times in a row with the same arguments"
            raise RunFailed(RunError(code="LOOP_DETECTED", message=message, iteration=self._work.iterations))

    async def _begin(self) -> Step:
        """Record that a call begins; where there is a budget, it must be seen to have something left."""
        self._tell_budget()
        work = self._work
        step = work.log.step(self._next_step())
        if work.lease.budget_keys:
            try:
                await work.log.commit()
            except BudgetExceeded as error:
                work.log.take_back(step)
                raise self._failed(error) from error
        return step

    def _next_step(self) -> Step:
        ledger, cut_off = self._work.ledger, self._cut_off
        self._cut_off = None
        return ledger.model_call(self._work.model.name) if cut_off is None else ledger.again(cut_off)

    def _tell_budget(self) -> None:
        spent, limits = self._work.log.spent, self._work.run.limits
        if spent is None:
            return
        self._work.log.spent = None
        self._work.log.tell(
            BudgetSpent(
                tokens=spent.total_tokens,
                cost_usd=UNSET if spent.cost_usd is None else spent.cost_usd,
                token_budget=UNSET if limits.token_budget is None else limits.token_budget,
                cost_budget_usd=UNSET if limits.cost_budget_usd is None else limits.cost_budget_usd,
            )
        )

    async def _answered(
        self, request: ModelRequest, assembled: AssembledContext, step: Step, answer: ResponseAccumulator
    ) -> bool:
        work = self._work
        finished = await stream_response(work.model, request, answer, work.log, work.habits.pace)
        message, _ = answer.message()
        work.log.draft.messages.append(message)
        usage = work.counted(finished.usage, told=assembled.total, said=answer.streamed)
        work.charge(usage)
        work.log.step(work.ledger.settle(step, StepState.DONE, usage=usage))
        if message.tool_calls:
            await work.commit()
            return False
        return await self._complete(message)

    async def _complete(self, message: NewMessage) -> bool:
        """End the run with what was said, unless something came in that the model has to hear first."""
        while True:
            try:
                await complete(self._work, message.content)
            except InboxNotEmpty:
                await self._work.read_mail()
                update_child_interrupts(self._work, ())  # what those ask whom nobody waits for is no news to the model
                if not self._work.mail.empty:
                    await self._work.commit()
                    return False
            else:
                return True

    async def _pay(self, tokens: int) -> None:
        """Charge for a call that a lost worker had begun: about what this one is told, and no answer."""
        self._work.charge(self._work.estimate(tokens, 0))
        await self._work.log.commit()

    def _estimate(self, tokens: int, streamed: str) -> Usage | None:
        """Return what a call used that broke off: nothing if nothing came, for then it was not served."""
        return self._work.estimate(tokens, self._work.tokens.count(streamed)) if streamed else None

    def _abandon(self, step: Step, *, usage: Usage | None = None) -> None:
        """Settle a call that came to nothing, charge it, and void what it had said."""
        self._void(step)
        if usage is not None:
            self._work.charge(usage)
        self._work.log.step(self._work.ledger.settle(step, StepState.FAILED, usage=usage))

    def _void(self, step: Step) -> None:
        """Close what a call had said, and say that it is void."""
        log = self._work.log
        log.close()
        through = log.last_event_seq + len(log.draft.events)
        log.tell(MessagesAbandoned(message_ids=[_message_id(step)], through=through))

    async def _try_later(self, error: ModelUnavailable) -> None:
        patience, failures = self._work.habits.patience, self._work.ledger.failures_in_a_row()
        if failures >= patience.tries:
            raise self._failed(error) from error
        pause = patience.pause(failures, error.details.get("retry_after"))
        at = instant(Millis(self._work.clock.now() + round(pause * 1000)))
        await requeue(self._work, f"{error.code}: {error.message}", at=at)

    def _failed(self, error: HoldfastError) -> RunFailed:
        return RunFailed(
            RunError(
                code=error.code, message=error.message, iteration=self._work.iterations, details=dict(error.details)
            )
        )


class _CallIds:
    """Gives calls their ids: the provider's, unless it was used before or is no id."""

    def __init__(self, work: RunContext, step: Step) -> None:
        self._work = work
        self._step = step

    def __call__(self, said: ToolCallId, index: int) -> ToolCallId:
        # One that was logged and not said is of a call that was lost: the log would name it differently.
        used = self._work.conversation.has_call(said) or self._work.log.stream.has_call(said)
        if _is_valid_id(said) and not used:
            return said
        return ToolCallId(derived_id("call", key=f"{self._step.key}.{self._step.attempt}", index=index))


def _is_valid_id(name: str) -> bool:
    try:
        return bool(check_client_id(name, field="id"))
    except HoldfastError:
        return False


def _message_id(step: Step) -> MessageId:
    return MessageId(derived_id("msg", key=f"{step.key}.{step.attempt}"))
