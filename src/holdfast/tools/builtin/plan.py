"""The plan tools, `plan_create` to `plan_cancel`: the model keeps the plan of its run with them.

Each reads the plan, changes it by the rules of `domain.plan` and returns only the changed task: the whole plan is in
the context of every turn.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType, to_builtins

from holdfast.domain import plan
from holdfast.domain.agent_task import minimal_agent_task
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import PlanChanged
from holdfast.domain.plan import (
    MAX_SUBTASKS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Plan,
    PlanItem,
    PlanPriority,
    PlanStatus,
    Subtask,
    find,
)
from holdfast.domain.tool import ToolClass
from holdfast.tools.tool import ToolContext, ToolResult, encode_value, read_value
from holdfast.tools.typed_tool import ToolArguments, TypedTool, tool_spec

PlanTitle: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_TITLE_CHARS)]
PlanText: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
PlanPosition: TypeAlias = Annotated[int, Meta(ge=0)]
SubtaskTitles: TypeAlias = Annotated[list[PlanTitle], Meta(max_length=MAX_SUBTASKS)]
PlanApproach: TypeAlias = str | dict[str, Json] | list[Json]
"""How a task is to be done: text or JSON."""
PlanTaskId: TypeAlias = Annotated[int, Meta(ge=1, description="The `task_id` of the task, as in the plan.")]
PlanReason: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="Why, in a sentence or two.")
]

PLAN_VALUE: Final = "plan"


def current_plan(call: ToolContext) -> Plan:
    """Return the plan as it is now."""
    return read_value(call, PLAN_VALUE, default=Plan())


def plan_result(call: ToolContext, plan: Plan, task_id: int) -> ToolResult:
    """Return the outcome of a call that made the plan into `plan` by changing one of its tasks."""
    answer = _task_summary(find(plan, task_id))
    if plan == current_plan(call):
        return ToolResult(content=answer)
    return ToolResult(content=answer, values={PLAN_VALUE: encode_value(plan)}, events=[PlanChanged(items=plan.items)])


def _task_summary(item: PlanItem) -> Json:
    if item.status is PlanStatus.CANCELLED:
        # Models read no cancelled tasks, and so have no word for it: but this one was just told to cancel it.
        return {"task_id": item.task_id, "status": str(item.status)}
    return to_builtins(minimal_agent_task(item))


class PlanCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Add a task to your plan. The plan is shown to you in every turn."""

    title: Annotated[PlanTitle, Meta(description="A short title.")]
    description: Annotated[PlanText | None, Meta(description="What the task is about and where it ends.")] = None
    priority: Annotated[PlanPriority, Meta(description="How urgent it is.")] = PlanPriority.MEDIUM
    plan: Annotated[PlanApproach | None, Meta(description="How you mean to do it, as text or as JSON.")] = None
    position: Annotated[
        PlanPosition | None, Meta(description="Its place among the tasks, from 0; at the end unless given.")
    ] = None
    subtasks: Annotated[
        SubtaskTitles, Meta(description="Titles of its steps; the task can be completed when all of them are done.")
    ] = []


async def _create(call: ToolContext, asked: PlanCreateArguments) -> ToolResult:
    task_id = await call.next_task_id()
    after = plan.create(
        current_plan(call),
        task_id=task_id,
        title=asked.title,
        description=asked.description,
        priority=asked.priority,
        plan=asked.plan,
        subtasks=[Subtask(title=title) for title in asked.subtasks],
        position=asked.position,
    )
    return plan_result(call, after, task_id)


PLAN_CREATE_SPEC: Final = tool_spec(PlanCreateArguments, name="plan_create", kind=ToolClass.TRANSACTIONAL)
PLAN_CREATE: Final = TypedTool(PLAN_CREATE_SPEC, PlanCreateArguments, run=_create)


class PlanUpdateArguments(ToolArguments, frozen=True, kw_only=True):
    """Change an open task of your plan. What you leave out stays as it is."""

    task_id: PlanTaskId
    title: Annotated[PlanTitle | UnsetType, Meta(description="Another title.")] = UNSET
    description: Annotated[PlanText | None | UnsetType, Meta(description="Another description, or null for none.")] = (
        UNSET
    )
    priority: Annotated[PlanPriority | UnsetType, Meta(description="Another priority.")] = UNSET
    plan: Annotated[
        PlanApproach | None | UnsetType, Meta(description="Another way to do it, as text or as JSON, or null for none.")
    ] = UNSET
    position: Annotated[PlanPosition | UnsetType, Meta(description="Another place among the tasks, from 0.")] = UNSET
    subtasks: Annotated[
        SubtaskTitles | UnsetType,
        Meta(description="Titles of all its steps, in order. A step that was done stays done under the same title."),
    ] = UNSET


