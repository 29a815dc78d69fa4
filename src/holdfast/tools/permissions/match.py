"""Whether a rule is about a call. Where that cannot be known, it may be."""

from enum import IntEnum


class Match(IntEnum):
    """How sure it is that a rule fits."""

    NO = 0
    MAYBE = 1
    """It depends on what is only known when the call runs."""
    YES = 2
