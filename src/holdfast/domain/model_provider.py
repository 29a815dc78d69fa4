"""Model providers: those an operator adds in the settings, and the models known by name."""

import re
from collections.abc import Mapping
from math import inf
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from holdfast.domain.errors import Invalid

DEFAULT_PROVIDER_TIMEOUT_SECONDS: Final = 300.0
"""How long a provider may stay silent in the middle of a call."""

_ENV_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRICE_FIELDS: Final = ("input_usd_per_million", "output_usd_per_million", "cached_input_usd_per_million")
_POSITIVE_FIELDS: Final = ("context_window", "timeout_seconds")
_Count = Annotated[int, msgspec.Meta(gt=0)]
_Price = Annotated[float, msgspec.Meta(ge=0)]


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a provider is and what it costs. The key itself is never part of it."""

    api: Literal["openai", "openai-responses", "anthropic"]
    """The protocol: chat completions, responses, or messages."""
    base_url: str
    api_key_env: str | None = None
    """The environment variable that holds the key; null if the provider wants none."""
    context_window: _Count | None = None
    """How many tokens its models read."""
    input_usd_per_million: _Price | None = None
    output_usd_per_million: _Price | None = None
    cached_input_usd_per_million: _Price | None = None
    """Absent: input from a cache costs what other input does."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = DEFAULT_PROVIDER_TIMEOUT_SECONDS
    """How long it may stay silent."""

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.api_key_env is not None and _ENV_VARIABLE.fullmatch(self.api_key_env) is None:
            # What stands there may be the key itself, so it is not repeated.
            raise Invalid("`api_key_env` must be the name of an environment variable", field="api_key_env")
        if not self.base_url.startswith(("http://", "https://")):
            raise Invalid("`base_url` must begin with http:// or https://", field="base_url")
        if (self.input_usd_per_million is None) != (self.output_usd_per_million is None):
            raise Invalid(
                "give both `input_usd_per_million` and `output_usd_per_million`, or neither",
                field="input_usd_per_million",
            )
        if self.cached_input_usd_per_million is not None and self.input_usd_per_million is None:
            raise Invalid(
                "`cached_input_usd_per_million` needs `input_usd_per_million` beside it",
                field="cached_input_usd_per_million",
            )

    def _check_numbers(self) -> None:
        for field in _PRICE_FIELDS:
            value = getattr(self, field)
            if value is not None and not 0 <= value < inf:
                raise Invalid(f"`{field}` must be 0 or more", field=field)
        for field in _POSITIVE_FIELDS:
            value = getattr(self, field)
            if value is not None and not 0 < value < inf:
                raise Invalid(f"`{field}` must be more than 0", field=field)


Providers: TypeAlias = Mapping[str, ProviderSettings]
"""Providers by the name that stands before the colon of their models."""


class KnownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of models. The key itself is never part of it."""

    name: str
    """What stands before the colon in the name of a model."""
    from_settings: bool
    """Whether the operator added it."""
    key_variable: str | None
    """The environment variable that its key is read from; null if it wants none."""
    has_key: bool
    """Whether that variable is set, or none is wanted."""


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model by its name, with what is known of it; null is not known."""

    id: str
    provider: str
    context_window: int | None
    input_usd_per_million: float | None
    output_usd_per_million: float | None
    cached_input_usd_per_million: float | None
