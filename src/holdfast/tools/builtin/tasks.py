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
from holdfast.domain.tool import ToolClass
from holdfast.domain.untrusted import taint_source_name
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.child_runs import (
    MAX_CHILD_INPUT_CHARS,
    Spawner,
    child_ended,
    child_run_id,
    child_started_event,
    ended_run_result,
)
from holdfast.tools.tool import ResumeCause, TaskWait, ToolContext, ToolResult, encode_value, read_value
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, TypedTool, tool_spec


class TaskCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Give an agent a task to work on in the background. You are told when it ends; `task_status` tells how it goes."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str,
        Meta(
            min_length=1, max_length=MAX_CHILD_INPUT_CHARS, description="What it shall do, and all that it must know."
        ),
    ]
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


TASK_CREATE_SPEC: Final = tool_spec(TaskCreateArguments, name="task_create", kind=ToolClass.TRANSACTIONAL)


def task_create(spawner: Spawner, peers: SubagentRuns) -> TypedTool[TaskCreateArguments]:
    """Return the tool, which makes tasks as `spawner` allows, as long as not too many of the `peers` are at work."""

    async def create(call: ToolContext, asked: TaskCreateArguments) -> ToolResult:
        child = await spawner.child(call, agent=asked.agent, input=asked.input, mode=Mode.TASK, priority=asked.priority)
        check_children(call.run.limits, await peers.count_active_children(call.lease) + call.pending_children)
        return ToolResult(
            content={"task_id": child_run_id(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[child_started_event(call, agent=asked.agent)],
        )

    return TypedTool(TASK_CREATE_SPEC, TaskCreateArguments, run=create)


SPAWNED_TASKS_VALUE: Final = "spawned"
"""The value of a run that says which tasks on their own it began."""


class TaskSpawnArguments(ToolArguments, frozen=True, kw_only=True):
    """Begin a task on its own, which goes on even if you are stopped. To be told when it ends, use `task_subscribe`."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str,
        Meta(
            min_length=1, max_length=MAX_CHILD_INPUT_CHARS, description="What it shall do, and all that it must know."
        ),
    ]
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


class SpawnedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that a run began; those of a run that it continues do not count."""

    run_id: RunId
    tasks: tuple[RunId, ...] = ()


TASK_SPAWN_SPEC: Final = tool_spec(TaskSpawnArguments, name="task_spawn", kind=ToolClass.TRANSACTIONAL)


def task_spawn(spawner: Spawner, peers: SubagentRuns) -> TypedTool[TaskSpawnArguments]:
    """Return the tool, which begins tasks for the agents that `spawner` allows."""

    async def spawn(call: ToolContext, asked: TaskSpawnArguments) -> ToolResult:
        if call.lease.budget_keys:
            raise Conflict("this run has a budget, which a task on its own would not share: use `task_create`")
        new = await spawner.child(call, agent=asked.agent, input=asked.input, mode=Mode.TASK, priority=asked.priority)
        earlier = spawned_tasks(call)
        check_tasks(call.run.limits, len(earlier.tasks))
        task = await peers.spawn(call.lease, replace(new, parent_run_id=None))
        now = replace(earlier, tasks=(*earlier.tasks, task.id))
        return ToolResult(
            content={"task_id": task.id, "status": str(task.status)}, values={SPAWNED_TASKS_VALUE: encode_value(now)}
        )

    return TypedTool(TASK_SPAWN_SPEC, TaskSpawnArguments, run=spawn)


def spawned_tasks(call: ToolContext) -> SpawnedTasks:
    """Return the tasks that a run began."""
    nothing = SpawnedTasks(run_id=call.run.id)
    found = read_value(call, SPAWNED_TASKS_VALUE, default=nothing)
    return found if found.run_id == call.run.id else nothing


class TaskStatusArguments(ToolArguments, frozen=True, kw_only=True):
    """Look at how a task stands that you gave to an agent: its status, and its result once there is one."""

    task_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="The `task_id` that `task_create` gave you.")
    ]


TASK_STATUS_SPEC: Final = tool_spec(TaskStatusArguments, name="task_status", kind=ToolClass.IDEMPOTENT, read_only=True)


class TaskSubscribeArguments(ToolArguments, frozen=True, kw_only=True):
    """Be told when a task ends, with its result. With `wait` you do nothing else until then."""

    task_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="The `task_id` or `run_id` that you were given.")
    ]
    wait: Annotated[bool, Meta(description="Whether to wait for its result now.")] = False


TASK_SUBSCRIBE_SPEC: Final = tool_spec(TaskSubscribeArguments, name="task_subscribe", kind=ToolClass.TRANSACTIONAL)


def task_subscribe(peers: SubagentRuns) -> TypedResumableTool[TaskSubscribeArguments]:
    """Return the tool, which is told of the end of `peers`."""

    async def subscribe(call: ToolContext, asked: TaskSubscribeArguments) -> ToolResult:
        target = RunId(check_client_id(asked.task_id, field="task_id"))
        task = await peers.subscribe(call.lease, target, waits=call.key if asked.wait else None)
        if task.status.terminal:
            told = ended_run_result(TASK_SUBSCRIBE_SPEC, f"task `{task.id}`", child_ended(task), if_preempted={})
            tainted = await peers.taint(call.lease, task.id)
            return replace(told, untrusted=taint_source_name("run", task.id)) if tainted else told
        if asked.wait:
            return ToolResult(wait=TaskWait(run_id=task.id))
        return ToolResult(content={"task_id": task.id, "status": str(task.status), "subscribed": True})

    return TypedResumableTool(TASK_SUBSCRIBE_SPEC, TaskSubscribeArguments, run=subscribe, resume=_resume_task_subscribe)


async def _resume_task_subscribe(
    call: ToolContext, arguments: TaskSubscribeArguments, cause: ResumeCause
) -> ToolResult:
    goes_on = {"task_id": arguments.task_id}
    return ended_run_result(TASK_SUBSCRIBE_SPEC, f"task `{arguments.task_id}`", cause, if_preempted=goes_on)
