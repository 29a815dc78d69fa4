"""The models there are, by name: `scripted:<path>`, a script relative to the agent's folder, or `<provider>:<model>`.

A provider is one from the settings, else one that pydantic-ai knows. Its library is imported when one of its models is
first asked for.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.domain.agent import SCRIPTED_PROVIDER
from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS, Providers
from holdfast.models.fallback import Fallback
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import Model

if TYPE_CHECKING:
    from holdfast.models.clients import Clients
    from holdfast.models.provider import ProviderModel


class Catalog:
    """`Models`, with connections that close when it does. It belongs to one event loop."""

    def __init__(
        self,
        providers: Providers | None = None,
        *,
        timeout_seconds: float = DEFAULT_PROVIDER_TIMEOUT_SECONDS,
        wrapped: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        """Know the models of `providers` beside the built-in; each is given out as `wrapped` returns it."""
        self._providers = dict(providers or {})
        if SCRIPTED_PROVIDER in self._providers:
            raise Invalid(f"a provider cannot be named `{SCRIPTED_PROVIDER}`", field="providers")
        self._timeout = timeout_seconds
        self._wrapped = wrapped
        self._scripted: dict[tuple[str, str | None], Model] = {}
        self._provided: dict[str, Model] = {}
        self._clients: Clients | None = None
        self._connecting = Lock()

    def find(self, name: str, *, folder: str | None = None) -> Model:
        """Return the model of that name."""
        found = self._provided.get(name) or self._scripted.get((name, folder))
        return found or self._make(name, folder)

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        """Return the first of these models, with the others to fall back on while it is not available."""
        if not names:
            raise Invalid("name at least one model", field="model")
        models = [self.find(name, folder=folder) for name in names]
        return models[0] if len(models) == 1 else Fallback(models)

    async def prepare(self, names: Sequence[str]) -> None:
        """Make those of these models in a thread whose libraries may have to be imported."""
        for name in names:
            provider, _, model = name.partition(":")
            if provider and model and provider != SCRIPTED_PROVIDER and name not in self._provided:
                with suppress(Invalid):  # whoever asks for it is told
                    self._keep(name, await asyncio.to_thread(self._connected, name, provider))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provided.clear()
        if self._clients is not None:
            await self._clients.aclose()

    def _make(self, name: str, folder: str | None) -> Model:
        provider, _, model = name.partition(":")
        if not (provider and model):
            raise Invalid(f"`{name}` names no model: write `provider:model` or `{SCRIPTED_PROVIDER}:path`", model=name)
        if provider == SCRIPTED_PROVIDER:
            scripted = self._wrapped(ScriptedModel(name, Path(folder or "", model)))
            return self._scripted.setdefault((name, folder), scripted)
        return self._keep(name, self._connected(name, provider))

    def _keep(self, name: str, model: "ProviderModel") -> Model:
        return self._provided.setdefault(name, self._wrapped(model))

    def _connected(self, name: str, provider: str) -> "ProviderModel":
        from holdfast.models.clients import Clients

        with self._connecting:
            self._clients = self._clients or Clients()
            settings = self._providers.get(provider)
            if settings is not None:
                return self._clients.custom(name, settings)
            return self._clients.built_in(name, timeout=self._timeout, others=[SCRIPTED_PROVIDER, *self._providers])
