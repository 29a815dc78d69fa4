"""How agents talk to each other: what one says begins a run on a thread of the other.

Each thread has one conversation with each agent that it names, which lasts as long as the thread. A conversation that
is under way takes what is said one after the other, in the order in which it was said.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ThreadId, check_client_id
from holdfast.domain.run import Run
from holdfast.domain.thread import NewThread
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.spawning import MAX_INPUT, Spawner, mode_below
from holdfast.tools.tool import Call

AgentName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
Text: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_INPUT, description="What to say. It sees nothing else of this conversation."),
]
Thread: TypeAlias = Annotated[
    str | None,
    Meta(description="The `thread_id` of an agent that works on the same task, to talk to that one in particular."),
]


class Messages:
    """Brings what agents say to each other."""

    def __init__(self, spawner: Spawner, peers: SubagentRuns) -> None:
        self._spawner = spawner
        self._peers = peers

    async def bring(self, call: Call, *, agent: str, message: str, thread: str | None, awaited: bool) -> Run:
        """Say something to an agent, once, and return the run that hears it."""
        new = await self._spawner.child(
            call, agent=agent, input=message, mode=mode_below(call), priority=call.run.priority
        )
        if thread is not None:
            new = replace(new, thread=ThreadId(check_client_id(thread, field="thread_id")))
        else:
            assert isinstance(new.thread, NewThread)
            new = replace(new, thread=replace(new.thread, id=conversation(call.run.thread_id, agent)))
        return await self._peers.begin(call.lease, new, awaited=awaited, unborn=call.unborn)


def conversation(thread: ThreadId, agent: str) -> ThreadId:
    """Return the thread of the conversation that a thread has with an agent."""
    return ThreadId(derived_id("thr", key=f"{thread}/{agent}"))
