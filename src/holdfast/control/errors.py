"""Errors of the use cases: authentication, quotas and streams.

HoldfastError (domain)
├── Unauthenticated        no key was sent, or the key is not valid
├── Forbidden              the scope of the key does not allow the request
├── TooMany                retry later: `details.retry_after` is in seconds
│   ├── RateLimited        the key sends too many requests
│   └── QueueFull          too many runs of the space are queued
├── Invalid
│   └── BadCursor          the position to resume from is not a number, or lies beyond the log
└── Unavailable
    └── TooManyStreams     the process has reached its limit of open streams
"""

from holdfast.domain.errors import HoldfastError, Invalid, Unavailable


class Unauthenticated(HoldfastError):
    """The request comes without a key, or with one that opens nothing."""

    code = "UNAUTHENTICATED"


class Forbidden(HoldfastError):
    """The key of the request does not allow this."""

    code = "FORBIDDEN"


class TooMany(HoldfastError):
    """It is too much at once; `details.retry_after` are seconds after which it may succeed."""

    code = "TOO_MANY"


class RateLimited(TooMany):
    """The key made more requests than it may in that time."""

    code = "RATE_LIMITED"


class QueueFull(TooMany):
    """As many runs of the space wait as may wait."""

    code = "QUEUE_FULL"


KEY_ERRORS = (Unauthenticated, Forbidden, RateLimited, QueueFull)


class BadCursor(Invalid):
    """The position to go on after is not a number, or lies beyond what there is."""

    code = "BAD_CURSOR"


class TooManyStreams(Unavailable):
    """The process has as many streams open as it may."""

    code = "TOO_MANY_STREAMS"
