"""What calls to models used up: tokens and money."""

from math import inf
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from holdfast.domain.errors import Invalid

EXACT_UP_TO_USD: Final = 2_000_000
"""Below this a float names each billionth of a dollar, so sums of costs are exact in any order."""
MOST_TOKENS: Final = 1_000_000_000
"""Of one call. Far above any model's window, and so far below what can be stored that sums can be stored too."""

_NANOS: Final = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one call used, or many. A cost of null is unknown, and so is every sum with an unknown part."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """Those of `input_tokens` that came from a cache."""
    cost_usd: float | None
    """Kept to the billionth. It has no default, because a cost that nobody gave is not zero."""

    def __post_init__(self) -> None:
        if min(self.input_tokens, self.output_tokens, self.cached_input_tokens) < 0:
            raise Invalid("a number of tokens cannot be negative")
        if self.cached_input_tokens > self.input_tokens:
            raise Invalid("`cached_input_tokens` are part of `input_tokens`: they cannot be more")
        if self.cost_usd is not None:
            if not 0 <= self.cost_usd < inf:
                raise Invalid("`cost_usd` must be 0 or more, or null if it is unknown", field="cost_usd")
            force_setattr(self, "cost_usd", usd(nanodollars(self.cost_usd)))

    def __add__(self, other: "Usage") -> "Usage":
        if self == NOTHING:
            return other
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cost_usd=_sum(self.cost_usd, other.cost_usd),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output; the cached ones are in the input already."""
        return self.input_tokens + self.output_tokens


def nanodollars(cost_usd: float) -> int:
    """Return the nearest whole number of billionths of a dollar."""
    return round(cost_usd * _NANOS)


def usd(nanodollars: int) -> float:
    """Return the dollars of a whole number of billionths."""
    return nanodollars / _NANOS


NOTHING: Final = Usage(cost_usd=0.0)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return None
    return usd(nanodollars(one) + nanodollars(other))
