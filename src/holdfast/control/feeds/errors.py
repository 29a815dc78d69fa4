"""What can be wrong with following something.

HoldfastError (domain)
├── Invalid
│   └── BadCursor         the position to go on after is none of ours
└── Unavailable
    └── TooManyStreams    this process has as many streams open as it may
"""

from holdfast.domain.errors import Invalid, Unavailable


class BadCursor(Invalid):
    """The position to go on after is not a number, or lies beyond what there is."""

    code = "BAD_CURSOR"


class TooManyStreams(Unavailable):
    """The process has as many streams open as it may."""

    code = "TOO_MANY_STREAMS"
