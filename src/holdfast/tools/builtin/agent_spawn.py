"""`agent_spawn`: another agent works on a part of the task, as a child of this run."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.limits import check_children
from holdfast.domain.run import RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.replies import reply
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import MAX_INPUT, Spawner, began, child_run, child_thread, mode_below
from holdfast.tools.tool import Arrival, Call, Outcome, Spawned
from holdfast.tools.typed import WaitingTool


class AgentSpawn(Arguments, frozen=True, kw_only=True):
    """Give a part of the work to another agent. It sees the input and nothing else of this conversation."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str, Meta(min_length=1, max_length=MAX_INPUT, description="What it shall do, and all that it must know.")
    ]
    wait: Annotated[bool, Meta(description="Whether to wait for its result, or let it work beside you.")] = True


SPEC: Final = spec_of(AgentSpawn, name="agent_spawn", kind=ToolClass.TRANSACTIONAL)


def agent_spawn(spawner: Spawner, peers: SubagentRuns) -> WaitingTool[AgentSpawn]:
    """Return the tool, which spawns what `spawner` allows, as long as not too many of the `peers` are at work."""

    async def spawn(call: Call, asked: AgentSpawn) -> Outcome:
        mode, priority = mode_below(call), call.run.priority
        child = await spawner.child(call, agent=asked.agent, input=asked.input, mode=mode, priority=priority)
        check_children(call.run.limits, await peers.at_work(call.lease) + call.unborn)
        if asked.wait:
            return Outcome(children=[child], wait=Spawned(run_id=child_run(call)))
        return Outcome(
            content={**_child(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[began(call, agent=asked.agent)],
        )

    return WaitingTool(SPEC, AgentSpawn, run=spawn, resume=_ended)


async def _ended(call: Call, asked: AgentSpawn, arrival: Arrival) -> Outcome:
    return reply(SPEC, f"agent `{asked.agent}`", arrival, goes_on=_child(call))


def _child(call: Call) -> dict[str, str]:
    return {"run_id": child_run(call), "thread_id": child_thread(call)}
