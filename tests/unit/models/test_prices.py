import sys
from pathlib import Path
from types import FrameType

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
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


tokens = st.integers(0, 10**9)
parts = st.tuples(tokens, tokens, tokens, tokens, tokens, tokens)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5"),
        ("openai", "gpt-4o-audio-preview"),
        ("anthropic", "claude-sonnet-5"),
        ("anthropic", "claude-sonnet-4-5"),  # with tiers
        ("google", "gemini-2.5-pro"),  # with tiers
        ("deepseek", "deepseek-chat"),  # by the hour
    ],
)
@given(parts, st.sampled_from([0, 7]))
def test_a_cost_is_what_the_list_says(model: str, provider: str, parts: tuple[int, ...], audio: int) -> None:
    fresh, read, written, written_1h, answered, reasoning = parts
    usage = RequestUsage(
        input_tokens=fresh + read + written + written_1h + audio,
        cache_read_tokens=read,
        cache_write_tokens=written + written_1h,
        cache_write_1h_tokens=written_1h,
        output_tokens=answered + reasoning,
        output_reasoning_tokens=reasoning,
        input_audio_tokens=audio,
    )
    prices = listed_prices(model, provider=provider)
    found, info = get_snapshot().find_provider_model(model, None, provider, None)
    assert prices is not None
    try:
        expected = float(info.calc_price(usage, found).total_price)
    except ValueError:
        assert prices.cost(usage) is None
    else:
        assert prices.cost(usage) == expected


def test_a_linear_price_is_read_from_the_list_once() -> None:
    prices = listed_prices("gpt-5", provider="openai")
    assert prices is not None
    prices.cost(RequestUsage(input_tokens=1))
    calls = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(Path(genai_prices.__file__).parent)):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(look)
    try:
        prices.cost(RequestUsage(input_tokens=100, cache_read_tokens=50, output_tokens=10))
    finally:
        sys.setprofile(None)
    assert calls == []


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


@given(tokens, tokens, tokens, st.floats(0, 100), st.floats(0, 100))
def test_a_cost_is_never_negative(used: int, cached: int, made: int, price: float, cached_price: float) -> None:
    prices = ConfiguredPrices(input=price, output=price, cached_input=cached_price)
    cost = prices.cost(RequestUsage(input_tokens=used, cache_read_tokens=cached, output_tokens=made))
    assert cost is not None
    assert cost >= 0
