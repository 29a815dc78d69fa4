"""What a call waits for: under which key, until when, and for which run."""

from datetime import timedelta
from typing import Final

from holdfast.agent.ledger import child_of
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, TimerId
from holdfast.domain.message import ToolCall
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Step

LONGEST_WAIT: Final = timedelta(days=30)
"""How long a call waits for another run, which may have to ask people, who have seven days for each answer."""
FOR_RUNS: Final = (WaitsFor.CHILD, WaitsFor.TASK)


def asking_key(step: Step) -> str:
    """Return the key under which a step asks a person; what it asks when it goes on is another question."""
    return step.key if step.attempt == 1 else f"{step.key}.{step.attempt}"


def wait_key(step: Step) -> str:
    """Return the key under which a step waits."""
    return asking_key(step) if step.waits_for is WaitsFor.PERSON else step.key


def timer_of(step: Step) -> TimerId:
    """Return the timer that wakes a step."""
    return TimerId(derived_id("tmr", key=step.key))


def target_of(call: ToolCall, step: Step) -> RunId | None:
    """Return the run that a call waits for."""
    match step.waits_for:
        case WaitsFor.CHILD:
            return child_of(step)
        case WaitsFor.TASK:
            return RunId(call.arguments["task_id"])
        case _:
            return None
