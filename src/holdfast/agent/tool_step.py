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
from typing import Final

from msgspec.structs import replace

from holdfast.agent.approvals import UNRESTRICTED, ApprovalGate, clear_decisions, emit_denial, needs_decision
from holdfast.agent.endings import cancel_interrupt, open_interrupt, suspend, take_resume_cause
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
from holdfast.domain.ids import InterruptId, MessageId
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

_log: Final = logging.getLogger("holdfast.agent")


class ToolStep:
    """Runs the open tool calls of one assistant message."""

    def __init__(self, ctx: RunContext, message: Message) -> None:
        self._ctx = ctx
        self._message = message
        self._approved = UNRESTRICTED
        self._call_indexes = {call.id: index for index, call in enumerate(message.tool_calls)}

    async def run(self, calls: Sequence[ToolCall]) -> bool:
        """Run and settle `calls`; return whether the run was suspended because some of them wait."""
        ctx = self._ctx
        if needs_decision(ctx, calls):
            approved = await ApprovalGate(ctx, self._message).decide(calls)
            if approved is None:
                return True
            calls, self._approved = approved.calls, approved
        await ctx.use_folder(tool.spec for call in calls if (tool := self._find_tool(call)) is not None)
        if self._can_run_in_parallel(calls):
            waiting = await commit_while(self._ctx.writer, self._run_in_parallel(calls))
        else:
            waiting = await self._run_in_order(calls)
        while waiting:
            update_child_interrupts(ctx, ctx.ledger.awaited_children())
            try:
                await self._suspend_run(waiting)
            except InboxNotEmpty:
                await ctx.read_inbox()
                waiting = await self._resume_waiting(waiting)
                if waiting:
                    update_child_interrupts(ctx, ctx.ledger.awaited_children())
                    hold_messages(ctx)
            except WouldDeadlock as error:
                waiting = self._settle_deadlocked(waiting, error)
            else:
                return True
        update_child_interrupts(ctx, ())
        clear_decisions(ctx)
        await ctx.commit()
        return False

    def _can_run_in_parallel(self, calls: Sequence[ToolCall]) -> bool:
        tools = [self._find_tool(call) for call in calls]
        read_only = len(calls) > 1 and all(tool is not None and tool.spec.read_only for tool in tools)
        return read_only and not any(self._waiting_step(call) for call in calls)

    async def _run_in_parallel(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Step]]:
        """Run calls in parallel, settle them in order, and return the waiting ones."""
        steps = [await self._start_step(call) for call in calls]
        waiting = []
        async with FirstErrorTaskGroup() as group:
            tasks = [group.create_task(self._run_tool(call, step)) for call, step in zip(calls, steps, strict=True)]
            for call, step, task in zip(calls, steps, tasks, strict=True):
                waiting_step = self._settle_or_wait(call, step, await task)
                if waiting_step is not None:
                    waiting.append((call, waiting_step))
        return waiting

    async def _run_in_order(self, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, Step]]:
        """Run calls one after the other, and return the waiting ones."""
        waiting = await self._resume_waiting([(call, step) for call in calls if (step := self._waiting_step(call))])
        for call in calls:
            step = self._ctx.ledger.step_for_call(call.id)
            if step is not None and (step.state.settled or step.state is StepState.WAITING):
                continue
            tool = self._find_tool(call)
            if waiting and not (isinstance(tool, ResumableTool) and tool.spec.kind is ToolClass.TRANSACTIONAL):
                break  # only a call that does nothing but wait may start while others wait
            waiting_step = await self._run_one(call, step)
            if waiting_step is not None:
                waiting.append((call, waiting_step))
        return waiting

    def _waiting_step(self, call: ToolCall) -> Step | None:
        """Return the step of a call that waits, or whose unknown outcome a person has to resolve."""
        step = self._ctx.ledger.step_for_call(call.id)
        return step if step is not None and step.state in (StepState.WAITING, StepState.UNKNOWN) else None

    async def _resume_waiting(self, waiting: Sequence[tuple[ToolCall, Step]]) -> list[tuple[ToolCall, Step]]:
        """Settle the calls whose resume cause has arrived, and return those that still wait."""
        remaining = []
        # Timers last: a sleeping call is woken only by items that resume no other call.
        for call, step in sorted(waiting, key=lambda pair: pair[1].waits_for is WaitsFor.TIMER):
            waiting_step = await self._resume_call(call, step)
            if waiting_step is not None:
                remaining.append((call, waiting_step))
        return remaining

    async def _resume_call(self, call: ToolCall, step: Step) -> Step | None:
        """Resume a waiting call if its cause has arrived or it is preempted; return its step if it still waits."""
        ctx, unknown = self._ctx, step.state is StepState.UNKNOWN
        key = unknown_outcome_key(step) if unknown else wait_key(step)
        cause = take_resume_cause(ctx, key)
        if cause is None:
            cause = self._preemption(step)
            if cause is None:
                return step
            if unknown or step.waits_for is WaitsFor.PERSON:
                cancel_interrupt(ctx, InterruptId(derived_id("int", key=key)))
            else:
                ctx.writer.draft.cancelled_timers.append(step_timer_id(step))
        elif not unknown and step.waits_for in RUN_WAITS:
            if isinstance(cause, TimerFired):
                cause = Preempted(because=f"{MAX_RUN_WAIT.days} days have passed")
            else:
                ctx.writer.draft.cancelled_timers.append(step_timer_id(step))
        if not unknown:
            return await self._continue_call(call, step, cause)
        resolved = cause if isinstance(cause, InterruptResolved) else InterruptResolved(response=None)
        if not settle_from_response(ctx, call, step, resolved):
            return None
        repeated = ctx.ledger.start_tool_call(call.name, call.id, effectful=True, key=step.key)
        return await self._run_effectful(call, ctx.writer.record_step(repeated))

    def _preemption(self, step: Step) -> Preempted | None:
        """Return why a call must stop waiting: a message ends every wait, the end of a run only a sleep."""
        if self._ctx.inbox.has_message:
            return Preempted()
        if self._ctx.inbox.has_run_end and step.waits_for is WaitsFor.TIMER:
            return Preempted(because="a run that you wait for has ended")
        return None

    async def _continue_call(self, call: ToolCall, step: Step, cause: ResumeCause) -> Step | None:
        """Continue a call with its resume cause; return its step if it waits once more."""
        ctx = self._ctx
        if step.effectful:
            # From here on its outcome may become unknown, so its restart has to be on disk.
            return await self._run_effectful(call, ctx.writer.record_step(ctx.ledger.restart(step)), cause)
        result = await self._resume_tool(call, step, cause)
        message_id = cause.message_id if isinstance(cause, InterruptResolved) else None
        if result.wait is not None:
            step = ctx.ledger.restart(step)
        return self._settle_or_wait(call, step, result, message_id=message_id)

    def _settle_deadlocked(
        self, waiting: Sequence[tuple[ToolCall, Step]], error: WouldDeadlock
    ) -> list[tuple[ToolCall, Step]]:
        """Settle the calls whose wait would deadlock, and return the others."""
        remaining = []
        for call, step in waiting:
            if awaited_run_id(call, step) != error.details["target"]:
                remaining.append((call, step))
                continue
            self._ctx.writer.draft.cancelled_timers.append(step_timer_id(step))
            if step.waits_for is WaitsFor.CHILD:
                reason = RunError(code=error.code, message=error.message)
                emit_subagent_ended(
                    self._ctx, call, ChildEnded(run_id=child_run_id(step), status=RunStatus.FAILED, error=reason)
                )
            settle_call(self._ctx, call, step, ToolResult(content=f"{error.code}: {error.message}", failed=True))
        return remaining

    async def _run_one(self, call: ToolCall, step: Step | None) -> Step | None:
        """Run a call that has not settled, and return its step if it waits now."""
        if step is not None and step.effectful:
            interrupt = settle_unknown_outcome(self._ctx, call, step)
            if interrupt is None:
                return None
            open_interrupt(self._ctx, interrupt)
            return self._ctx.ledger.step_for_call(call.id)
        started = await self._start_step(call)
        if started.effectful:
            return await self._run_effectful(call, started)
        tool, running = self._find_tool(call), self._run_tool(call, started)
        if tool is not None and tool.spec.kind is ToolClass.TRANSACTIONAL:
            return self._settle_or_wait(call, started, await running)
        return self._settle_or_wait(call, started, await commit_while(self._ctx.writer, running))

    async def _run_effectful(self, call: ToolCall, step: Step, cause: ResumeCause | None = None) -> Step | None:
        """Commit the start of an effectful call, then run it, or resume it with `cause`."""
        await self._ctx.commit()
        running = self._run_tool(call, step) if cause is None else self._resume_tool(call, step, cause)
        return self._settle_or_wait(call, step, await commit_while(self._ctx.writer, running))

    def _settle_or_wait(
        self, call: ToolCall, step: Step, result: ToolResult, *, message_id: MessageId | None = None
    ) -> Step | None:
        """Settle a call, or let it wait; return its step if it waits."""
        ctx = self._ctx
        if result.wait is None:
            sources = [*([] if result.untrusted is None else [result.untrusted]), *result.taint]
            mark_tainted(ctx, sources, at=self._message.sequence, call_id=call.id)
            settle_call(ctx, call, step, result, message_id=message_id)
            return None
        apply_effects(ctx, result)
        return ctx.writer.record_step(ctx.ledger.mark_waiting(step, self._start_wait(call, step, result.wait)))

    def _start_wait(self, call: ToolCall, step: Step, wait: ToolWait) -> WaitsFor:
        ctx = self._ctx
        match wait:
            case InterruptWait(interrupt=interrupt):
                open_interrupt(ctx, replace(interrupt, id=InterruptId(derived_id("int", key=interrupt_key(step)))))
                return WaitsFor.PERSON
            case TimerWait(timer_id=timer_id, until=until):
                ctx.writer.draft.timers.append(NewTimer(id=timer_id, kind="wake", due_at=until))
                return WaitsFor.TIMER
            case ChildWait() | TaskWait():
                due_at = instant(Millis(ctx.clock.now() + MAX_RUN_WAIT // timedelta(milliseconds=1)))
                ctx.writer.draft.timers.append(NewTimer(id=step_timer_id(step), kind="wake", due_at=due_at))
                if isinstance(wait, TaskWait):
                    return WaitsFor.TASK
                emit_subagent_started(ctx, call, wait.run_id)
                return WaitsFor.CHILD

    async def _suspend_run(self, waiting: Sequence[tuple[ToolCall, Step]]) -> None:
        below = [interrupt for each in child_interrupts(self._ctx.values).values() for interrupt in each]
        reasons = {step.waits_for or WaitsFor.PERSON for _, step in waiting} | ({WaitsFor.PERSON} if below else set())
        for call, step in waiting:
            if step.waits_for is WaitsFor.CHILD:
                emit_subagent_started(self._ctx, call, child_run_id(step))
        targets = [target for call, step in waiting if (target := awaited_run_id(call, step)) is not None]
        reason = next(each for each in WaitsFor if each in reasons)
        await suspend(self._ctx, reason, waits_on=targets, child_interrupts=below)

    async def _start_step(self, call: ToolCall) -> Step:
        """Record that a call starts or restarts."""
        ledger, writer = self._ctx.ledger, self._ctx.writer
        step = ledger.step_for_call(call.id)
        if step is not None:
            return writer.record_step(ledger.restart(step))
        tool = self._find_tool(call)
        denied = await self._approved.denial(self._ctx, call) is not None
        effectful = tool is not None and tool.spec.kind is ToolClass.EFFECTFUL and not denied
        return writer.record_step(ledger.start_tool_call(call.name, call.id, effectful=effectful))

    async def _run_tool(self, call: ToolCall, step: Step) -> ToolResult:
        denial = await self._approved.denial(self._ctx, call)
        if denial is not None:
            if call.id not in self._approved.denied:
                emit_denial(self._ctx, call, denial)
            return ToolResult(content=denial, failed=True)
        unreadable = self._message.metadata.get("unreadable", {}).get(call.id)
        if unreadable is not None:
            return ToolResult(content=unreadable, failed=True)
        try:
            tool = self._ctx.toolset.find(call.name)
        except NotFound as error:
            return ToolResult(content=error.message, failed=True)
        context = self._tool_context(call, step)
        run = partial(tool.run, context, call.arguments)
        result = await self._catch_tool_errors(call, self._ctx.middleware(tool.spec, context, call.arguments, run))
        edit_note = self._approved.edit_notes.get(call.id)
        return result if edit_note is None else replace(result, content=f"{edit_note}\n{as_text(result.content)}")

    async def _resume_tool(self, call: ToolCall, step: Step, cause: ResumeCause) -> ToolResult:
        if isinstance(cause, ChildEnded):
            if step.waits_for is WaitsFor.CHILD:
                emit_subagent_ended(self._ctx, call, cause)
            mark_tainted(self._ctx, cause.taint, at=self._message.sequence, call_id=call.id)
        tool = self._find_tool(call)
        if not isinstance(tool, ResumableTool):
            return ToolResult(content=f"the tool `{call.name}` is no longer available", failed=True)
        context = self._tool_context(call, step)
        resume = partial(tool.resume, context, call.arguments, cause)
        return await self._catch_tool_errors(call, self._ctx.middleware(tool.spec, context, call.arguments, resume))

    async def _catch_tool_errors(self, call: ToolCall, running: Awaitable[ToolResult]) -> ToolResult:
        """Turn every error of a tool into a result for the model."""
        try:
            return await running
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            return ToolResult(content=f"{error.code}: {error.message}", failed=True)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # a tool that crashes must not end the run
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the work on the run was cancelled, not a task inside the tool
            _log.error("tool `%s` of run `%s` crashed", call.name, self._ctx.run.id, exc_info=error)
            return ToolResult(content=f"the tool crashed: {type(error).__name__}: {error}", failed=True)

    def _tool_context(self, call: ToolCall, step: Step) -> ToolContext:
        ctx, message = self._ctx, self._message
        assert message.sequence is not None
        text = message.content if isinstance(message.content, str) else ""
        return ToolContext(
            id=call.id,
            key=step.key,
            lease=ctx.lease,
            agent=ctx.agent,
            message_id=message.id,
            at=boundary(message.sequence, text=text, call_index=self._call_indexes[call.id]),
            now=instant(ctx.clock.now()),
            values=ctx.values,
            next_task_id=partial(ctx.journal.next_task_id, ctx.lease, step=step.key),
            emit_activity=ctx.writer.emit,
            tool_names=lambda: ctx.toolset.names,
            skill_folders=ctx.skill_folders,
            pending_children=len(ctx.writer.draft.children),
            pending_artifacts=[artifact.id for artifact in ctx.writer.draft.artifacts],
            pending_memories=tuple(ctx.writer.draft.memories),
            user_message_id=ctx.conversation.last_user_id,
        )

    def _find_tool(self, call: ToolCall) -> Tool | None:
        try:
            return self._ctx.toolset.find(call.name)
        except NotFound:
            return None
