"""Models without an agent: which there are, and one call of one."""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.domain.agent import SCRIPT_PREFIX
from holdfast.domain.errors import Invalid, ModelUnavailable
from holdfast.domain.ids import RunId
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage
from holdfast.domain.model_provider import KnownModel, KnownProvider
from holdfast.ports.model import KnownModels, ModelFinished, ModelRequest, Models, ModelSettings, TextDelta

_NO_RUN: Final = RunId("none")
"""Calls are of a run elsewhere; this one is of none."""


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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

    async def known(self) -> list[KnownModel]:
        """Return the models that are known by name."""
        return await self._known.models()

    async def call(
        self, model: str, messages: Sequence[NewMessage], *, system: str, settings: ModelSettings
    ) -> ModelAnswer:
        """Call a model once, and return all that it says; it is not tried again."""
        if model.startswith(SCRIPT_PREFIX):  # its name is the path of a file
            raise Invalid("a script belongs to an agent: chat with that", field="model")
        await self._models.prepare([model])
        found = self._models.find(model)
        request = ModelRequest(run_id=_NO_RUN, system=system, messages=messages, settings=settings)
        said: list[str] = []
        async with found.stream(request) as deltas:
            async for delta in deltas:
                match delta:
                    case TextDelta(text=text):
                        said.append(text)
                    case ModelFinished(usage=usage, reason=reason):
                        return ModelAnswer(model=model, output="".join(said), finish_reason=reason, usage=usage)
                    case _:
                        pass
        raise ModelUnavailable(f"`{model}` ended without a word")
