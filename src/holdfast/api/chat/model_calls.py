"""Model calls without an agent: the catalog of models, and one call of one model. Nothing is stored."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.domain.agent import SCRIPT_PREFIX
from holdfast.domain.content import Content
from holdfast.domain.errors import Invalid, ModelUnavailable
from holdfast.domain.ids import RunId
from holdfast.domain.limits import MAX_SAFE_INTEGER, Usage
from holdfast.domain.message import MAX_INPUT_MESSAGES, NewMessage, Role
from holdfast.domain.model_provider import KnownModel, KnownProvider
from holdfast.ports.model import KnownModels, ModelFinished, ModelRequest, Models, ModelSettings, TextDelta


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

    def new_messages(self) -> list[NewMessage]:
        """Return the messages as the domain knows them."""
        return [NewMessage(role=Role(message.role), content=message.content) for message in self.messages]

    def settings(self) -> ModelSettings:
        """Return how the model should answer."""
        return ModelSettings(temperature=self.temperature, max_output_tokens=self.max_tokens)


_NO_RUN_ID: Final = RunId("none")
"""Calls are of a run elsewhere; this one is of none."""


class ModelCallResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a model said."""

    model: str
    output: str
    finish_reason: str
    usage: Usage


class ModelCalls:
    """What can be done with models. Nothing of it is kept."""

    def __init__(self, *, models: Models, known: KnownModels) -> None:
        self._models = models
        self._known = known

    async def providers(self) -> list[KnownProvider]:
        """Return the providers, and which of them have a key."""
        return await self._known.providers()

    async def models(self) -> list[KnownModel]:
        """Return the models that are known by name."""
        return await self._known.models()

    async def call(
        self, model: str, messages: Sequence[NewMessage], *, system: str, settings: ModelSettings
    ) -> ModelCallResponse:
        """Call a model once, and return all that it says; it is not tried again."""
        if model.startswith(SCRIPT_PREFIX):  # its name is the path of a file
            raise Invalid("a script belongs to an agent: chat with that", field="model")
        await self._models.prepare([model])
        found = self._models.find(model)
        request = ModelRequest(run_id=_NO_RUN_ID, system=system, messages=messages, settings=settings)
        said: list[str] = []
        async with found.stream(request) as deltas:
            async for delta in deltas:
                match delta:
                    case TextDelta(text=text):
                        said.append(text)
                    case ModelFinished(usage=usage, reason=reason):
                        return ModelCallResponse(model=model, output="".join(said), finish_reason=reason, usage=usage)
                    case _:
                        pass
        raise ModelUnavailable(f"`{model}` ended without a word")
