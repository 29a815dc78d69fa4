"""The agent tools: `agent_spawn` starts a child run, `agent_message` and `agent_send` talk to another agent.

A message starts a run on a thread of the other agent. Each thread has one conversation with each agent that it names,
which lasts as long as the thread; a conversation that is busy takes messages one after the other, in the order they
were sent.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ThreadId, check_client_id
from holdfast.domain.limits import check_children
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.tool import ToolClass
from holdfast.ports.runtime import SubagentRuns
from holdfast.tools.child_runs import (
    MAX_CHILD_INPUT_CHARS,
    Spawner,
    child_mode,
    child_run_id,
    child_started_event,
    child_thread_id,
    ended_run_result,
)
from holdfast.tools.tool import ChildWait, ResumeCause, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, TypedTool, tool_spec

AgentNameArgument: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
MessageArgument: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_CHILD_INPUT_CHARS,
        description="What to say. It sees nothing else of this conversation.",
    ),
]
ThreadIdArgument: TypeAlias = Annotated[
    str | None,
    Meta(description="The `thread_id` of an agent that works on the same task, to talk to that one in particular."),
]


class AgentMessenger:
    """Brings what agents say to each other."""

    def __init__(self, spawner: Spawner, peers: SubagentRuns) -> None:
        self._spawner = spawner
        self._peers = peers

    async def send(self, call: ToolContext, *, agent: str, message: str, thread: str | None, awaited: bool) -> Run:
        """Say something to an agent, once, and return the run that hears it."""
        new = await self._spawner.child(
            call, agent=agent, input=message, mode=child_mode(call), priority=call.run.priority
        )
        if thread is not None:
            new = replace(new, thread=ThreadId(check_client_id(thread, field="thread_id")))
        else:
            assert isinstance(new.thread, NewThread)
            new = replace(new, thread=replace(new.thread, id=conversation_thread_id(call.run.thread_id, agent)))
        return await self._peers.spawn(call.lease, new, awaited=awaited, pending_spawns=call.pending_children)


def conversation_thread_id(thread: ThreadId, agent: str) -> ThreadId:
    """Return the thread of the conversation that a thread has with an agent."""
    return ThreadId(derived_id("thr", key=f"{thread}/{agent}"))


class AgentSpawnArguments(ToolArguments, frozen=True, kw_only=True):
    """Give a part of the work to another agent. It sees the input and nothing else of this conversation."""

    agent: Annotated[str, Meta(min_length=1, max_length=128, description="The name of the agent.")]
    input: Annotated[
        str,
        Meta(
            min_length=1, max_length=MAX_CHILD_INPUT_CHARS, description="What it shall do, and all that it must know."
        ),
    ]
    wait: Annotated[bool, Meta(description="Whether to wait for its result, or let it work beside you.")] = True


AGENT_SPAWN_SPEC: Final = tool_spec(AgentSpawnArguments, name="agent_spawn", kind=ToolClass.TRANSACTIONAL)


def agent_spawn(spawner: Spawner, peers: SubagentRuns) -> TypedResumableTool[AgentSpawnArguments]:
    """Return the tool, which spawns what `spawner` allows, as long as not too many of the `peers` are at work."""

    async def spawn(call: ToolContext, asked: AgentSpawnArguments) -> ToolResult:
        mode, priority = child_mode(call), call.run.priority
        child = await spawner.child(call, agent=asked.agent, input=asked.input, mode=mode, priority=priority)
        check_children(call.run.limits, await peers.count_active_children(call.lease) + call.pending_children)
        if asked.wait:
            return ToolResult(children=[child], wait=ChildWait(run_id=child_run_id(call)))
        return ToolResult(
            content={**_child_ids(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[child_started_event(call, agent=asked.agent)],
        )

    return TypedResumableTool(AGENT_SPAWN_SPEC, AgentSpawnArguments, run=spawn, resume=_resume_agent_spawn)


async def _resume_agent_spawn(call: ToolContext, arguments: AgentSpawnArguments, cause: ResumeCause) -> ToolResult:
    return ended_run_result(AGENT_SPAWN_SPEC, f"agent `{arguments.agent}`", cause, if_preempted=_child_ids(call))


def _child_ids(call: ToolContext) -> dict[str, str]:
    return {"run_id": child_run_id(call), "thread_id": child_thread_id(call)}


class AgentMessageArguments(ToolArguments, frozen=True, kw_only=True):
    """Say something to another agent and wait for its reply. It remembers what you said to it before."""

    agent: AgentNameArgument
    message: MessageArgument
    thread_id: ThreadIdArgument = None


AGENT_MESSAGE_SPEC: Final = tool_spec(AgentMessageArguments, name="agent_message", kind=ToolClass.TRANSACTIONAL)


def agent_message(messages: AgentMessenger) -> TypedResumableTool[AgentMessageArguments]:
    """Return the tool, which has `messages` brought."""

    async def say(call: ToolContext, asked: AgentMessageArguments) -> ToolResult:
        run = await messages.send(call, agent=asked.agent, message=asked.message, thread=asked.thread_id, awaited=True)
        return ToolResult(wait=ChildWait(run_id=run.id))

    return TypedResumableTool(AGENT_MESSAGE_SPEC, AgentMessageArguments, run=say, resume=_resume_agent_message)


async def _resume_agent_message(call: ToolContext, arguments: AgentMessageArguments, cause: ResumeCause) -> ToolResult:
    return ended_run_result(
        AGENT_MESSAGE_SPEC, f"agent `{arguments.agent}`", cause, if_preempted={"run_id": child_run_id(call)}
    )


class AgentSendArguments(ToolArguments, frozen=True, kw_only=True):
    """Say something to another agent and go on. It remembers what you said before; you are told when it has replied."""

    agent: AgentNameArgument
    message: MessageArgument
    thread_id: ThreadIdArgument = None


AGENT_SEND_SPEC: Final = tool_spec(AgentSendArguments, name="agent_send", kind=ToolClass.TRANSACTIONAL)


def agent_send(messages: AgentMessenger) -> TypedTool[AgentSendArguments]:
    """Return the tool, which has `messages` brought."""

    async def send(call: ToolContext, asked: AgentSendArguments) -> ToolResult:
        run = await messages.send(call, agent=asked.agent, message=asked.message, thread=asked.thread_id, awaited=False)
        return ToolResult(
            content={"run_id": run.id, "thread_id": run.thread_id, "status": str(run.status)},
            events=[child_started_event(call, agent=asked.agent, thread=run.thread_id)],
        )

    return TypedTool(AGENT_SEND_SPEC, AgentSendArguments, run=send)
