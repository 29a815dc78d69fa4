"""Model calls without an agent: the catalog of models, and one call of one model. Nothing is stored."""

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
    """The providers with whether a key is set, and the known models."""

    providers: list[KnownProvider]
    models: list[KnownModel]


class PromptMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of the prompt."""

    content: Content
    role: Literal["user", "assistant", "system"] = "user"


class ModelCallBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A call of a model: its messages and settings."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[PromptMessage], Meta(min_length=1, max_length=MAX_INPUT_MESSAGES)]
    system: str = ""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(gt=0, le=MAX_SAFE_INTEGER)] | None = None


_NO_RUN_ID: Final = RunId("none")
"""A model request names a run; this call belongs to none."""


class ModelCallResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The reply of a model."""

    model: str
    output: str
    finish_reason: str
    usage: Usage


class ModelCalls:
    """The use cases of models without an agent."""

    def __init__(self, *, models: Models, known: KnownModels) -> None:
        self._models = models
        self._known = known

    async def catalog(self) -> ModelCatalog:
        """Return the providers with whether a key is set, and the known models."""
        return ModelCatalog(providers=await self._known.providers(), models=await self._known.models())

    async def call(self, body: ModelCallBody) -> ModelCallResponse:
        """Call a model once, without retry, and return its whole reply."""
        model = body.model
        if model.startswith(SCRIPT_PREFIX):  # its name is the path of a file
            raise Invalid("a scripted model belongs to an agent: chat with that agent", field="model")
        await self._models.prepare([model])
        request = ModelRequest(
            run_id=_NO_RUN_ID,
            system=body.system,
            messages=[NewMessage(role=Role(each.role), content=each.content) for each in body.messages],
            settings=ModelSettings(temperature=body.temperature, max_output_tokens=body.max_tokens),
        )
        output: list[str] = []
        async with self._models.find(model).stream(request) as deltas:
            async for delta in deltas:
                match delta:
                    case TextDelta(text=text):
                        output.append(text)
                    case ModelFinished(usage=usage, reason=reason):
                        return ModelCallResponse(model=model, output="".join(output), finish_reason=reason, usage=usage)
                    case _:
                        pass
        raise ModelUnavailable(f"the stream of `{model}` ended without a finish event")
