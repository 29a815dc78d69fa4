"""`agent_message`: the run says something to another agent, and waits for the reply."""

from typing import Final

from holdfast.domain.tool import ToolClass
from holdfast.tools.messaging import AgentName, Messages, Text, Thread
from holdfast.tools.replies import reply
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import child_run
from holdfast.tools.tool import Arrival, Call, Outcome, Spawned
from holdfast.tools.typed import WaitingTool


class AgentMessage(Arguments, frozen=True, kw_only=True):
    """Say something to another agent and wait for its reply. It remembers what you said to it before."""

    agent: AgentName
    message: Text
    thread_id: Thread = None


SPEC: Final = spec_of(AgentMessage, name="agent_message", kind=ToolClass.TRANSACTIONAL)


def agent_message(messages: Messages) -> WaitingTool[AgentMessage]:
    """Return the tool, which has `messages` brought."""

    async def say(call: Call, asked: AgentMessage) -> Outcome:
        run = await messages.bring(call, agent=asked.agent, message=asked.message, thread=asked.thread_id, awaited=True)
        return Outcome(wait=Spawned(run_id=run.id))

    return WaitingTool(SPEC, AgentMessage, run=say, resume=_replied)


async def _replied(call: Call, asked: AgentMessage, arrival: Arrival) -> Outcome:
    return reply(SPEC, f"agent `{asked.agent}`", arrival, goes_on={"run_id": child_run(call)})
