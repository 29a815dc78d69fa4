"""The models that pydantic-ai lists, with what genai-prices knows of them. Nothing is fetched.

Both libraries take a moment to load, so that is done in a thread, when somebody first asks.
"""

import asyncio
import os
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.domain.model_provider import KnownModel, KnownProvider, Providers

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


class ListedModels:
    """`KnownModels`, beside the providers of the settings."""

    def __init__(self, providers: Callable[[], Providers]) -> None:
        """Read the settings through `providers`, whenever they are asked for."""
        self._providers = providers

    async def providers(self) -> list[KnownProvider]:
        """Return the providers."""
        built_in = await asyncio.to_thread(_built_in)
        added = {name: settings.api_key_env for name, settings in sorted(self._providers().items())}
        return [
            *(_provider(name, variable, from_settings=True) for name, variable in added.items()),
            *(_provider(name, variable, from_settings=False) for name, variable in built_in if name not in added),
        ]

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers."""
        return await asyncio.to_thread(_models)


def _provider(name: str, variable: str | None, *, from_settings: bool) -> KnownProvider:
    has_key = variable is None or bool(os.environ.get(variable))
    return KnownProvider(name=name, from_settings=from_settings, key_variable=variable, has_key=has_key)


@cache
def _built_in() -> list[tuple[str, str]]:
    from holdfast.models.clients import key_variable, known_providers

    return [(name, key_variable(name)) for name in known_providers()]


@cache
def _models() -> list[KnownModel]:
    from pydantic_ai.models import known_model_names

    providers = {name for name, _ in _built_in()}
    named = (name.partition(":") for name in sorted(known_model_names()))
    return [_model(provider, model) for provider, _, model in named if model and provider in providers]


def _model(provider: str, model: str) -> KnownModel:
    from holdfast.models.prices import listed_model, todays_prices

    info: ModelInfo | None = listed_model(model, provider=provider)
    prices: Any = None if info is None else todays_prices(info)
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