async def _update(call: ToolContext, asked: PlanUpdateArguments) -> ToolResult:
    changes = {name: value for name in _UPDATABLE_FIELDS if (value := getattr(asked, name)) is not UNSET}
    if not changes:
        raise Invalid(
            f"nothing is to be changed: give at least one of {', '.join(f'`{name}`' for name in _UPDATABLE_FIELDS)}"
        )
    current = current_plan(call)
    if "subtasks" in changes:
        changes["subtasks"] = list(_merge_subtasks(find(current, asked.task_id), changes["subtasks"]))
    return plan_result(call, plan.update(current, asked.task_id, **changes), asked.task_id)


def _merge_subtasks(item: PlanItem, titles: Iterable[str]) -> Iterator[Subtask]:
    """Yield a subtask for each title: the one that the item has, or a new one."""
    left = list(item.subtasks)
    for title in titles:
        known = next((subtask for subtask in left if subtask.title == title.strip()), None)
        if known is not None:
            left.remove(known)
        yield known or Subtask(title=title)


_UPDATABLE_FIELDS: Final = ("title", "description", "priority", "plan", "position", "subtasks")

PLAN_UPDATE_SPEC: Final = tool_spec(PlanUpdateArguments, name="plan_update", kind=ToolClass.TRANSACTIONAL)
PLAN_UPDATE: Final = TypedTool(PLAN_UPDATE_SPEC, PlanUpdateArguments, run=_update)


class PlanStartArguments(ToolArguments, frozen=True, kw_only=True):
    """Begin a task of your plan, or take it up again. One task is in progress at a time: another one is put back."""

    task_id: PlanTaskId


async def _start(call: ToolContext, asked: PlanStartArguments) -> ToolResult:
    return plan_result(call, plan.start(current_plan(call), asked.task_id, at=call.at), asked.task_id)


PLAN_START_SPEC: Final = tool_spec(PlanStartArguments, name="plan_start", kind=ToolClass.TRANSACTIONAL)
PLAN_START: Final = TypedTool(PLAN_START_SPEC, PlanStartArguments, run=_start)


class PlanCheckArguments(ToolArguments, frozen=True, kw_only=True):
    """Mark a subtask of an open task as done."""

    task_id: PlanTaskId
    subtask: Annotated[int | str, Meta(description="The index of the subtask, from 0, or its exact title.")]


async def _check(call: ToolContext, asked: PlanCheckArguments) -> ToolResult:
    return plan_result(call, plan.check(current_plan(call), asked.task_id, subtask=asked.subtask), asked.task_id)


PLAN_CHECK_SPEC: Final = tool_spec(PlanCheckArguments, name="plan_check", kind=ToolClass.TRANSACTIONAL)
PLAN_CHECK: Final = TypedTool(PLAN_CHECK_SPEC, PlanCheckArguments, run=_check)


class PlanBlockArguments(ToolArguments, frozen=True, kw_only=True):
    """Say that a task of your plan cannot go on for now. Starting it again lifts that."""

    task_id: PlanTaskId
    reason: PlanReason


async def _block(call: ToolContext, asked: PlanBlockArguments) -> ToolResult:
    return plan_result(call, plan.block(current_plan(call), asked.task_id, reason=asked.reason), asked.task_id)


PLAN_BLOCK_SPEC: Final = tool_spec(PlanBlockArguments, name="plan_block", kind=ToolClass.TRANSACTIONAL)
PLAN_BLOCK: Final = TypedTool(PLAN_BLOCK_SPEC, PlanBlockArguments, run=_block)


class PlanCompleteArguments(ToolArguments, frozen=True, kw_only=True):
    """Complete a task of your plan, once all its subtasks are done."""

    task_id: PlanTaskId
    conclusion: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT_CHARS,
            description="What came of it, with all that will be needed later: it may stand for the work itself.",
        ),
    ]


async def _complete(call: ToolContext, asked: PlanCompleteArguments) -> ToolResult:
    after = plan.complete(current_plan(call), asked.task_id, conclusion=asked.conclusion, at=call.at)
    return plan_result(call, after, asked.task_id)


PLAN_COMPLETE_SPEC: Final = tool_spec(PlanCompleteArguments, name="plan_complete", kind=ToolClass.TRANSACTIONAL)
PLAN_COMPLETE: Final = TypedTool(PLAN_COMPLETE_SPEC, PlanCompleteArguments, run=_complete)


class PlanCancelArguments(ToolArguments, frozen=True, kw_only=True):
    """Give up a task of your plan for good. It is no longer shown to you."""

    task_id: PlanTaskId
    reason: PlanReason


async def _cancel(call: ToolContext, asked: PlanCancelArguments) -> ToolResult:
    return plan_result(call, plan.cancel(current_plan(call), asked.task_id, reason=asked.reason), asked.task_id)


PLAN_CANCEL_SPEC: Final = tool_spec(PlanCancelArguments, name="plan_cancel", kind=ToolClass.TRANSACTIONAL)
PLAN_CANCEL: Final = TypedTool(PLAN_CANCEL_SPEC, PlanCancelArguments, run=_cancel)
