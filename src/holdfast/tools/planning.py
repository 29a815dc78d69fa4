"""What all plan tools share: they read the plan, change it by the rules of `domain.plan`, and answer little.

The whole plan is in the context of each turn, so that the answer of a tool need not repeat it.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, to_builtins

from holdfast.domain.agent_task import minimal_agent_task
from holdfast.domain.content import Json
from holdfast.domain.events.custom import PlanChanged
from holdfast.domain.plan import MAX_SUBTASKS, MAX_TEXT_CHARS, MAX_TITLE_CHARS, Plan, PlanItem, PlanStatus, find
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.values import read_value, written

Title: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_TITLE_CHARS)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
Position: TypeAlias = Annotated[int, Meta(ge=0)]
Steps: TypeAlias = Annotated[list[Title], Meta(max_length=MAX_SUBTASKS)]
Way: TypeAlias = str | dict[str, Json] | list[Json]
"""How a task is to be done: text or JSON."""
TaskId: TypeAlias = Annotated[int, Meta(ge=1, description="The `task_id` of the task, as in the plan.")]
Reason: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="Why, in a sentence or two.")
]

VALUE: Final = "plan"


def plan_of(call: Call) -> Plan:
    """Return the plan as it is now."""
    return read_value(call, VALUE, default=Plan())


def changed(call: Call, plan: Plan, task_id: int) -> Outcome:
    """Return the outcome of a call that made the plan into `plan` by changing one of its tasks."""
    answer = _answer(find(plan, task_id))
    if plan == plan_of(call):
        return Outcome(content=answer)
    return Outcome(content=answer, values={VALUE: written(plan)}, events=[PlanChanged(items=plan.items)])


def _answer(item: PlanItem) -> Json:
    if item.status is PlanStatus.CANCELLED:
        # Models read no cancelled tasks, and so have no word for it: but this one was just told to cancel it.
        return {"task_id": item.task_id, "status": str(item.status)}
    return to_builtins(minimal_agent_task(item))
