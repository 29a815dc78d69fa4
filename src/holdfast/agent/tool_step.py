"""`ToolStep` runs and settles the approved tool calls of one assistant message.

    all read-only ──► in parallel, settled in the order of the calls
    otherwise     ──► in order; calls that wait start together, and nothing after them starts

A call that was lost in a crash is run again if that is harmless. If its outcome is unknown, the agent's policy decides.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from holdfast.agent.approvals import UNRESTRICTED, ApprovalGate, clear_decisions, emit_denial, needs_decision
from holdfast.agent.endings import cancel_interrupt, open_interrupt, suspend
from holdfast.agent.endings import take_resume_cause as arrival_for
from holdfast.agent.inbox import hold_messages, update_child_interrupts
from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.agent.run_writer import commit_while
from holdfast.agent.step_ledger import (
    MAX_RUN_WAIT,
    RUN_WAITS,
    awaited_run_id,
    child_run_id,
    interrupt_key,
    step_timer_id,
    wait_key,
)
from holdfast.agent.tool_results import (
    apply_effects,
    emit_subagent_ended,
    emit_subagent_started,
    settle_call,
    settle_from_response,
    settle_unknown_outcome,
    unknown_outcome_key,
)
from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.errors import HoldfastError, InboxNotEmpty, LeaseLost, NotFound, Unavailable, WouldDeadlock
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.interrupt import child_interrupts
from holdfast.domain.message import Message, ToolCall
from holdfast.domain.plan import boundary
from holdfast.domain.run import RunError, RunStatus, WaitsFor
from holdfast.domain.step import Step, StepState
from holdfast.domain.timer import NewTimer
from holdfast.domain.tool import ToolClass
from holdfast.tools.content import as_text
from holdfast.tools.tool import (
    ChildEnded,
    ChildWait,
    InterruptResolved,
    InterruptWait,
    Preempted,
    ResumableTool,
    ResumeCause,
    TaskWait,
    TimerFired,
    TimerWait,
    Tool,
    ToolContext,
    ToolResult,
    ToolWait,
)

T = TypeVar("T")

_log: Final = logging.getLogger("holdfast.agent")


class ToolStep:
    """Runs the open calls of one assistant message."""

    def __init__(self, ctx: RunContext, message: Message) -> None:
        self._ctx = ctx
        self._message = message
        self._approved = UNRESTRICTED
        self._call_indexes = {call.id: index for index, call in enumerate(message.tool_calls)}

    async def run(self, calls: Sequence[ToolCall]) -> bool:
        """Run and settle `calls`; return whether the run waits for some of them now."""
        if needs_decision(self._ctx, calls):
            permitted = await ApprovalGate(self._ctx, self._message).decide(calls)
            if permitted is None:
                return True
            calls, self._approved = permitted.calls, permitted
        together = self._can_run_in_parallel(calls)
        waiting = await (self._run_in_parallel(calls) if together else self._run_in_order(calls))
        while waiting:
            update_child_interrupts(self._ctx, self._ctx.ledger.awaited_children())
            try:
                await self._suspend_run(waiting)
            except InboxNotEmpty:
                await self._ctx.read_inbox()
                waiting = await self._resume_waiting(waiting)
                if waiting:
                    update_child_interrupts(self._ctx, self._ctx.ledger.awaited_children())
                    hold_messages(self._ctx)
            except WouldDeadlock as error:
                waiting = self._settle_deadlocked(waiting, error)
            else:
                return True
        update_child_interrupts(self._ctx, ())
        clear_decisions(self._ctx)
        await self._ctx.commit()
        return False

    def _can_run_in_parallel(self, calls: Sequence[ToolCall]) -> bool:
        tools = [self._find_tool(call) for call in calls]
        only_read = len(calls) > 1 and all(tool is not None and tool.spec.read_only for tool in tools)
        return only_read and not any(self._waiting_step(call) for call in calls)

    async def _run_in_parallel(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Step]]:
        """Run calls at the same time, and return those that wait."""
        steps = [self._start_step(call) for call in calls]
        return await self._commit_while(self._run_tasks(calls, steps))

    async def _run_tasks(self, calls: Sequence[ToolCall], steps: Sequence[Step]) -> list[tuple[ToolCall, Step]]:
        waiting = []
        async with FirstErrorTaskGroup() as group:
            running = [group.create_task(self._run_tool(call, step)) for call, step in zip(calls, steps, strict=True)]
            for call, step, task in zip(calls, steps, running, strict=True):
                suspended = self._settle_or_wait(call, step, await task)
                if suspended is not None:
                    waiting.append((call, suspended))
        return waiting

    async def _run_in_order(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Step]]:
        """Run calls one after the other, and return those that wait."""
        waiting = await self._resume_waiting([(call, step) for call in calls if (step := self._waiting_step(call))])
        for call in calls:
            step = self._ctx.ledger.step_for_call(call.id)
            if step is not None and (step.state.settled or step.state is StepState.WAITING):
                continue
            if waiting and not self._can_start_while_waiting(call):
                break
            suspended = await self._run_one(call, step)
            if suspended is not None:
                waiting.append((call, suspended))
        return waiting

    def _can_start_while_waiting(self, call: ToolCall) -> bool:
        """Say whether a call may begin while others wait: it does nothing yet but wait itself."""
        tool = self._find_tool(call)
        return isinstance(tool, ResumableTool) and tool.spec.kind is ToolClass.TRANSACTIONAL

    def _waiting_step(self, call: ToolCall) -> Step | None:
        """Return the step of a call that waits, or whose outcome a person is asked about."""
        step = self._ctx.ledger.step_for_call(call.id)
        return step if step is not None and step.state in (StepState.WAITING, StepState.UNKNOWN) else None

    async def _resume_waiting(self, waiting: Sequence[tuple[ToolCall, Step]]) -> list[tuple[ToolCall, Step]]:
        """Settle the calls that something came for, and return those that still wait."""
        still = []
        # What wakes a call that sleeps is what no other call has waited for.
        for call, step in sorted(waiting, key=lambda pair: pair[1].waits_for is WaitsFor.TIMER):
            resumed = await self._resume_call(call, step)
            if resumed is not None:
                still.append((call, resumed))
        return still

    async def _resume_call(self, call: ToolCall, step: Step) -> Step | None:
        """Settle a call that waits if something came for it; return its step if it still waits."""
        unknown = step.state is StepState.UNKNOWN
        arrived = arrival_for(self._ctx, unknown_outcome_key(step) if unknown else wait_key(step))
        if arrived is None:
            disturbance = self._preemption(step)
            if disturbance is None:
                return step
            self._cancel_wait(step, unknown=unknown)
            arrived = disturbance
        elif not unknown and step.waits_for in RUN_WAITS:
            arrived = self._run_wait_cause(step, arrived)
        if not unknown:
            return await self._continue_call(call, step, arrived)
        answered = arrived if isinstance(arrived, InterruptResolved) else InterruptResolved(response=None)
        if not settle_from_response(self._ctx, call, step, answered):
            return None
        again = self._ctx.ledger.start_tool_call(call.name, call.id, effectful=True, key=step.key)
        return await self._run_effectful(call, self._ctx.writer.record_step(again))

    async def _continue_call(self, call: ToolCall, step: Step, arrival: ResumeCause) -> Step | None:
        """Let a call go on with what it waited for; return its step if it waits once more."""
        if step.effectful:
            # From here on nobody knows what it does, so that has to be on disk, as when it began.
            return await self._run_effectful(
                call, self._ctx.writer.record_step(self._ctx.ledger.restart(step)), arrival
            )
        outcome = await self._resume_tool(call, step, arrival)
        return self._settle_or_wait(call, step if outcome.wait is None else self._ctx.ledger.restart(step), outcome)

    def _preemption(self, step: Step) -> Preempted | None:
        """Return what came that a call should not wait on for: people disturb every wait, the end of a run wakes up."""
        mail = self._ctx.inbox
        if mail.has_message:
            return Preempted()
        if mail.has_run_end and step.waits_for is WaitsFor.TIMER:
            return Preempted(because="a run has ended of which you are told")
        return None

    def _settle_deadlocked(
        self, waiting: Sequence[tuple[ToolCall, Step]], error: WouldDeadlock
    ) -> list[tuple[ToolCall, Step]]:
        """Settle the calls that cannot wait, because it would be for ever, and return the others."""
        still = []
        for call, step in waiting:
            if awaited_run_id(call, step) != error.details["target"]:
                still.append((call, step))
                continue
            self._ctx.writer.draft.cancelled_timers.append(step_timer_id(step))
            if step.waits_for is WaitsFor.CHILD:
                why = RunError(code=error.code, message=error.message)
                emit_subagent_ended(
                    self._ctx, call, ChildEnded(run_id=child_run_id(step), status=RunStatus.FAILED, error=why)
                )
            settle_call(self._ctx, call, step, ToolResult(content=f"{error.code}: {error.message}", failed=True))
        return still

    def _cancel_wait(self, step: Step, *, unknown: bool) -> None:
        """Let go of what a call waits for."""
        if unknown or step.waits_for is WaitsFor.PERSON:
            key = unknown_outcome_key(step) if unknown else wait_key(step)
            cancel_interrupt(self._ctx, InterruptId(derived_id("int", key=key)))
        else:
            self._ctx.writer.draft.cancelled_timers.append(step_timer_id(step))

    def _run_wait_cause(self, step: Step, arrived: ResumeCause) -> ResumeCause:
        """Return what came for a call that waits for a run: if it is only that it has waited for too long, that."""
        if isinstance(arrived, TimerFired):
            return Preempted(because=f"{MAX_RUN_WAIT.days} days have passed")
        self._ctx.writer.draft.cancelled_timers.append(step_timer_id(step))
        return arrived

    async def _resume_tool(self, call: ToolCall, step: Step, arrival: ResumeCause) -> ToolResult:
        if isinstance(arrival, ChildEnded):
            if step.waits_for is WaitsFor.CHILD:
                emit_subagent_ended(self._ctx, call, arrival)
            self._mark_tainted(call, arrival.taint)
        tool = self._find_tool(call)
        if not isinstance(tool, ResumableTool):
            return ToolResult(content=f"the tool `{call.name}` is not there any more", failed=True)
        made = self._make_call(call, step)
        resumed = partial(tool.resume, made, call.arguments, arrival)
        return await self._catch_tool_errors(call, self._ctx.middleware(tool.spec, made, call.arguments, resumed))

    async def _run_one(self, call: ToolCall, step: Step | None) -> Step | None:
        """Run a call that has not settled, and return its step if it waits now."""
        if step is not None and step.effectful:
            question = settle_unknown_outcome(self._ctx, call, step)
            if question is None:
                return None
            open_interrupt(self._ctx, question)
            return self._ctx.ledger.step_for_call(call.id)
        begun = self._start_step(call)
        if begun.effectful:
            return await self._run_effectful(call, begun)
        tool = self._find_tool(call)
        if tool is not None and tool.spec.kind is ToolClass.TRANSACTIONAL:
            return self._settle_or_wait(call, begun, await self._run_tool(call, begun))
        return self._settle_or_wait(call, begun, await self._commit_while(self._run_tool(call, begun)))

    async def _run_effectful(self, call: ToolCall, step: Step, arrival: ResumeCause | None = None) -> Step | None:
        """Run a call whose start must be on disk before it begins, or let it go on with what it waited for."""
        await self._ctx.commit()
        running = self._run_tool(call, step) if arrival is None else self._resume_tool(call, step, arrival)
        return self._settle_or_wait(call, step, await self._commit_while(running))

    async def _commit_while(self, running: Awaitable[T]) -> T:
        """Return what comes of what is running, and commit what is said meanwhile."""
        return await commit_while(self._ctx.writer, running, interval=self._ctx.config.commit_interval.seconds)

    def _settle_or_wait(self, call: ToolCall, step: Step, outcome: ToolResult) -> Step | None:
        """Settle a call, or let it wait; return its step if it waits."""
        if outcome.wait is None:
            self._mark_tainted(call, [] if outcome.untrusted is None else [outcome.untrusted])
            settle_call(self._ctx, call, step, outcome)
            return None
        apply_effects(self._ctx, outcome)
        return self._ctx.writer.record_step(
            self._ctx.ledger.mark_waiting(step, self._start_wait(call, step, outcome.wait))
        )

    def _mark_tainted(self, call: ToolCall, names: Sequence[str]) -> None:
        """Mark the run if what a call answers was written by others."""
        mark_tainted(self._ctx, names, at=self._message.sequence, call_id=call.id)

    def _start_wait(self, call: ToolCall, step: Step, wait: ToolWait) -> WaitsFor:
        match wait:
            case InterruptWait(interrupt=interrupt):
                open_interrupt(
                    self._ctx, replace(interrupt, id=InterruptId(derived_id("int", key=interrupt_key(step))))
                )
                return WaitsFor.PERSON
            case ChildWait(run_id=run_id):
                emit_subagent_started(self._ctx, call, run_id)
                self._set_wait_timeout(step)
                return WaitsFor.CHILD
            case TaskWait():
                self._set_wait_timeout(step)
                return WaitsFor.TASK
            case TimerWait(timer_id=timer_id, until=until):
                self._ctx.writer.draft.timers.append(NewTimer(id=timer_id, kind="wake", due_at=until))
                return WaitsFor.TIMER

    def _set_wait_timeout(self, step: Step) -> None:
        """Set the time after which a call that waits for a run goes on without it."""
        due_at = instant(Millis(self._ctx.clock.now() + MAX_RUN_WAIT // timedelta(milliseconds=1)))
        self._ctx.writer.draft.timers.append(NewTimer(id=step_timer_id(step), kind="wake", due_at=due_at))

    async def _suspend_run(self, waiting: Sequence[tuple[ToolCall, Step]]) -> None:
        below = [question for asked in child_interrupts(self._ctx.values).values() for question in asked]
        reasons = {step.waits_for or WaitsFor.PERSON for _, step in waiting} | ({WaitsFor.PERSON} if below else set())
        reason = next(each for each in WaitsFor if each in reasons)
        for call, step in waiting:
            if step.waits_for is WaitsFor.CHILD:
                emit_subagent_started(self._ctx, call, child_run_id(step))
        targets = [target for call, step in waiting if (target := awaited_run_id(call, step)) is not None]
        await suspend(self._ctx, reason, waits_on=targets, child_interrupts=below)

    def _start_step(self, call: ToolCall) -> Step:
        """Record that a call begins, or begins again."""
        step = self._ctx.ledger.step_for_call(call.id)
        if step is not None:
            return self._ctx.writer.record_step(self._ctx.ledger.restart(step))
        tool = self._find_tool(call)
        refused = self._approved.denial(self._ctx, call) is not None
        effectful = tool is not None and tool.spec.kind is ToolClass.EFFECTFUL and not refused
        return self._ctx.writer.record_step(self._ctx.ledger.start_tool_call(call.name, call.id, effectful=effectful))

    async def _run_tool(self, call: ToolCall, step: Step) -> ToolResult:
        refusal = self._approved.denial(self._ctx, call)
        if refusal is not None:
            if call.id not in self._approved.denied:
                emit_denial(self._ctx, call, refusal)
            return ToolResult(content=refusal, failed=True)
        unreadable = self._message.metadata.get("unreadable", {}).get(call.id)
        if unreadable is not None:
            return ToolResult(content=unreadable, failed=True)
        try:
            tool = self._ctx.toolbox.find(call.name)
        except NotFound as error:
            return ToolResult(content=error.message, failed=True)
        made = self._make_call(call, step)
        run = partial(tool.run, made, call.arguments)
        outcome = await self._catch_tool_errors(call, self._ctx.middleware(tool.spec, made, call.arguments, run))
        edited = self._approved.edit_notes.get(call.id)
        return outcome if edited is None else replace(outcome, content=f"{edited}\n{as_text(outcome.content)}")

    async def _catch_tool_errors(self, call: ToolCall, running: Awaitable[ToolResult]) -> ToolResult:
        """Turn whatever goes wrong in a tool into a result for the model."""
        try:
            return await running
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            return ToolResult(content=f"{error.code}: {error.message}", failed=True)
        except asyncio.CancelledError as error:
            if _is_run_cancelled():
                raise
            return self._tool_crashed(call, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a tool that breaks is a result for the model
            return self._tool_crashed(call, error)

    def _tool_crashed(self, call: ToolCall, error: BaseException) -> ToolResult:
        _log.error("tool `%s` of run `%s` broke", call.name, self._ctx.run.id, exc_info=error)
        return ToolResult(content=f"the tool broke: {type(error).__name__}: {error}", failed=True)

    def _make_call(self, call: ToolCall, step: Step) -> ToolContext:
        message, text = self._message, self._message.content
        assert message.sequence is not None
        return ToolContext(
            id=call.id,
            key=step.key,
            lease=self._ctx.lease,
            agent=self._ctx.agent,
            message_id=message.id,
            at=boundary(
                message.sequence, text=text if isinstance(text, str) else "", call_index=self._call_indexes[call.id]
            ),
            now=instant(self._ctx.clock.now()),
            values=self._ctx.values,
            next_task_id=partial(self._ctx.journal.next_task_id, self._ctx.lease, step=step.key),
            emit_activity=self._ctx.writer.emit,
            pending_children=len(self._ctx.writer.draft.children),
        )

    def _find_tool(self, call: ToolCall) -> Tool | None:
        try:
            return self._ctx.toolbox.find(call.name)
        except NotFound:
            return None


def _is_run_cancelled() -> bool:
    """Say whether it is the work on the run that was cancelled, and not a task inside a tool."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
