"""What requests of that API are answered with."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.control.openai.completion import Begun, Completion, WantedCall
from holdfast.domain.agent import Agent
from holdfast.domain.instant import millis
from holdfast.domain.limits import Usage

Finish = Literal["stop", "tool_calls"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """An agent. Nobody knows when it was made."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "holdfast"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """All agents that chat."""

    object: Literal["list"] = "list"
    data: list[Model]


class WantedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the caller, with its arguments as JSON in a string."""

    name: str
    arguments: str


class ToolCallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller is asked to run."""

    id: str
    type: Literal["function"] = "function"
    function: WantedFunction


class ToolCallDelta(ToolCallAnswer, frozen=True, kw_only=True):
    """The same in a stream, all at once."""

    index: int


class AssistantAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent said."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None
    tool_calls: list[ToolCallAnswer] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer there is."""

    index: int = 0
    message: AssistantAnswer
    logprobs: None = None
    finish_reason: Finish


class CachedTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that came from a cache."""

    cached_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What all model calls of the completion used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """A completion."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What comes next."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChoiceDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What comes next of the one answer there is."""

    index: int = 0
    delta: Delta
    logprobs: None = None
    finish_reason: Finish | None = None


class CompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a completion."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChoiceDelta]
    usage: CompletionUsage | None | UnsetType = UNSET


def model_of(agent: Agent) -> Model:
    """Return an agent as a model."""
    return Model(id=agent.name)


def id_of(begun: Begun) -> str:
    """Return the id of a completion."""
    return f"chatcmpl-{begun.name}"


def created_at(begun: Begun) -> int:
    """Return the second in which the run was made."""
    return millis(begun.run.created_at) // 1000


def headers_of(begun: Begun) -> Mapping[str, str]:
    """Return what an answer tells besides: where the chat goes on, and how the run is known elsewhere."""
    told = {"X-Holdfast-Thread": begun.run.thread_id, "X-Run-Id": begun.run.id}
    return {**told, "Idempotency-Replayed": "true"} if begun.replayed else told


def finish_of(completion: Completion) -> Finish:
    """Return why a completion ends."""
    return "tool_calls" if completion.calls else "stop"


def answer_of(begun: Begun, completion: Completion) -> ChatCompletion:
    """Return a completion as that API tells it."""
    calls = [ToolCallAnswer(id=each.id, function=_function(each)) for each in completion.calls]
    said = AssistantAnswer(content=completion.text or (None if calls else ""), tool_calls=calls or UNSET)
    return ChatCompletion(
        id=id_of(begun),
        created=created_at(begun),
        model=begun.run.agent_type,
        choices=[Choice(message=said, finish_reason=finish_of(completion))],
        usage=usage_of(completion.usage),
    )


def calls_in_stream(completion: Completion) -> list[ToolCallDelta]:
    """Return what the caller is asked to run."""
    return [
        ToolCallDelta(index=index, id=call.id, function=_function(call)) for index, call in enumerate(completion.calls)
    ]


def usage_of(usage: Usage) -> CompletionUsage:
    """Return tokens by the names of that API."""
    return CompletionUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        prompt_tokens_details=CachedTokens(cached_tokens=usage.cached_input_tokens),
    )


def _function(call: WantedCall) -> WantedFunction:
    return WantedFunction(name=call.name, arguments=msgspec.json.encode(call.arguments).decode())
