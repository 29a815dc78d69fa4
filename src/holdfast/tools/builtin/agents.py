"""The agent tools: `agent_spawn` starts a child run, `agent_message` and `agent_send` talk to another agent.

A message starts a run on a thread of the other agent. Each thread has one conversation with each agent that it names,
which lasts as long as the thread; a busy conversation takes messages one after the other, in the order they were sent.
"""

from typing import Annotated, Final

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
    AgentNameArgument,
    ChildInputArgument,
    WorkspaceSpawner,
    child_mode,
    child_run_id,
    child_started_event,
    child_thread_id,
    ended_run_result,
)
from holdfast.tools.tool import ChildWait, ResumeCause, ToolContext, ToolResult
from holdfast.tools.typed_tool import ToolArguments, TypedResumableTool, TypedTool, tool_spec


class AgentSpawnArguments(ToolArguments, frozen=True, kw_only=True):
    """Give a part of the work to another agent. It sees the input and nothing else of this conversation."""

    agent: AgentNameArgument
    input: ChildInputArgument
    wait: Annotated[bool, Meta(description="Whether to wait for its result, or let it work beside you.")] = True


AGENT_SPAWN_SPEC: Final = tool_spec(AgentSpawnArguments, name="agent_spawn", kind=ToolClass.TRANSACTIONAL)


def agent_spawn(spawner: WorkspaceSpawner, subagents: SubagentRuns) -> TypedResumableTool[AgentSpawnArguments]:
    """Return the tool, which creates children with `spawner` and counts the active ones with `subagents`."""

    async def spawn(call: ToolContext, arguments: AgentSpawnArguments) -> ToolResult:
        child = await spawner.child(
            call, agent=arguments.agent, input=arguments.input, mode=child_mode(call), priority=call.run.priority
        )
        check_children(call.run.limits, await subagents.count_active_children(call.lease) + call.pending_children)
        if arguments.wait:
            return ToolResult(children=[child], wait=ChildWait(run_id=child_run_id(call)))
        return ToolResult(
            content={**_child_ids(call), "status": str(RunStatus.QUEUED)},
            children=[child],
            events=[child_started_event(call, agent=arguments.agent)],
        )

    async def resume(call: ToolContext, arguments: AgentSpawnArguments, cause: ResumeCause) -> ToolResult:
        return ended_run_result(AGENT_SPAWN_SPEC, f"agent `{arguments.agent}`", cause, if_preempted=_child_ids(call))

    return TypedResumableTool(AGENT_SPAWN_SPEC, AgentSpawnArguments, run=spawn, resume=resume)


def _child_ids(call: ToolContext) -> dict[str, str]:
    return {"run_id": child_run_id(call), "thread_id": child_thread_id(call)}


class MessageArguments(ToolArguments, frozen=True, kw_only=True):
    """The arguments of both tools that send a message."""

    agent: AgentNameArgument
    message: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_CHILD_INPUT_CHARS,
            description="What to say. It sees nothing else of this conversation.",
        ),
    ]
    thread_id: Annotated[
        str | None,
        Meta(description="The `thread_id` of an agent that works on the same task, to talk to that one in particular."),
    ] = None


def conversation_thread_id(thread: ThreadId, agent: str) -> ThreadId:
    """Return the thread of the conversation between a thread and an agent."""
    return ThreadId(derived_id("thr", key=f"{thread}/{agent}"))


async def _send(
    spawner: WorkspaceSpawner, subagents: SubagentRuns, call: ToolContext, arguments: MessageArguments, *, awaited: bool
) -> Run:
    """Send a message to an agent, once per call, and return the run that receives it."""
    mode, priority = child_mode(call), call.run.priority
    new = await spawner.child(call, agent=arguments.agent, input=arguments.message, mode=mode, priority=priority)
    if arguments.thread_id is not None:
        new = replace(new, thread=ThreadId(check_client_id(arguments.thread_id, field="thread_id")))
    else:
        assert isinstance(new.thread, NewThread)
        thread_id = conversation_thread_id(call.run.thread_id, arguments.agent)
        new = replace(new, thread=replace(new.thread, id=thread_id))
    return await subagents.spawn(call.lease, new, awaited=awaited, pending_spawns=call.pending_children)


class AgentMessageArguments(MessageArguments, frozen=True, kw_only=True):
    """Send a message to another agent and wait for its reply. It remembers your earlier messages."""


AGENT_MESSAGE_SPEC: Final = tool_spec(AgentMessageArguments, name="agent_message", kind=ToolClass.TRANSACTIONAL)


def agent_message(spawner: WorkspaceSpawner, subagents: SubagentRuns) -> TypedResumableTool[AgentMessageArguments]:
    """Return the tool, which creates runs with `spawner` and starts them with `subagents`."""

    async def send(call: ToolContext, arguments: AgentMessageArguments) -> ToolResult:
        run = await _send(spawner, subagents, call, arguments, awaited=True)
        return ToolResult(wait=ChildWait(run_id=run.id))

    async def resume(call: ToolContext, arguments: AgentMessageArguments, cause: ResumeCause) -> ToolResult:
        if_preempted: dict[str, str] = {"run_id": child_run_id(call)}
        return ended_run_result(AGENT_MESSAGE_SPEC, f"agent `{arguments.agent}`", cause, if_preempted=if_preempted)

    return TypedResumableTool(AGENT_MESSAGE_SPEC, AgentMessageArguments, run=send, resume=resume)


class AgentSendArguments(MessageArguments, frozen=True, kw_only=True):
    """Send a message to another agent and go on. It remembers your earlier messages; you are notified of its reply."""


AGENT_SEND_SPEC: Final = tool_spec(AgentSendArguments, name="agent_send", kind=ToolClass.TRANSACTIONAL)


def agent_send(spawner: WorkspaceSpawner, subagents: SubagentRuns) -> TypedTool[AgentSendArguments]:
    """Return the tool, which creates runs with `spawner` and starts them with `subagents`."""

    async def send(call: ToolContext, arguments: AgentSendArguments) -> ToolResult:
        run = await _send(spawner, subagents, call, arguments, awaited=False)
        return ToolResult(
            content={"run_id": run.id, "thread_id": run.thread_id, "status": str(run.status)},
            events=[child_started_event(call, agent=arguments.agent, thread=run.thread_id)],
        )

    return TypedTool(AGENT_SEND_SPEC, AgentSendArguments, run=send)
