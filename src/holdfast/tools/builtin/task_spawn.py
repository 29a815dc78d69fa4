"""`task_spawn`: a task on its own, which goes on whatever becomes of this run."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import RunId
from holdfast.domain.limits import check_tasks
from holdfast.domain.run import Mode, Priority
from holdfast.domain.tool import ToolClass
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import MAX_INPUT, Spawner
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool
from holdfast.tools.values import read_value, written

VALUE: Final = "spawned"
"""The value of a run that says which tasks on their own it began."""


class TaskSpawn(Arguments, frozen=True, kw_only=True):
    """Begin a task on its own, which goes on even if you are stopped. To be told when it ends, use `task_subscribe`."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str, Meta(min_length=1, max_length=MAX_INPUT, description="What it shall do, and all that it must know.")
    ]
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that a run began; those of a run that it continues do not count."""

    run_id: RunId
    tasks: tuple[RunId, ...] = ()


SPEC: Final = spec_of(TaskSpawn, name="task_spawn", kind=ToolClass.TRANSACTIONAL)


def task_spawn(spawner: Spawner, peers: SubagentRuns) -> TypedTool[TaskSpawn]:
    """Return the tool, which begins tasks for the agents that `spawner` allows."""

    async def spawn(call: Call, asked: TaskSpawn) -> Outcome:
        if call.lease.budget_keys:
            raise Conflict("this run has a budget, which a task on its own would not share: use `task_create`")
        new = await spawner.child(call, agent=asked.agent, input=asked.input, mode=Mode.TASK, priority=asked.priority)
        earlier = begun(call)
        check_tasks(call.run.limits, len(earlier.tasks))
        task = await peers.begin(call.lease, replace(new, parent_run_id=None))
        now = replace(earlier, tasks=(*earlier.tasks, task.id))
        return Outcome(content={"task_id": task.id, "status": str(task.status)}, values={VALUE: written(now)})

    return TypedTool(SPEC, TaskSpawn, run=spawn)


def begun(call: Call) -> Begun:
    """Return the tasks that a run began."""
    nothing = Begun(run_id=call.run.id)
    found = read_value(call, VALUE, default=nothing)
    return found if found.run_id == call.run.id else nothing
