"""Models that can be named without having been tried, and the providers that serve them."""

import msgspec


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
