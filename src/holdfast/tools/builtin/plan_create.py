"""`plan_create`: a new task in the plan."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain import plan
from holdfast.domain.plan import PlanPriority, Subtask
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import Position, Steps, Text, Title, Way, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanCreate(Arguments, frozen=True, kw_only=True):
    """Add a task to your plan. The plan is shown to you in every turn."""

    title: Annotated[Title, Meta(description="A short title.")]
    description: Annotated[Text | None, Meta(description="What the task is about and where it ends.")] = None
    priority: Annotated[PlanPriority, Meta(description="How urgent it is.")] = PlanPriority.MEDIUM
    plan: Annotated[Way | None, Meta(description="How you mean to do it, as text or as JSON.")] = None
    position: Annotated[
        Position | None, Meta(description="Its place among the tasks, from 0; at the end unless given.")
    ] = None
    subtasks: Annotated[
        Steps, Meta(description="Titles of its steps; the task can be completed when all of them are done.")
    ] = []


async def _create(call: Call, asked: PlanCreate) -> Outcome:
    task_id = await call.next_task_id()
    after = plan.create(
        plan_of(call),
        task_id=task_id,
        title=asked.title,
        description=asked.description,
        priority=asked.priority,
        plan=asked.plan,
        subtasks=[Subtask(title=title) for title in asked.subtasks],
        position=asked.position,
    )
    return changed(call, after, task_id)


SPEC: Final = spec_of(PlanCreate, name="plan_create", kind=ToolClass.TRANSACTIONAL)
PLAN_CREATE: Final = TypedTool(SPEC, PlanCreate, run=_create)
