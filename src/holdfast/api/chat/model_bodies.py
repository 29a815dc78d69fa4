"""What requests about models carry, and what they are answered with."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.domain.content import Content
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.message import MAX_INPUT_MESSAGES, NewMessage, Role
from holdfast.domain.model_provider import KnownModel, KnownProvider
from holdfast.ports.model import ModelSettings


class ModelCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The providers and which have a key, and the models that are known by name."""

    providers: list[KnownProvider]
    models: list[KnownModel]


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that was said."""

    content: Content
    role: Literal["user", "assistant", "system"] = "user"


class ModelCallBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A call of a model: what it is told, and how it should answer."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[PromptMessage], Meta(min_length=1, max_length=MAX_INPUT_MESSAGES)]
    system: str = ""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(gt=0, le=MAX_SAFE_INTEGER)] | None = None

    def said(self) -> list[NewMessage]:
        """Return the messages as the domain knows them."""
        return [NewMessage(role=Role(message.role), content=message.content) for message in self.messages]

    def settings(self) -> ModelSettings:
        """Return how the model should answer."""
        return ModelSettings(temperature=self.temperature, max_output_tokens=self.max_tokens)
