"""`plan_block`: a task that cannot go on."""

from typing import Final

from holdfast.domain import plan
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import Reason, TaskId, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanBlock(Arguments, frozen=True, kw_only=True):
    """Say that a task of your plan cannot go on for now. Starting it again lifts that."""

    task_id: TaskId
    reason: Reason


async def _block(call: Call, asked: PlanBlock) -> Outcome:
    return changed(call, plan.block(plan_of(call), asked.task_id, reason=asked.reason), asked.task_id)


SPEC: Final = spec_of(PlanBlock, name="plan_block", kind=ToolClass.TRANSACTIONAL)
PLAN_BLOCK: Final = TypedTool(SPEC, PlanBlock, run=_block)
