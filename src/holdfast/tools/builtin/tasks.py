"""The task tools: `task_create`, `task_spawn`, `task_status` and `task_subscribe`.

`task_create` starts a child run that ends with this run; `task_spawn` starts an independent one. The control plane
runs `task_status`, because only it can read other runs.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import RunId, check_client_id
from holdfast.domain.limits import check_children, check_tasks
from holdfast.domain.run import Mode, Priority, RunStatus
from holdfast.domain.task_ids import run_id_of
from holdfast.domain.tool import ToolClass
from holdfast.domain.untrusted import taint_source_name
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.child_runs import (
    AgentNameArgument,
    ChildInputArgument,
    WorkspaceSpawner,
    child_run_id,
    child_started_event,
    ended_run_result,
)
from holdfast.tools.tool import ChildEnded, ResumeCause, TaskWait, ToolContext, ToolResult, encode_value, read_value
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, TypedTool, tool_spec


class TaskCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Give an agent a task in the background. You are notified when it ends; `task_status` shows its progress."""

    agent: AgentNameArgument
    input: ChildInputArgument
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


TASK_CREATE_SPEC: Final = tool_spec(TaskCreateArguments, name="task_create", kind=ToolClass.TRANSACTIONAL)


def task_create(spawner: WorkspaceSpawner, subagents: SubagentRuns) -> TypedTool[TaskCreateArguments]:
    """Return the tool, which creates children with `spawner` and counts the active ones with `subagents`."""

    async def create(call: ToolContext, arguments: TaskCreateArguments) -> ToolResult:
        child = await spawner.child(
            call, agent=arguments.agent, input=arguments.input, mode=Mode.TASK, priority=arguments.priority
        )
        check_children(call.run.limits, await subagents.count_active_children(call.lease) + call.pending_children)
        return ToolResult(
            content={"task_id": child_run_id(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[child_started_event(call, agent=arguments.agent)],
        )

    return TypedTool(TASK_CREATE_SPEC, TaskCreateArguments, run=create)


SPAWNED_TASKS_VALUE: Final = "spawned"
"""The run value with the independent tasks that the run has started."""


class TaskSpawnArguments(ToolArguments, frozen=True, kw_only=True):
    """Start an independent task, which goes on even if you are stopped. To learn its end, use `task_subscribe`."""

    agent: AgentNameArgument
    input: ChildInputArgument
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


class SpawnedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that a run has started; those of a run that it continues do not count."""

    run_id: RunId
    tasks: tuple[RunId, ...] = ()


TASK_SPAWN_SPEC: Final = tool_spec(TaskSpawnArguments, name="task_spawn", kind=ToolClass.TRANSACTIONAL)


def task_spawn(spawner: WorkspaceSpawner, subagents: SubagentRuns) -> TypedTool[TaskSpawnArguments]:
    """Return the tool, which creates tasks with `spawner` and starts them with `subagents`."""

    async def spawn(call: ToolContext, arguments: TaskSpawnArguments) -> ToolResult:
        if call.lease.budget_keys:
            raise Conflict("this run has a budget, which an independent task would not share: use `task_create`")
        new = await spawner.child(
            call, agent=arguments.agent, input=arguments.input, mode=Mode.TASK, priority=arguments.priority
        )
        none = SpawnedTasks(run_id=call.run.id)
        spawned = read_value(call, SPAWNED_TASKS_VALUE, default=none)
        if spawned.run_id != call.run.id:
            spawned = none
        check_tasks(call.run.limits, len(spawned.tasks))
        task = await subagents.spawn(call.lease, replace(new, parent_run_id=None))
        spawned = replace(spawned, tasks=(*spawned.tasks, task.id))
        return ToolResult(
            content={"task_id": task.id, "status": str(task.status)},
            values={SPAWNED_TASKS_VALUE: encode_value(spawned)},
        )

    return TypedTool(TASK_SPAWN_SPEC, TaskSpawnArguments, run=spawn)


class TaskStatusArguments(ToolArguments, frozen=True, kw_only=True):
    """Read the status of a task that you gave to an agent, and its result once there is one."""

    task_id: Annotated[str, Meta(min_length=1, max_length=128, description="The id of the task: `task_…` or `run_…`.")]


TASK_STATUS_SPEC: Final = tool_spec(TaskStatusArguments, name="task_status", kind=ToolClass.IDEMPOTENT, read_only=True)


class TaskSubscribeArguments(ToolArguments, frozen=True, kw_only=True):
    """Be notified when a task ends, with its result. With `wait` you do nothing else until then."""

    task_id: Annotated[str, Meta(min_length=1, max_length=128, description="The id of the task: `task_…` or `run_…`.")]
    wait: Annotated[bool, Meta(description="Whether to wait for its result now.")] = False


TASK_SUBSCRIBE_SPEC: Final = tool_spec(TaskSubscribeArguments, name="task_subscribe", kind=ToolClass.TRANSACTIONAL)


def task_subscribe(subagents: SubagentRuns) -> TypedResumableTool[TaskSubscribeArguments]:
    """Return the tool, which subscribes with `subagents`."""

    async def subscribe(call: ToolContext, arguments: TaskSubscribeArguments) -> ToolResult:
        target = run_id_of(check_client_id(arguments.task_id, field="task_id"))
        task = await subagents.subscribe(call.lease, target, waits=call.key if arguments.wait else None)
        if task.status.terminal:
            ended = ChildEnded(run_id=task.id, status=task.status, output=task.output, error=task.error)
            result = ended_run_result(TASK_SUBSCRIBE_SPEC, f"task `{task.id}`", ended, if_preempted={})
            tainted = await subagents.taint(call.lease, task.id)
            return replace(result, untrusted=taint_source_name("run", task.id)) if tainted else result
        if arguments.wait:
            return ToolResult(wait=TaskWait(run_id=task.id))
        return ToolResult(content={"task_id": task.id, "status": str(task.status), "subscribed": True})

    async def resume(call: ToolContext, arguments: TaskSubscribeArguments, cause: ResumeCause) -> ToolResult:
        task_id = arguments.task_id
        return ended_run_result(TASK_SUBSCRIBE_SPEC, f"task `{task_id}`", cause, if_preempted={"task_id": task_id})

    return TypedResumableTool(TASK_SUBSCRIBE_SPEC, TaskSubscribeArguments, run=subscribe, resume=resume)
