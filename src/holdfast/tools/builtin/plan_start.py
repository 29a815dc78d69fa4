"""`plan_start`: the task that is worked on now."""

from typing import Final

from holdfast.domain import plan
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import TaskId, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanStart(Arguments, frozen=True, kw_only=True):
    """Begin a task of your plan, or take it up again. One task is in progress at a time: another one is put back."""

    task_id: TaskId


async def _start(call: Call, asked: PlanStart) -> Outcome:
    return changed(call, plan.start(plan_of(call), asked.task_id, at=call.at), asked.task_id)


SPEC: Final = spec_of(PlanStart, name="plan_start", kind=ToolClass.TRANSACTIONAL)
PLAN_START: Final = TypedTool(SPEC, PlanStart, run=_start)
