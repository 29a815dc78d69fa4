"""`agent_send`: the run says something to another agent, and goes on."""

from typing import Final

from holdfast.domain.tool import ToolClass
from holdfast.tools.messaging import AgentName, Messages, Text, Thread
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.spawning import began
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool


class AgentSend(Arguments, frozen=True, kw_only=True):
    """Say something to another agent and go on. It remembers what you said before; you are told when it has replied."""

    agent: AgentName
    message: Text
    thread_id: Thread = None


SPEC: Final = spec_of(AgentSend, name="agent_send", kind=ToolClass.TRANSACTIONAL)


def agent_send(messages: Messages) -> TypedTool[AgentSend]:
    """Return the tool, which has `messages` brought."""

    async def send(call: Call, asked: AgentSend) -> Outcome:
        run = await messages.bring(
            call, agent=asked.agent, message=asked.message, thread=asked.thread_id, awaited=False
        )
        return Outcome(
            content={"run_id": run.id, "thread_id": run.thread_id, "status": str(run.status)},
            events=[began(call, agent=asked.agent, thread=run.thread_id)],
        )

    return TypedTool(SPEC, AgentSend, run=send)
