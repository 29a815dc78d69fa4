"""Registry of models by name: `scripted:<path>` relative to the agent's folder, or `<provider>:<model>`.

A provider comes from the settings, else from pydantic-ai. Its library is imported when one of its models is first
requested; the list of known models comes from pydantic-ai and genai-prices, without a network. A `FallbackModel`
tries the next model only after an outage and before any output: it never hides a refused call.
"""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from holdfast.domain.agent import SCRIPTED_PROVIDER
from holdfast.domain.errors import Invalid, ModelUnavailable
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS, KnownModel, KnownProvider, Providers
from holdfast.domain.packages import is_installed
from holdfast.models.packages import check_package, key_variable, listed_providers, provider_key
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

    from holdfast.models.provider_clients import ProviderClients
    from holdfast.models.provider_model import ProviderModel


_log: Final = logging.getLogger("holdfast.models")


class ModelRegistry:
    """`Models` with shared connections, which it closes. It belongs to one event loop."""

    def __init__(
        self,
        providers: Providers | None = None,
        *,
        timeout_seconds: float = DEFAULT_PROVIDER_TIMEOUT_SECONDS,
        direct_lane_off: Collection[str] = (),
        wrap: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        """Add `providers` to the built-in ones; `find` returns each model wrapped by `wrap`.

        Models of the providers in `direct_lane_off` are always called by their library.
        """
        self._providers = dict(providers or {})
        if SCRIPTED_PROVIDER in self._providers:
            raise Invalid(f"a provider cannot be named `{SCRIPTED_PROVIDER}`", field="providers")
        self._timeout = timeout_seconds
        self._direct_lane_off = direct_lane_off
        self._wrap = wrap
        self._scripted: dict[tuple[str, str | None], Model] = {}
        self._provided: dict[str, Model] = {}
        self._clients: ProviderClients | None = None
        self._connecting = Lock()

    def find(self, name: str, *, folder: str | None = None) -> Model:
        """Return the model of that name."""
        model = self._provided.get(name) or self._scripted.get((name, folder))
        return model or self._create(name, folder)

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        """Return the first of these models, with the others as fallbacks while it is unavailable."""
        if not names:
            raise Invalid("no model is named: name at least one", field="model")
        models = [self.find(name, folder=folder) for name in names]
        return models[0] if len(models) == 1 else FallbackModel(models)

    async def prepare(self, names: Sequence[str]) -> None:
        """Create these models in a thread, because importing the library of a provider blocks."""
        for name in names:
            provider, _, model = name.partition(":")
            if provider and model and provider != SCRIPTED_PROVIDER and name not in self._provided:
                with suppress(Invalid):  # `find` raises it again for the caller
                    self._register(name, await asyncio.to_thread(self._provider_model, name, provider))

    def reason_against_direct_lane(self, name: str) -> str | None:
        """Return why a model is called by its library; null if it takes the direct lane, or needs none."""
        model = self._provider_model(name, name.partition(":")[0])
        return model.reason_against_direct_lane

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._provided.clear()
        if self._clients is not None:
            await self._clients.aclose()

    def _create(self, name: str, folder: str | None) -> Model:
        provider, _, model = name.partition(":")
        if not (provider and model):
            raise Invalid(
                f"`{name}` is not a model name: write `provider:model` or `{SCRIPTED_PROVIDER}:path`", model=name
            )
        if provider == SCRIPTED_PROVIDER:
            scripted = self._wrap(ScriptedModel(name, Path(folder or "", model)))
            return self._scripted.setdefault((name, folder), scripted)
        return self._register(name, self._provider_model(name, provider))

    def _register(self, name: str, model: "ProviderModel") -> Model:
        return self._provided.setdefault(name, self._wrap(model))

    def _provider_model(self, name: str, provider: str) -> "ProviderModel":
        settings = self._providers.get(provider)
        if settings is not None:
            provider_key(name, settings)
        check_package(name, self._providers)
        with self._connecting, _imports_outlive_collections():
            from holdfast.models.provider_clients import ProviderClients

            self._clients = self._clients or ProviderClients(direct_lane_off=self._direct_lane_off)
            if settings is not None:
                return self._clients.custom(name, settings)
            return self._clients.built_in(name, timeout=self._timeout, others=[SCRIPTED_PROVIDER, *self._providers])


@contextmanager
def _imports_outlive_collections() -> Iterator[None]:
    """Exclude what the block imports from garbage collection.

    A collection walks all objects at once, and a library of a provider has so many that the event loop would stand
    still for 0.1 to 0.2 s whenever many runs are under way.
    """
    modules = len(sys.modules)
    yield
    if len(sys.modules) > modules:
        gc.freeze()


class FallbackModel:
    """`Model` that calls the first available one of several."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = list(models)

    @property
    def name(self) -> str:
        """All names, in order."""
        return ", ".join(model.name for model in self._models)

    @property
    def address(self) -> str | None:
        """The addresses of all models, in order."""
        return ", ".join(model.address for model in self._models if model.address is not None) or None

    @property
    def context_window(self) -> int:
        """The smallest context window."""
        return min(model.context_window for model in self._models)

    @property
    def price_known(self) -> bool:
        """Whether the price of every model is known."""
        return all(model.price_known for model in self._models)

    @property
    def idle_timeout_seconds(self) -> float:
        """The sum of the timeouts, because the models are tried in turn."""
        return sum(model.idle_timeout_seconds for model in self._models)

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the highest cost, because the model that answered is not known."""
        costs = [model.cost(input_tokens=input_tokens, output_tokens=output_tokens) for model in self._models]
        known = [cost for cost in costs if cost is not None]
        return max(known) if len(known) == len(costs) else None

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelDelta], None]:
        """Call one model after the other until one starts to respond."""
        outages: list[ModelUnavailable] = []
        for model in self._models:
            async with AsyncExitStack() as stack:
                try:
                    first, deltas = await _first_delta(model, request, stack)
                except ModelUnavailable as exc:
                    outages.append(exc)
                    if len(outages) < len(self._models):  # the caller logs the failure of all
                        place = f" ({model.address})" if model.address else ""
                        _log.warning("falling back to `%s`: %s%s", self._models[len(outages)].name, exc, place)
                    continue
                yield await stack.enter_async_context(aclosing(_response_of(model, first, deltas)))
                return
        if len(outages) == 1:
            raise outages[0]
        waits = [outage.details["retry_after"] for outage in outages if "retry_after" in outage.details]
        details = {"retry_after": min(waits)} if waits else {}
        raise ModelUnavailable("; ".join(outage.message for outage in outages), **details)


