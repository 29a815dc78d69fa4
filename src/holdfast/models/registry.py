"""The registry of models, by name: `scripted:<path>` relative to the agent's folder, or `<provider>:<model>`.

A provider comes from the settings, else from pydantic-ai. Its library is imported when one of its models is first
requested; the list of known models comes from pydantic-ai and genai-prices, and nothing is fetched. A
`FallbackModel` tries the next model only after an outage and before any output: a refused call is an error that the
next model would hide.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.domain.agent import SCRIPTED_PROVIDER
from holdfast.domain.errors import Invalid, ModelUnavailable
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS, KnownModel, KnownProvider, Providers
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import Model, ModelDelta, ModelRequest

if TYPE_CHECKING:
    from holdfast.models.provider_clients import ProviderClients
    from holdfast.models.provider_model import ProviderModel

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


class ModelRegistry:
    """`Models`, with connections that close when it does. It belongs to one event loop."""

    def __init__(
        self,
        providers: Providers | None = None,
        *,
        timeout_seconds: float = DEFAULT_PROVIDER_TIMEOUT_SECONDS,
        wrap: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        """Know the models of `providers` beside the built-in; each is given out as `wrapped` returns it."""
        self._providers = dict(providers or {})
        if SCRIPTED_PROVIDER in self._providers:
            raise Invalid(f"a provider cannot be named `{SCRIPTED_PROVIDER}`", field="providers")
        self._timeout = timeout_seconds
        self._wrap = wrap
        self._scripted: dict[tuple[str, str | None], Model] = {}
        self._provided: dict[str, Model] = {}
        self._clients: ProviderClients | None = None
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
        return models[0] if len(models) == 1 else FallbackModel(models)

    async def prepare(self, names: Sequence[str]) -> None:
        """Make those of these models in a thread whose libraries may have to be imported."""
        for name in names:
            provider, _, model = name.partition(":")
            if provider and model and provider != SCRIPTED_PROVIDER and name not in self._provided:
                with suppress(Invalid):  # whoever asks for it is told
                    self._register(name, await asyncio.to_thread(self._provider_model, name, provider))

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
            scripted = self._wrap(ScriptedModel(name, Path(folder or "", model)))
            return self._scripted.setdefault((name, folder), scripted)
        return self._register(name, self._provider_model(name, provider))

    def _register(self, name: str, model: "ProviderModel") -> Model:
        return self._provided.setdefault(name, self._wrap(model))

    def _provider_model(self, name: str, provider: str) -> "ProviderModel":
        from holdfast.models.provider_clients import ProviderClients

        with self._connecting:
            self._clients = self._clients or ProviderClients()
            settings = self._providers.get(provider)
            if settings is not None:
                return self._clients.custom(name, settings)
            return self._clients.built_in(name, timeout=self._timeout, others=[SCRIPTED_PROVIDER, *self._providers])


class FallbackModel:
    """`Model` that is the first available one."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = list(models)

    @property
    def name(self) -> str:
        """The names of all, in order."""
        return ", ".join(model.name for model in self._models)

    @property
    def context_window(self) -> int:
        """What each of them can read."""
        return min(model.context_window for model in self._models)

    @property
    def price_known(self) -> bool:
        """Whether the cost will be known whichever answers."""
        return all(model.price_known for model in self._models)

    @property
    def idle_timeout_seconds(self) -> float:
        """As long as all of them, one after the other: each is left when its own time is over."""
        return sum(model.idle_timeout_seconds for model in self._models)

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return what the dearest of them would cost, since nobody knows which it was."""
        costs = [model.cost(input_tokens=input_tokens, output_tokens=output_tokens) for model in self._models]
        known = [cost for cost in costs if cost is not None]
        return max(known) if len(known) == len(costs) else None

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelDelta], None]:
        """Ask one after the other, until one begins to answer."""
        outages: list[ModelUnavailable] = []
        for model in self._models:
            async with AsyncExitStack() as stack:
                try:
                    first, deltas = await _first_delta(model, request, stack)
                except ModelUnavailable as exc:
                    outages.append(exc)
                    continue
                yield await stack.enter_async_context(aclosing(_chain(first, deltas)))
                return
        raise _all_unavailable(outages)


async def _first_delta(
    model: Model, request: ModelRequest, stack: AsyncExitStack
) -> tuple[ModelDelta, AsyncIterator[ModelDelta]]:
    """Return the first of an answer and the rest, or raise `ModelUnavailable` once the model is silent for too long."""
    limit = asyncio.timeout(model.idle_timeout_seconds)
    try:
        async with limit:
            deltas = await stack.enter_async_context(model.stream(request))
            return await anext(deltas), deltas
    except TimeoutError as exc:
        if not limit.expired():
            raise  # the model's own
        raise ModelUnavailable(f"`{model.name}` said nothing for {model.idle_timeout_seconds:g} seconds") from exc


async def _chain(first: ModelDelta, rest: AsyncIterator[ModelDelta]) -> AsyncGenerator[ModelDelta, None]:
    yield first
    async for delta in rest:
        yield delta


def _all_unavailable(outages: Sequence[ModelUnavailable]) -> ModelUnavailable:
    if len(outages) == 1:
        return outages[0]
    waits = [outage.details["retry_after"] for outage in outages if "retry_after" in outage.details]
    soonest = {"retry_after": min(waits)} if waits else {}
    return ModelUnavailable("; ".join(outage.message for outage in outages), **soonest)


class ListedModels:
    """`KnownModels`, beside the providers of the settings."""

    def __init__(self, providers: Callable[[], Providers]) -> None:
        """Read the settings through `providers`, whenever they are asked for."""
        self._providers = providers

    async def providers(self) -> list[KnownProvider]:
        """Return the providers."""
        built_in = await asyncio.to_thread(_built_in_providers)
        added = {name: settings.api_key_env for name, settings in sorted(self._providers().items())}
        return [
            *(_known_provider(name, variable, from_settings=True) for name, variable in added.items()),
            *(_known_provider(name, variable, from_settings=False) for name, variable in built_in if name not in added),
        ]

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers."""
        return await asyncio.to_thread(_known_models)


