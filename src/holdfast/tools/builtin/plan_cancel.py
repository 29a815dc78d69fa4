"""`plan_cancel`: a task that is given up."""

from typing import Final

from holdfast.domain import plan
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import Reason, TaskId, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanCancel(Arguments, frozen=True, kw_only=True):
    """Give up a task of your plan for good. It is no longer shown to you."""

    task_id: TaskId
    reason: Reason


async def _cancel(call: Call, asked: PlanCancel) -> Outcome:
    return changed(call, plan.cancel(plan_of(call), asked.task_id, reason=asked.reason), asked.task_id)


SPEC: Final = spec_of(PlanCancel, name="plan_cancel", kind=ToolClass.TRANSACTIONAL)
PLAN_CANCEL: Final = TypedTool(SPEC, PlanCancel, run=_cancel)
