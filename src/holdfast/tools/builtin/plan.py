"""The plan tools, `plan_create` to `plan_cancel`: the model keeps the plan of its run with them.

Each reads the plan, changes it by the rules of `domain.plan` and returns only the changed task: the whole plan is in
the context of every turn.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Final, TypeAlias, TypeVar

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
PlanReason: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="Why, in a sentence or two.")
]

PLAN_VALUE: Final = "plan"


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


async def _create(call: ToolContext, arguments: PlanCreateArguments) -> ToolResult:
    task_id = await call.next_task_id()
    current = _current_plan(call)
    after = plan.create(
        current,
        task_id=task_id,
        title=arguments.title,
        description=arguments.description,
        priority=arguments.priority,
        plan=arguments.plan,
        subtasks=[Subtask(title=title) for title in arguments.subtasks],
        position=arguments.position,
        run_id=call.run.id,
        agent_type=call.run.agent_type,
    )
    return _plan_result(current, after, task_id)


PLAN_CREATE: Final = TypedTool(
    tool_spec(PlanCreateArguments, name="plan_create", kind=ToolClass.TRANSACTIONAL), PlanCreateArguments, run=_create
)


class PlanTaskArguments(ToolArguments, frozen=True, kw_only=True):
    """The arguments of a tool that changes one task."""

    task_id: Annotated[int, Meta(ge=1, description="The `task_id` of the task, as in the plan.")]


_TaskArgumentsT = TypeVar("_TaskArgumentsT", bound=PlanTaskArguments)


def _task_tool(
    name: str, arguments_type: type[_TaskArgumentsT], change: Callable[[Plan, _TaskArgumentsT, ToolContext], Plan]
) -> TypedTool[_TaskArgumentsT]:
    """Return the tool that applies `change` to the plan."""

    async def run(call: ToolContext, arguments: _TaskArgumentsT) -> ToolResult:
        current = _current_plan(call)
        return _plan_result(current, change(current, arguments, call), arguments.task_id)

    return TypedTool(tool_spec(arguments_type, name=name, kind=ToolClass.TRANSACTIONAL), arguments_type, run=run)


def _current_plan(call: ToolContext) -> Plan:
    return read_value(call, PLAN_VALUE, default=Plan())


def _plan_result(before: Plan, after: Plan, task_id: int) -> ToolResult:
    content: Json = to_builtins(minimal_agent_task(find(after, task_id)))
    if after == before:
        return ToolResult(content=content)
    return ToolResult(
        content=content, values={PLAN_VALUE: encode_value(after)}, events=[PlanChanged(items=after.items)]
    )


class PlanUpdateArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Change an open task of your plan. What you leave out stays as it is."""

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


_UPDATABLE_FIELDS: Final = ("title", "description", "priority", "plan", "position", "subtasks")


def _update(current: Plan, arguments: PlanUpdateArguments, call: ToolContext) -> Plan:
    changes = {name: value for name in _UPDATABLE_FIELDS if (value := getattr(arguments, name)) is not UNSET}
    if not changes:
        names = ", ".join(f"`{name}`" for name in _UPDATABLE_FIELDS)
        raise Invalid(f"there is nothing to change: give at least one of {names}")
    if "subtasks" in changes:
        changes["subtasks"] = list(_merge_subtasks(find(current, arguments.task_id), changes["subtasks"]))
    return plan.update(current, arguments.task_id, **changes)


def _merge_subtasks(item: PlanItem, titles: Iterable[str]) -> Iterator[Subtask]:
    """Yield a subtask for each title: the existing one of that title, or a new one."""
    remaining = list(item.subtasks)
    for title in titles:
        existing = next((subtask for subtask in remaining if subtask.title == title.strip()), None)
        if existing is not None:
            remaining.remove(existing)
        yield existing or Subtask(title=title)


PLAN_UPDATE: Final = _task_tool("plan_update", PlanUpdateArguments, _update)


class PlanStartArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Begin a task of your plan, or resume it. One task is in progress at a time: another one is put back."""


PLAN_START: Final = _task_tool(
    "plan_start",
    PlanStartArguments,
    lambda before, args, call: plan.start(before, args.task_id, at=call.at, now=call.now),
)


class PlanCheckArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Mark a subtask of an open task as done."""

    subtask: Annotated[int | str, Meta(description="The index of the subtask, from 0, or its exact title.")]


PLAN_CHECK: Final = _task_tool(
    "plan_check", PlanCheckArguments, lambda before, args, call: plan.check(before, args.task_id, subtask=args.subtask)
)


class PlanBlockArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Mark a task of your plan as blocked for now. Starting it again unblocks it."""

    reason: PlanReason


PLAN_BLOCK: Final = _task_tool(
    "plan_block", PlanBlockArguments, lambda before, args, call: plan.block(before, args.task_id, reason=args.reason)
)


class PlanCompleteArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Complete a task of your plan, once all its subtasks are done."""

    conclusion: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TEXT_CHARS,
            description="The result, with everything that will be needed later: it may replace the work itself.",
        ),
    ]


PLAN_COMPLETE: Final = _task_tool(
    "plan_complete",
    PlanCompleteArguments,
    lambda before, args, call: plan.complete(
        before, args.task_id, conclusion=args.conclusion, at=call.at, now=call.now
    ),
)


class PlanCancelArguments(PlanTaskArguments, frozen=True, kw_only=True):
    """Give up a task of your plan for good. It is no longer shown to you."""

    reason: PlanReason


PLAN_CANCEL: Final = _task_tool(
    "plan_cancel",
    PlanCancelArguments,
    lambda before, args, call: plan.cancel(before, args.task_id, reason=args.reason, now=call.now),
)
