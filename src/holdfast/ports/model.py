"""Ports of models: stream one model call, find models by name, and count tokens.

An adapter streams a single call; retries, recording and budgets are the caller's task.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.domain.agent import ThinkingLevel
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.model_provider import KnownModel, KnownProvider
from holdfast.domain.step import Lane


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool definition as sent to the model; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Json]


class ModelCallPurpose(StrEnum):
    """The purpose of a model call."""

    TURN = "turn"
    SUMMARY = "summary"
    """A summary of the conversation, which is not itself a turn of it."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Generation settings; null means the model's default."""

    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    max_output_tokens: int | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model call: everything that is sent to the model."""

    run_id: RunId
    system: str
    messages: Sequence[Message | NewMessage]
    """The conversation, oldest first. Tool results follow the message with their tool calls."""
    tools: Sequence[ToolDefinition] = ()
    settings: ModelSettings = ModelSettings()
    purpose: ModelCallPurpose = ModelCallPurpose.TURN
    output_schema: dict[str, Json] | None = None
    """The JSON Schema of the final answer: a model that can enforce it does, and the caller checks it in any case."""
    position: int = 0
    """Number of assistant messages since the user message that started this turn of the conversation."""


class TextDelta(msgspec.Struct, frozen=True):
    """A piece of the response text."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of the reasoning text."""

    text: str


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The start of a tool call, whose arguments follow. `id` is unique within this response."""

    id: ToolCallId
    name: str


class ToolArgumentsDelta(msgspec.Struct, frozen=True):
    """A piece of the JSON arguments of a tool call."""

    id: ToolCallId
    arguments: str


class ModelFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The last delta of every successful call."""

    usage: Usage
    """The cost is null if the price is unknown."""
    model: str | None = None
    """The name of the model that responded, if it is one of several."""
    reason: Literal["stop", "length", "tool_calls", "refused"] = "stop"
    provider_data: dict[str, Json] = {}
    """Data that the provider needs back with this message, such as signed reasoning. It is stored in
    `metadata["provider"]` of the assistant message, and only the adapter interprets it."""
    lane: Lane | None = None
    """How the call was sent; null for a model without a provider."""


ModelDelta: TypeAlias = TextDelta | ReasoningDelta | ToolCallStarted | ToolArgumentsDelta | ModelFinished


class Model(Protocol):
    """One model of one provider."""

    @property
    def name(self) -> str:
        """The name under which the model was requested."""

    @property
    def address(self) -> str | None:
        """The address of the provider, for the log; null if there is none, or the provider's library does not tell."""

    @property
    def context_window(self) -> int:
        """Maximum number of tokens of a call, input and output together."""

    @property
    def price_known(self) -> bool:
        """Whether the cost of a call will be known."""

    @property
    def idle_timeout_seconds(self) -> float:
        """Maximum time between two deltas of a call."""

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the cost in dollars of that many tokens, or null if unknown. Used for calls that were interrupted."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Make a call. Leaving the context ends the call and its connection at once.

        A stream ends with `ModelFinished` or with an error: `ModelUnavailable` if the same call may succeed later,
        `ContextOverflow` if it is too long, `ModelRefused` if it can never succeed. It never ends silently.
        """


class Models(Protocol):
    """The models that agents can use."""

    def find(self, name: str, *, folder: str | None = None) -> Model:
        """Return the model `provider:name`, importing its provider, or raise `Invalid` with a remedy.

        Paths in names are relative to `folder`, the agent's folder. Finding the same name again is free.
        """

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        """Return a model that uses the first of these, and falls back to the next while one is unavailable."""

    async def prepare(self, names: Sequence[str]) -> None:
        """Import the providers of these models without blocking the event loop, so that `find` is cheap."""


class KnownModels(Protocol):
    """The models offered for selection. A model that is not listed may work too."""

    async def providers(self) -> list[KnownProvider]:
        """Return the providers, those from the settings first; whether a key is set is checked on every call."""

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers, by name; prices are those of the first request's day."""


class TokenCounter(Protocol):
    """Counts tokens, exactly or by an estimate with a known error."""

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""
