"""`plan_complete`: a task that is done, and what came of it."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain import plan
from holdfast.domain.plan import MAX_TEXT_CHARS
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import TaskId, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanComplete(Arguments, frozen=True, kw_only=True):
    """Complete a task of your plan, once all its subtasks are done."""

    task_id: TaskId
    conclusion: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT_CHARS,
            description="What came of it, with all that will be needed later: it may stand for the work itself.",
        ),
    ]


async def _complete(call: Call, asked: PlanComplete) -> Outcome:
    after = plan.complete(plan_of(call), asked.task_id, conclusion=asked.conclusion, at=call.at)
    return changed(call, after, asked.task_id)


SPEC: Final = spec_of(PlanComplete, name="plan_complete", kind=ToolClass.TRANSACTIONAL)
PLAN_COMPLETE: Final = TypedTool(SPEC, PlanComplete, run=_complete)
