"""How the calls of an assistant message are run and settled, once it is decided that they may.

    all of them read-only ──► side by side, settled in the order in which they were asked for
    otherwise             ──► one after the other; calls that wait begin together, and nothing after them begins

A call that was cut off is run again where that can do no harm. Where nobody knows whether it happened, the agent's
policy says what to do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.agent.ending import arrived as arrival_for
from holdfast.agent.ending import ask, wait, withdraw
from holdfast.agent.meanwhile import committing
from holdfast.agent.permitting import FREELY, Permitting, forget, is_guarded
from holdfast.agent.settling import end_subagent, settle, start_subagent, take_effects
from holdfast.agent.taking_in import hold
from holdfast.agent.tasks import Tasks
from holdfast.agent.unknown import question_key, settle_as_told, settle_unknown
from holdfast.agent.work import Work
from holdfast.domain.errors import HoldfastError, InboxNotEmpty, LeaseLost, NotFound, Unavailable
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, RunId, TimerId
from holdfast.domain.instant import instant
from holdfast.domain.message import Message, ToolCall
from holdfast.domain.plan import boundary
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Step, StepState
from holdfast.domain.timer import NewTimer
from holdfast.domain.tool import ToolClass
from holdfast.tools.content import as_text
from holdfast.tools.tool import (
    Answered,
    Arrival,
    Asked,
    Call,
    ChildEnded,
    Disturbed,
    Outcome,
    Resumable,
    Slept,
    Spawned,
    Tool,
    Wait,
)

_log: Final = logging.getLogger("holdfast.agent")


class Acting:
    """Runs the open calls of one assistant message."""

    def __init__(self, work: Work, message: Message) -> None:
        self._work = work
        self._message = message
        self._permitted = FREELY
        self._places = {call.id: index for index, call in enumerate(message.tool_calls)}

    async def act(self, calls: Sequence[ToolCall]) -> bool:
        """Run and settle `calls`; return whether the run waits for some of them now."""
        if is_guarded(self._work, calls):
            permitted = await Permitting(self._work, self._message).permit(calls)
            if permitted is None:
                return True
            calls, self._permitted = permitted.calls, permitted
        if self._side_by_side(calls):
            await self._run_side_by_side(calls)
            forget(self._work)
            await self._work.commit()
            return False
        waiting = await self._run_in_order(calls)
        while waiting:
            try:
                await self._wait(waiting)
            except InboxNotEmpty:
                await self._work.read_mail()
                waiting = await self._take_arrivals(waiting)
                if waiting:
                    hold(self._work)
            else:
                return True
        forget(self._work)
        await self._work.commit()
        return False

    def _side_by_side(self, calls: Sequence[ToolCall]) -> bool:
        tools = [self._tool(call) for call in calls]
        return len(calls) > 1 and all(tool is not None and tool.spec.read_only for tool in tools)

    async def _run_side_by_side(self, calls: Sequence[ToolCall]) -> None:
        steps = [self._begin(call) for call in calls]
        async with committing(self._work.log, window=self._work.habits.pace.window), Tasks() as group:
            running = [group.create_task(self._run(call, step)) for call, step in zip(calls, steps, strict=True)]
            for call, step, task in zip(calls, steps, running, strict=True):
                settle(self._work, call, step, await task)

    async def _run_in_order(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Step]]:
        """Run calls one after the other, and return those that wait."""
        waiting = await self._take_arrivals([(call, step) for call in calls if (step := self._waiting_step(call))])
        for call in calls:
            step = self._work.ledger.of_call(call.id)
            if step is not None and (step.state.settled or step.state is StepState.WAITING):
                continue
            if waiting and not isinstance(self._tool(call), Resumable):
                break
            suspended = await self._run_one(call, step)
            if suspended is not None:
                waiting.append((call, suspended))
        return waiting

    def _waiting_step(self, call: ToolCall) -> Step | None:
        """Return the step of a call that waits, or whose outcome a person is asked about."""
        step = self._work.ledger.of_call(call.id)
        return step if step is not None and step.state in (StepState.WAITING, StepState.UNKNOWN) else None

    async def _take_arrivals(self, waiting: Sequence[tuple[ToolCall, Step]]) -> list[tuple[ToolCall, Step]]:
        """Settle the calls that something came for, and return those that still wait."""
        still = []
        for call, step in waiting:
            resumed = await self._resume(call, step)
            if resumed is not None:
                still.append((call, resumed))
        return still

    async def _resume(self, call: ToolCall, step: Step) -> Step | None:
        """Settle a call that waits if something came for it; return its step if it still waits."""
        unknown = step.state is StepState.UNKNOWN
        arrived = arrival_for(self._work, question_key(step) if unknown else step.key)
        if arrived is None:
            if not self._work.mail.disturbs:
                return step
            self._disturb(step, unknown=unknown)
            arrived = Disturbed()
        if not unknown:
            settle(self._work, call, step, await self._outcome_of_wait(call, step, arrived))
            return None
        answered = arrived if isinstance(arrived, Answered) else Answered(response=None)
        if not settle_as_told(self._work, call, step, answered):
            return None
        again = self._work.ledger.tool_call(call.name, call.id, effectful=True, key=step.key)
        return await self._run_effectful(call, self._work.log.step(again))

    def _disturb(self, step: Step, *, unknown: bool) -> None:
        """Let go of what a call waits for."""
        key = question_key(step) if unknown else step.key
        if unknown or step.waits_for is WaitsFor.PERSON:
            withdraw(self._work, InterruptId(derived_id("int", key=key)))
        elif step.waits_for is WaitsFor.TIMER:
            self._work.log.draft.cancelled_timers.append(TimerId(derived_id("tmr", key=key)))

    async def _outcome_of_wait(self, call: ToolCall, step: Step, arrival: Arrival) -> Outcome:
        if isinstance(arrival, ChildEnded):
            end_subagent(self._work, call, arrival)
        tool = self._tool(call)
        if not isinstance(tool, Resumable):
            return Outcome(content=f"the tool `{call.name}` is not there any more", failed=True)
        return await self._guarded(call, tool.resume(self._call(call, step), call.arguments, arrival))

    async def _run_one(self, call: ToolCall, step: Step | None) -> Step | None:
        """Run a call that has not settled, and return its step if it waits now."""
        if step is not None and step.effectful:
            question = settle_unknown(self._work, call, step)
            if question is None:
                return None
            ask(self._work, question)
            return self._work.ledger.of_call(call.id)
        begun = self._begin(call)
        if begun.effectful:
            return await self._run_effectful(call, begun)
        tool = self._tool(call)
        if tool is not None and tool.spec.kind is ToolClass.TRANSACTIONAL:
            return self._conclude(call, begun, await self._run(call, begun))
        async with committing(self._work.log, window=self._work.habits.pace.window):
            outcome = await self._run(call, begun)
        return self._conclude(call, begun, outcome)

    async def _run_effectful(self, call: ToolCall, step: Step) -> Step | None:
        """Run a call whose start must be on disk before it begins."""
        await self._work.commit()
        async with committing(self._work.log, window=self._work.habits.pace.window):
            outcome = await self._run(call, step)
        return self._conclude(call, step, outcome)

    def _conclude(self, call: ToolCall, step: Step, outcome: Outcome) -> Step | None:
        """Settle a call, or let it wait; return its step if it waits."""
        if outcome.wait is None:
            settle(self._work, call, step, outcome)
            return None
        take_effects(self._work, outcome)
        return self._work.log.step(self._work.ledger.wait(step, self._begin_wait(call, outcome.wait)))

    def _begin_wait(self, call: ToolCall, wait: Wait) -> WaitsFor:
        match wait:
            case Asked(interrupt=interrupt):
                ask(self._work, interrupt)
                return WaitsFor.PERSON
            case Spawned(run_id=run_id):
                start_subagent(self._work, call, run_id)
                return WaitsFor.CHILD
            case Slept(timer_id=timer_id, until=until):
                self._work.log.draft.timers.append(NewTimer(id=timer_id, kind="wake", due_at=until))
                return WaitsFor.TIMER

    async def _wait(self, waiting: Sequence[tuple[ToolCall, Step]]) -> None:
        reasons = {step.waits_for or WaitsFor.PERSON for _, step in waiting}
        reason = next(each for each in WaitsFor if each in reasons)
        children = [RunId(derived_id("run", key=step.key)) for _, step in waiting if step.waits_for is WaitsFor.CHILD]
        await wait(self._work, reason, waits_on=children)

    def _begin(self, call: ToolCall) -> Step:
        """Record that a call begins, or begins again."""
        step = self._work.ledger.of_call(call.id)
        if step is not None:
            return self._work.log.step(self._work.ledger.again(step))
        tool = self._tool(call)
        effectful = (
            tool is not None and tool.spec.kind is ToolClass.EFFECTFUL and call.id not in self._permitted.refused
        )
        return self._work.log.step(self._work.ledger.tool_call(call.name, call.id, effectful=effectful))

    async def _run(self, call: ToolCall, step: Step) -> Outcome:
        if call.id in self._permitted.refused:
            return Outcome(content=self._permitted.refused[call.id], failed=True)
        unreadable = self._message.metadata.get("unreadable", {}).get(call.id)
        if unreadable is not None:
            return Outcome(content=unreadable, failed=True)
        try:
            tool = self._work.toolbox.find(call.name)
        except NotFound as error:
            return Outcome(content=error.message, failed=True)
        outcome = await self._guarded(call, tool.run(self._call(call, step), call.arguments))
        edited = self._permitted.edited.get(call.id)
        return outcome if edited is None else replace(outcome, content=f"{edited}\n{as_text(outcome.content)}")

    async def _guarded(self, call: ToolCall, running: Awaitable[Outcome]) -> Outcome:
        """Turn whatever goes wrong in a tool into a result for the model."""
        try:
            return await running
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            return Outcome(content=f"{error.code}: {error.message}", failed=True)
        except asyncio.CancelledError as error:
            if _is_cut_off():
                raise
            return self._broken(call, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a tool that breaks is a result for the model
            return self._broken(call, error)

    def _broken(self, call: ToolCall, error: BaseException) -> Outcome:
        _log.error("tool `%s` of run `%s` broke", call.name, self._work.run.id, exc_info=error)
        return Outcome(content=f"the tool broke: {type(error).__name__}: {error}", failed=True)

    def _call(self, call: ToolCall, step: Step) -> Call:
        message, text = self._message, self._message.content
        assert message.sequence is not None
        return Call(
            id=call.id,
            key=step.key,
            lease=self._work.lease,
            agent=self._work.agent,
            message_id=message.id,
            at=boundary(message.sequence, text=text if isinstance(text, str) else "", call_index=self._places[call.id]),
            now=instant(self._work.clock.now()),
            values=self._work.values,
            next_task_id=partial(self._work.journal.next_task_id, self._work.lease, step=step.key),
            show=self._work.log.say,
        )

    def _tool(self, call: ToolCall) -> Tool | None:
        try:
            return self._work.toolbox.find(call.name)
        except NotFound:
            return None


def _is_cut_off() -> bool:
    """Say whether it is the work on the run that was cancelled, and not a task inside a tool."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
