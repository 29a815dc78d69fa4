"""`StepLedger`: the steps of one run, and the keys, timers and runs that its waiting steps wait for."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from holdfast.domain.idempotency import derived_id, step_key
from holdfast.domain.ids import RunId, TimerId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Usage
from holdfast.domain.message import ToolCall
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Lane, Step, StepKind, StepState


def child_run_id(step: Step) -> RunId:
    """Return the id of the child run that a step spawns."""
    return RunId(derived_id("run", key=step.key))


class StepLedger:
    """The steps of one run, by number and by tool call."""

    def __init__(self, run_id: RunId, steps: Sequence[Step]) -> None:
        self._run_id = run_id
        self._steps = {step.number: step for step in steps}
        self._steps_by_call = {step.tool_call_id: step for step in steps if step.tool_call_id is not None}
        self._last = max(self._steps, default=0)

    def step_for_call(self, call_id: ToolCallId) -> Step | None:
        """Return the newest step of a tool call."""
        return self._steps_by_call.get(call_id)

    def awaited_children(self) -> list[RunId]:
        """Return the child runs that calls wait for."""
        steps = [step for step in self._steps_by_call.values() if step.state is StepState.WAITING]
        return [child_run_id(step) for step in steps if step.waits_for is WaitsFor.CHILD]

    def unsettled_model_call(self) -> Step | None:
        """Return the model call that a lost worker left unsettled, if there is one."""
        for step in self._steps.values():
            if step.kind is StepKind.MODEL and not step.state.settled:
                return step
        return None

    def consecutive_failures(self) -> int:
        """Return how many model calls have failed since the last success."""
        return sum(step.state is StepState.FAILED for step in self._unanswered_steps())

    def abandoned_calls(self) -> int:
        """Return how many model calls workers have started and not finished since the last success."""
        return sum(step.attempt - step.state.settled for step in self._unanswered_steps())

    def _unanswered_steps(self) -> Iterator[Step]:
        """Return the model calls since the last success, the newest first."""
        newest_first = (self._steps[number] for number in sorted(self._steps, reverse=True))
        calls = (step for step in newest_first if step.kind is StepKind.MODEL)
        return takewhile(lambda step: step.state is not StepState.DONE, calls)

    def start_model_call(self, name: str) -> Step:
        """Start a model call."""
        return self._start(StepKind.MODEL, name)

    def start_tool_call(self, name: str, call_id: ToolCallId, *, effectful: bool, key: str | None = None) -> Step:
        """Start a tool call; a call that is deliberately repeated keeps its `key`."""
        return self._start(StepKind.TOOL, name, call_id=call_id, effectful=effectful, key=key)

    def restart(self, step: Step) -> Step:
        """Restart a step as its next attempt."""
        return self._put(replace(step, state=StepState.STARTED, attempt=step.attempt + 1, waits_for=None))

    def mark_waiting(self, step: Step, waits_for: WaitsFor) -> Step:
        """Mark a step as waiting."""
        return self._put(replace(step, state=StepState.WAITING, waits_for=waits_for))

    def settle(
        self,
        step: Step,
        state: StepState,
        *,
        usage: Usage | None = None,
        name: str | None = None,
        lane: Lane | None = None,
        first_token_at: Instant | None = None,
    ) -> Step:
        """Settle a step in a final state; `name` is the model that responded, if it is one of several."""
        settled = replace(
            step,
            state=state,
            usage=usage,
            waits_for=None,
            name=name or step.name,
            lane=lane,
            first_token_at=first_token_at,
        )
        return self._put(settled)

    def _start(
        self,
        kind: StepKind,
        name: str,
        *,
        call_id: ToolCallId | None = None,
        effectful: bool = False,
        key: str | None = None,
    ) -> Step:
        self._last += 1
        return self._put(
            Step(
                number=self._last,
                kind=kind,
                name=name,
                key=key or step_key(self._run_id, self._last),
                tool_call_id=call_id,
                effectful=effectful,
            )
        )

    def _put(self, step: Step) -> Step:
        self._steps[step.number] = step
        if step.tool_call_id is not None:
            self._steps_by_call[step.tool_call_id] = step
        return step


MAX_RUN_WAIT: Final = timedelta(days=30)
"""How long a call waits for another run: that run may wait for people, who have seven days for each response."""
RUN_WAITS: Final = (WaitsFor.CHILD, WaitsFor.TASK)


def interrupt_key(step: Step) -> str:
    """Return the key of a step's interrupt; each attempt opens its own."""
    return step.key if step.attempt == 1 else f"{step.key}.{step.attempt}"


def wait_key(step: Step) -> str:
    """Return the key that resume causes of a waiting step refer to."""
    return interrupt_key(step) if step.waits_for is WaitsFor.PERSON else step.key


def step_timer_id(step: Step) -> TimerId:
    """Return the id of the timer that resumes a step."""
    return TimerId(derived_id("tmr", key=step.key))


def awaited_run_id(call: ToolCall, step: Step) -> RunId | None:
    """Return the run that a call waits for, if it waits for one."""
    match step.waits_for:
        case WaitsFor.CHILD:
            return child_run_id(step)
        case WaitsFor.TASK:
            return RunId(call.arguments["task_id"])
        case _:
            return None
