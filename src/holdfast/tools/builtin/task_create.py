"""`task_create`: a task for an agent, which is worked on in the background."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.limits import check_children
from holdfast.domain.run import Mode, Priority, RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import MAX_INPUT, Spawner, began, child_run
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class TaskCreate(Arguments, frozen=True, kw_only=True):
    """Give an agent a task to work on in the background. You are told when it ends; `task_status` tells how it goes."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str, Meta(min_length=1, max_length=MAX_INPUT, description="What it shall do, and all that it must know.")
    ]
    priority: Annotated[Priority, Meta(description="How urgent it is.")] = Priority.NORMAL


SPEC: Final = spec_of(TaskCreate, name="task_create", kind=ToolClass.TRANSACTIONAL)


def task_create(spawner: Spawner, peers: SubagentRuns) -> TypedTool[TaskCreate]:
    """Return the tool, which makes tasks as `spawner` allows, as long as not too many of the `peers` are at work."""

    async def create(call: Call, asked: TaskCreate) -> Outcome:
        child = await spawner.child(call, agent=asked.agent, input=asked.input, mode=Mode.TASK, priority=asked.priority)
        check_children(call.run.limits, await peers.at_work(call.lease) + call.unborn)
        return Outcome(
            content={"task_id": child_run(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[began(call, agent=asked.agent)],
        )

    return TypedTool(SPEC, TaskCreate, run=create)
