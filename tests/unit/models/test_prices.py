import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.usage import RequestUsage

from holdfast.domain.model_provider import ProviderSettings
from holdfast.models.prices import ConfiguredPrices, configured_prices, listed_prices

MILLION = 1_000_000


def test_a_listed_model_has_its_price() -> None:
    prices = listed_prices("gpt-4o", provider="openai")
    assert prices is not None
    assert prices.cost(RequestUsage(input_tokens=MILLION, output_tokens=MILLION)) == pytest.approx(12.5)
    cached = prices.cost(RequestUsage(input_tokens=MILLION, cache_read_tokens=MILLION))
    assert cached == pytest.approx(1.25)


def test_a_provider_is_found_by_its_url() -> None:
    assert listed_prices("gpt-4o", url="https://api.openai.com/v1/") is not None


@pytest.mark.parametrize(
    ("model", "provider", "url"),
    [
        ("no-such-model", "openai", None),
        ("gpt-4o", "no-such-provider", None),
        ("gpt-4o", None, "http://127.0.0.1:8000/v1"),
        ("gpt-4o", None, None),
        ("gpt-4o", "github-copilot", None),  # on the list, without a price
    ],
)
def test_an_unknown_price_is_null_not_zero(model: str, provider: str | None, url: str | None) -> None:
    assert listed_prices(model, provider=provider, url=url) is None


def test_inconsistent_usage_has_no_price() -> None:
    prices = listed_prices("gpt-4o", provider="openai")
    assert prices is not None
    assert prices.cost(RequestUsage(input_tokens=1, cache_read_tokens=5)) is None


def test_prices_in_the_settings_are_used() -> None:
    settings = ProviderSettings(
        api="openai",
        base_url="http://localhost/v1",
        input_usd_per_million=2,
        output_usd_per_million=10,
        cached_input_usd_per_million=0.5,
    )
    prices = configured_prices(settings)
    assert prices is not None
    used = RequestUsage(input_tokens=MILLION, cache_read_tokens=MILLION // 2, output_tokens=MILLION)
    assert prices.cost(used) == pytest.approx(1 + 0.25 + 10)
    assert configured_prices(ProviderSettings(api="openai", base_url="http://localhost/v1")) is None


tokens = st.integers(0, 10**9)


@given(tokens, tokens, tokens, st.floats(0, 100), st.floats(0, 100))
def test_a_cost_is_never_negative(used: int, cached: int, made: int, price: float, cached_price: float) -> None:
    prices = ConfiguredPrices(input=price, output=price, cached_input=cached_price)
    cost = prices.cost(RequestUsage(input_tokens=used, cache_read_tokens=cached, output_tokens=made))
    assert cost is not None
    assert cost >= 0
