"""`plan_update`: an open task of the plan, changed."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from holdfast.domain import plan
from holdfast.domain.errors import Invalid
from holdfast.domain.plan import PlanItem, PlanPriority, Subtask, find
from holdfast.domain.tool import ToolClass
from holdfast.tools.planning import Position, Steps, TaskId, Text, Title, Way, changed, plan_of
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class PlanUpdate(Arguments, frozen=True, kw_only=True):
    """Change an open task of your plan. What you leave out stays as it is."""

    task_id: TaskId
    title: Annotated[Title | UnsetType, Meta(description="Another title.")] = UNSET
    description: Annotated[Text | None | UnsetType, Meta(description="Another description, or null for none.")] = UNSET
    priority: Annotated[PlanPriority | UnsetType, Meta(description="Another priority.")] = UNSET
    plan: Annotated[
        Way | None | UnsetType, Meta(description="Another way to do it, as text or as JSON, or null for none.")
    ] = UNSET
    position: Annotated[Position | UnsetType, Meta(description="Another place among the tasks, from 0.")] = UNSET
    subtasks: Annotated[
        Steps | UnsetType,
        Meta(description="Titles of all its steps, in order. A step that was done stays done under the same title."),
    ] = UNSET


async def _update(call: Call, asked: PlanUpdate) -> Outcome:
    changes = {name: value for name in _FIELDS if (value := getattr(asked, name)) is not UNSET}
    if not changes:
        raise Invalid(f"nothing is to be changed: give at least one of {', '.join(f'`{name}`' for name in _FIELDS)}")
    current = plan_of(call)
    if "subtasks" in changes:
        changes["subtasks"] = list(_subtasks(find(current, asked.task_id), changes["subtasks"]))
    return changed(call, plan.update(current, asked.task_id, **changes), asked.task_id)


def _subtasks(item: PlanItem, titles: Iterable[str]) -> Iterator[Subtask]:
    """Yield a subtask for each title: the one that the item has, or a new one."""
    left = list(item.subtasks)
    for title in titles:
        known = next((subtask for subtask in left if subtask.title == title.strip()), None)
        if known is not None:
            left.remove(known)
        yield known or Subtask(title=title)


_FIELDS: Final = ("title", "description", "priority", "plan", "position", "subtasks")

SPEC: Final = spec_of(PlanUpdate, name="plan_update", kind=ToolClass.TRANSACTIONAL)
PLAN_UPDATE: Final = TypedTool(SPEC, PlanUpdate, run=_update)
