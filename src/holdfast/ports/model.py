"""Ports of models: streaming one model call, finding models by name, and counting tokens.

An adapter streams one call; its caller retries, records and charges.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.domain.agent import ThinkingLevel as Thinking
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.model_provider import KnownModel, KnownProvider


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Json]


class ModelCallPurpose(StrEnum):
    """What a call is for."""

    TURN = "turn"
    SUMMARY = "summary"
    """A summary of what was said; it is no turn of the conversation."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model should answer; null leaves it to the model."""

    temperature: float | None = None
    thinking: Thinking | None = None
    max_output_tokens: int | None = None


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model: all that it is told."""

    run_id: RunId
    system: str
    messages: Sequence[Message | NewMessage]
    """The conversation, oldest first. Results of tools follow the message that asked for them."""
    tools: Sequence[ToolDefinition] = ()
    settings: ModelSettings = ModelSettings()
    purpose: ModelCallPurpose = ModelCallPurpose.TURN
    position: int = 0
    """How many assistant messages there are since the user message that began this turn of the conversation."""


class TextDelta(msgspec.Struct, frozen=True):
    """More of what is said."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of what is thought."""

    text: str


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The model asks for a tool; its arguments follow. `id` is unique in this answer."""

    id: ToolCallId
    name: str


class ToolArgumentsDelta(msgspec.Struct, frozen=True):
    """More of the JSON of a call's arguments."""

    id: ToolCallId
    arguments: str


class ModelFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The last delta of every call that did not fail."""

    usage: Usage
    """With a cost of null where the price is not known."""
    reason: Literal["stop", "length", "tool_calls", "refused"] = "stop"
    provider_data: dict[str, Json] = {}
    """What the provider wants back with this message, such as signed thoughts: it is kept in `metadata["provider"]`
    of the assistant message, and means something to the adapter only."""


ModelDelta: TypeAlias = TextDelta | ReasoningDelta | ToolCallStarted | ToolArgumentsDelta | ModelFinished


class Model(Protocol):
    """One model of one provider."""

    @property
    def name(self) -> str:
        """The name that it was asked for by."""

    @property
    def context_window(self) -> int:
        """How many tokens a call may have in all."""

    @property
    def price_known(self) -> bool:
        """Whether the cost of a call will be known."""

    @property
    def idle_timeout_seconds(self) -> float:
        """Seconds for which it may say nothing in the middle of a call."""

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the dollars that so many tokens cost, or null if that is not known: for a call that was cut off."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Make a call. Leaving the block ends it, and its connection, at once.

        A stream ends with `ModelFinished` or with an error: `ModelUnavailable` if the same call may succeed later,
        `ContextOverflow` if it is too long, `ModelRefused` if it can never succeed. It never ends silently.
        """


class Models(Protocol):
    """The models there are."""

    def find(self, name: str, *, folder: str | None = None) -> Model:
        """Return the model `provider:name`, or raise `Invalid` and say what to do. Its provider is imported now.

        Paths in names are relative to `folder`, the agent's own. Finding the same name again costs nothing.
        """

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        """Return the first of these models, with the others to fall back on while it is not available."""

    async def prepare(self, names: Sequence[str]) -> None:
        """Import what these models need without holding up the event loop, so that to find them costs little."""


class KnownModels(Protocol):
    """What a person may choose from. A model that is not known may work all the same."""

    async def providers(self) -> list[KnownProvider]:
        """Return the providers, those from the settings first; whether one has a key is looked up each time."""

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers, by name; prices are those of the day they were first asked for."""


class TokenCounter(Protocol):
    """Counts tokens, exactly or by an estimate that says how good it is."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
