"""The context of a task's newest model call, in the shape of chat completions."""

from typing import Literal

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.context import ReadContext, ReadMessage
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, ToolCall
from holdfast.domain.run import Run
from holdfast.domain.step import Step
from holdfast.ports.log import Contexts, Steps


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, with its arguments as JSON in a string."""

    name: str
    arguments: str


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a model asked for."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class SentMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as it was sent."""

    role: str
    content: str | list[dict[str, Json]] | None
    tool_calls: list[SentCall] = []
    tool_call_id: str | None = None


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the model was told in the most recent iteration."""

    messages: list[SentMessage]
    tools: list[str]
    iteration: int
    timestamp: Instant | None


def context_of(read: ReadContext, *, iteration: int, step: Step | None) -> TaskContext:
    """Return what a model was told."""
    system = [SentMessage(role="system", content=read.system)] if read.system else []
    return TaskContext(
        messages=[*system, *map(sent, read.messages)],
        tools=[tool["name"] for tool in read.tools],
        iteration=iteration,
        timestamp=None if step is None else step.started_at,
    )


async def newest_context(contexts: Contexts, steps: Steps, run: Run) -> TaskContext | None:
    """Return what the model was told in the newest iteration of a run; nothing before the first."""
    told = await contexts.steps(run.space_id, run.id)
    if not told:
        return None
    newest = max(told)
    calls = [step for step in await steps.of_run(run.space_id, run.id) if step.number in told and step.number <= newest]
    iteration = sum(step.attempt for step in calls)  # one that a crash cut off was made again
    step = next((each for each in calls if each.number == newest), None)
    return context_of(await contexts.get(run.space_id, run.id, newest), iteration=iteration, step=step)


def sent(message: ReadMessage | Message) -> SentMessage:
    """Return a message in that shape."""
    content = message.content if isinstance(message.content, str) else msgspec.to_builtins(message.content)
    return SentMessage(
        role=message.role,
        content=None if message.tool_calls and not content else content,
        tool_calls=[_call(call) for call in message.tool_calls],
        tool_call_id=message.tool_call_id,
    )


def _call(call: ToolCall) -> SentCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    return SentCall(id=call.id, function=CalledFunction(name=call.name, arguments=arguments))
