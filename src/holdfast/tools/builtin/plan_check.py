"""`plan_check`: a subtask that is done."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain import plan
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import TaskId, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanCheck(Arguments, frozen=True, kw_only=True):
    """Mark a subtask of an open task as done."""

    task_id: TaskId
    subtask: Annotated[int | str, Meta(description="The index of the subtask, from 0, or its exact title.")]


async def _check(call: Call, asked: PlanCheck) -> Outcome:
    return changed(call, plan.check(plan_of(call), asked.task_id, subtask=asked.subtask), asked.task_id)


SPEC: Final = spec_of(PlanCheck, name="plan_check", kind=ToolClass.TRANSACTIONAL)
PLAN_CHECK: Final = TypedTool(SPEC, PlanCheck, run=_check)
