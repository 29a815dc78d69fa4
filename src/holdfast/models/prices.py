"""Cost of model calls: from the price list in genai-prices, without a network, or from prices in the settings.

An unknown price is null, never zero, also for a model that is listed without a price.
"""

from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from operator import mul
from typing import Final, Protocol

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import AbstractUsage, ModelInfo, ModelPrice, Provider, TieredPrices
from pydantic_ai.usage import RequestUsage

from holdfast.domain.model_provider import ProviderSettings

_MILLION = 1_000_000


class Prices(Protocol):
    """The prices of one model."""

    def cost(self, usage: RequestUsage) -> float | None:
        """Return the cost of a call in dollars, if it is known."""


class ListedPrices:
    """Prices from the list."""

    def __init__(self, provider: Provider, model: ModelInfo) -> None:
        self._provider = provider
        self._model = model

    def cost(self, usage: RequestUsage) -> float | None:
        """Return the cost by the list; inconsistent usage has none."""
        counts = _token_counts(usage)
        if self._rates is not None and counts is not None:
            return float(sum(map(mul, counts, self._rates)) / _MILLION)
        cost = self._listed_cost(usage)
        return None if cost is None else float(cost)

    @cached_property
    def _rates(self) -> tuple[Decimal, ...] | None:
        """What the list asks for a million tokens of each kind; null if a price has tiers, conditions or a base."""
        prices = self._model.prices
        if not isinstance(prices, ModelPrice) or any(
            isinstance(price, TieredPrices) for price in vars(prices).values()
        ):
            return None
        rates = [self._listed_cost(usage) for usage in _MILLION_OF_EACH_KIND]
        known = tuple(rate for rate in rates if rate is not None)
        return known if len(known) == len(rates) and self._listed_cost(RequestUsage()) == 0 else None

    def _listed_cost(self, usage: RequestUsage) -> Decimal | None:
        priced: AbstractUsage = usage
        try:
            return self._model.calc_price(priced, self._provider).total_price
        except (LookupError, ValueError):
            return None


_MILLION_OF_EACH_KIND: Final = (
    RequestUsage(input_tokens=_MILLION),
    RequestUsage(input_tokens=_MILLION, cache_read_tokens=_MILLION),
    RequestUsage(input_tokens=_MILLION, cache_write_tokens=_MILLION),
    RequestUsage(input_tokens=_MILLION, cache_write_tokens=_MILLION, cache_write_1h_tokens=_MILLION),
    RequestUsage(output_tokens=_MILLION),
    RequestUsage(output_tokens=_MILLION, output_reasoning_tokens=_MILLION),
)


def _token_counts(usage: RequestUsage) -> tuple[int, ...] | None:
    """Return the tokens of each kind; null for inconsistent usage, and for usage of other kinds."""
    counts = (
        usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens - usage.cache_write_1h_tokens,
        usage.cache_write_1h_tokens,
        usage.output_tokens - usage.output_reasoning_tokens,
        usage.output_reasoning_tokens,
    )
    audio = (
        usage.input_audio_tokens or usage.cache_audio_read_tokens or usage.output_audio_tokens or usage.audio_seconds
    )
    return None if audio or min(counts) < 0 else counts


class ConfiguredPrices:
    """Prices from the settings of a provider."""

    def __init__(self, *, input: float, output: float, cached_input: float | None = None) -> None:
        self._input = input
        self._output = output
        self._cached = input if cached_input is None else cached_input

    def cost(self, usage: RequestUsage) -> float | None:
        """Return the cost of the tokens."""
        cached = min(usage.cache_read_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (fresh * self._input + cached * self._cached + usage.output_tokens * self._output) / _MILLION


def listed_prices(model: str, *, provider: str | None = None, url: str | None = None) -> Prices | None:
    """Return the prices of a model, with its provider found by URL, else by name."""
    for provider_id, address in ((None, url), (provider, None)):
        if provider_id is None and address is None:
            continue
        try:
            found, info = get_snapshot().find_provider_model(model, None, provider_id, address)
        except LookupError:
            continue
        current = current_prices(info)
        priced = current.input_mtok is not None and current.output_mtok is not None
        return ListedPrices(found, info) if priced else None
    return None


def listed_model(model: str, *, provider: str) -> ModelInfo | None:
    """Return the list entry of a provider's model, if there is one."""
    try:
        return get_snapshot().find_provider_model(model, None, provider, None)[1]
    except LookupError:
        return None


def current_prices(model: ModelInfo) -> ModelPrice:
    """Return the current prices of a model."""
    return model.get_prices(datetime.now(UTC))


def configured_prices(settings: ProviderSettings) -> Prices | None:
    """Return the prices in the settings, if there are any."""
    if settings.input_usd_per_million is None or settings.output_usd_per_million is None:
        return None
    return ConfiguredPrices(
        input=settings.input_usd_per_million,
        output=settings.output_usd_per_million,
        cached_input=settings.cached_input_usd_per_million,
    )