def _known_provider(name: str, variable: str | None, *, from_settings: bool) -> KnownProvider:
    has_key = variable is None or bool(os.environ.get(variable))
    return KnownProvider(name=name, from_settings=from_settings, key_variable=variable, has_key=has_key)


@cache
def _built_in_providers() -> list[tuple[str, str]]:
    from holdfast.models.provider_clients import key_variable, known_providers

    return [(name, key_variable(name)) for name in known_providers()]


@cache
def _known_models() -> list[KnownModel]:
    from pydantic_ai.models import known_model_names

    providers = {name for name, _ in _built_in_providers()}
    named = (name.partition(":") for name in sorted(known_model_names()))
    return [_known_model(provider, model) for provider, _, model in named if model and provider in providers]


def _known_model(provider: str, model: str) -> KnownModel:
    from holdfast.models.prices import current_prices, listed_model

    info: ModelInfo | None = listed_model(model, provider=provider)
    prices: Any = None if info is None else current_prices(info)
    return KnownModel(
        id=f"{provider}:{model}",
        provider=provider,
        context_window=None if info is None else info.context_window,
        input_usd_per_million=_price(prices, "input_mtok"),
        output_usd_per_million=_price(prices, "output_mtok"),
        cached_input_usd_per_million=_price(prices, "cache_read_mtok"),
    )


def _price(prices: Any, name: str) -> float | None:
    """Return a price; of one that changes with the length of a call, where it begins."""
    found = getattr(prices, name, None)
    base = getattr(found, "base", found)
    return float(base) if isinstance(base, Decimal | int | float) else None