async def _first_delta(
    model: Model, request: ModelRequest, stack: AsyncExitStack
) -> tuple[ModelDelta, AsyncIterator[ModelDelta]]:
    """Return the first delta of a response and the rest; raise `ModelUnavailable` after the idle timeout."""
    limit = asyncio.timeout(model.idle_timeout_seconds)
    try:
        async with limit:
            deltas = await stack.enter_async_context(model.stream(request))
            return await anext(deltas), deltas
    except TimeoutError as exc:
        if not limit.expired():
            raise  # raised by the model itself
        raise ModelUnavailable(f"`{model.name}` sent no output for {model.idle_timeout_seconds:g} seconds") from exc


async def _response_of(
    model: Model, first: ModelDelta, rest: AsyncIterator[ModelDelta]
) -> AsyncGenerator[ModelDelta, None]:
    """Yield a response, and name its model at the end."""
    delta: ModelDelta | None = first
    while delta is not None:
        yield replace(delta, model=model.name) if isinstance(delta, ModelFinished) else delta
        delta = await anext(rest, None)


class ListedModels:
    """`KnownModels`: the built-in providers and those of the settings."""

    def __init__(self, providers: Callable[[], Providers]) -> None:
        """Read the current settings by calling `providers`."""
        self._providers = providers

    async def providers(self) -> list[KnownProvider]:
        """Return the providers, those of the settings first."""
        built_in = await asyncio.to_thread(_built_in_providers)
        custom = {name: settings.api_key_env for name, settings in sorted(self._providers().items())}
        variables = [*custom.items(), *((name, variable) for name, variable in built_in if name not in custom)]
        return [
            KnownProvider(
                name=name,
                from_settings=name in custom,
                key_variable=variable,
                has_key=variable is None or bool(os.environ.get(variable)),
            )
            for name, variable in variables
        ]

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers."""
        return await asyncio.to_thread(_known_models)


@cache
def _built_in_providers() -> list[tuple[str, str]]:
    if not is_installed("pydantic_ai"):
        return [(name, key_variable(name)) for name in listed_providers()]
    from holdfast.models.provider_clients import known_providers

    return [(name, key_variable(name)) for name in known_providers()]


@cache
def _known_models() -> list[KnownModel]:
    if not is_installed("pydantic_ai"):
        return []
    from pydantic_ai.models import known_model_names

    providers = {name for name, _ in _built_in_providers()}
    names = (name.partition(":") for name in sorted(known_model_names()))
    return [_known_model(provider, model) for provider, _, model in names if model and provider in providers]


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
    """Return a price; for a tiered one, its base price."""
    price = getattr(prices, name, None)
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None
