"""Model providers: their settings, and the providers and models that are known by name."""

import re
from collections.abc import Mapping
from math import inf
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from holdfast.domain.errors import Invalid

DEFAULT_PROVIDER_TIMEOUT_SECONDS: Final = 300.0

_ENV_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRICE_FIELDS: Final = ("input_usd_per_million", "output_usd_per_million", "cached_input_usd_per_million")
_POSITIVE_FIELDS: Final = ("context_window", "timeout_seconds")
_Count = Annotated[int, msgspec.Meta(gt=0)]
_Price = Annotated[float, msgspec.Meta(ge=0)]


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """URL, API key variable and prices of a provider; the key itself is never stored."""

    api: Literal["openai", "openai-responses", "anthropic"]
    """The protocol: chat completions, responses, or messages."""
    base_url: str
    api_key_env: str | None = None
    """The environment variable that holds the key; null if the provider needs none."""
    context_window: _Count | None = None
    input_usd_per_million: _Price | None = None
    output_usd_per_million: _Price | None = None
    cached_input_usd_per_million: _Price | None = None
    """Defaults to the price of other input."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0)] = DEFAULT_PROVIDER_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        for field in (*_PRICE_FIELDS, *_POSITIVE_FIELDS):
            value, positive = getattr(self, field), field in _POSITIVE_FIELDS
            if value is not None and not (0 <= value < inf and (value or not positive)):
                raise Invalid(f"`{field}` must be {'more than 0' if positive else '0 or more'}", field=field)
        if self.api_key_env is not None and _ENV_VARIABLE.fullmatch(self.api_key_env) is None:
            # The value may be the key itself, so the message does not repeat it.
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
                "`cached_input_usd_per_million` requires `input_usd_per_million`",
                field="cached_input_usd_per_million",
            )


Providers: TypeAlias = Mapping[str, ProviderSettings]
"""Provider settings by name, which is the part before the colon in the name of a model."""


class KnownProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of models, without its key."""

    name: str
    """The part before the colon in the name of a model."""
    from_settings: bool
    key_variable: str | None
    """The environment variable that holds its key; null if it needs none."""
    has_key: bool
    """Whether that variable is set, or no key is needed."""


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with its known properties; null is unknown."""

    id: str
    provider: str
    context_window: int | None
    input_usd_per_million: float | None
    output_usd_per_million: float | None
    cached_input_usd_per_million: float | None
