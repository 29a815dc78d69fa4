"""`agent_spawn`: another agent works on a part of the task, as a child of this run."""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.run import Mode, RunStatus
from holdfast.domain.tool import ToolClass
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import MAX_INPUT, Spawner, began, child_run, child_thread
from holdfast.tools.tool import Arrival, Call, ChildEnded, Disturbed, Outcome, Spawned
from holdfast.tools.typed import WaitingTool, unexpected


class AgentSpawn(Arguments, frozen=True, kw_only=True):
    """Give a part of the work to another agent. It sees the input and nothing else of this conversation."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str, Meta(min_length=1, max_length=MAX_INPUT, description="What it shall do, and all that it must know.")
    ]
    wait: Annotated[bool, Meta(description="Whether to wait for its result, or let it work beside you.")] = True


SPEC: Final = spec_of(AgentSpawn, name="agent_spawn", kind=ToolClass.TRANSACTIONAL)


def agent_spawn(spawner: Spawner) -> WaitingTool[AgentSpawn]:
    """Return the tool, which spawns what `spawner` allows."""

    async def spawn(call: Call, asked: AgentSpawn) -> Outcome:
        child = await spawner.child(
            call, agent=asked.agent, input=asked.input, mode=_mode(call), priority=call.run.priority
        )
        if asked.wait:
            return Outcome(children=[child], wait=Spawned(run_id=child_run(call)))
        return Outcome(
            content={"run_id": child_run(call), "thread_id": child_thread(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[began(call, agent=asked.agent)],
        )

    return WaitingTool(SPEC, AgentSpawn, run=spawn, resume=_ended)


def _mode(call: Call) -> Mode:
    # A daemon is woken by its schedule; what it gives away is a piece of work.
    return Mode.TASK if call.run.mode is Mode.DAEMON else call.run.mode


async def _ended(call: Call, asked: AgentSpawn, arrival: Arrival) -> Outcome:
    match arrival:
        case ChildEnded(status=RunStatus.COMPLETED, output=output):
            return Outcome(content=output)
        case ChildEnded(status=status, error=error):
            why = "" if error is None else f": {error.code}: {error.message}"
            end = "was cancelled" if status is RunStatus.CANCELLED else "failed"
            return Outcome(content=f"agent `{asked.agent}` {end}{why}", failed=True)
        case Disturbed():
            note = "it goes on in the background: a person said something meanwhile"
            return Outcome(content={"run_id": child_run(call), "thread_id": child_thread(call), "note": note})
        case _:
            raise unexpected(SPEC, arrival)
