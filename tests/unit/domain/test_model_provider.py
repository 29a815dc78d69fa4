from typing import Any

import msgspec
import pytest

from holdfast.domain.errors import Invalid
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS, ProviderSettings

HERE: dict[str, Any] = {"api": "openai", "base_url": "http://localhost:8000/v1"}


def test_a_url_and_a_protocol_are_enough() -> None:
    settings = msgspec.convert(HERE, ProviderSettings)
    assert (settings.api_key_env, settings.context_window) == (None, None)
    assert settings.timeout_seconds == DEFAULT_PROVIDER_TIMEOUT_SECONDS


@pytest.mark.parametrize(
    "wrong",
    [
        {"api": "grpc"},
        {"api_key": "k"},
        {"context_window": 0},
        {"timeout_seconds": 0},
        {"input_usd_per_million": -1, "output_usd_per_million": 1},
    ],
)
def test_unknown_keys_and_wrong_types_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=list(wrong)[0]):
        msgspec.convert({**HERE, **wrong}, ProviderSettings)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("base_url", {"base_url": "localhost:8000"}),
        ("context_window", {"context_window": -5}),
        ("timeout_seconds", {"timeout_seconds": float("inf")}),
        ("input_usd_per_million", {"input_usd_per_million": float("nan"), "output_usd_per_million": 1}),
        ("input_usd_per_million", {"output_usd_per_million": 1}),
        ("cached_input_usd_per_million", {"cached_input_usd_per_million": 1}),
    ],
)
def test_an_impossible_value_is_rejected_with_its_field(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=f"`{field}`") as caught:
        ProviderSettings(**{**HERE, **wrong})
    assert caught.value.details == {"field": field}


def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated() -> None:
    with pytest.raises(Invalid, match="`api_key_env` must be the name") as caught:
        ProviderSettings(**HERE, api_key_env="sk-secret")
    assert "secret" not in caught.value.message
