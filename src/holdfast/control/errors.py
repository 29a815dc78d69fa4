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
    """The request has no key, or its key is not valid."""

    code = "UNAUTHENTICATED"


class Forbidden(HoldfastError):
    """The key does not allow the request."""

    code = "FORBIDDEN"


class TooMany(HoldfastError):
    """The caller must slow down; `details.retry_after` is in seconds."""

    code = "TOO_MANY"


class RateLimited(TooMany):
    """The key exceeded its request rate."""

    code = "RATE_LIMITED"


class QueueFull(TooMany):
    """The space has the maximum number of queued runs."""

    code = "QUEUE_FULL"


KEY_ERRORS = (Unauthenticated, Forbidden, RateLimited, QueueFull)


class BadCursor(Invalid):
    """The position to resume from is not a number, or lies beyond the log."""

    code = "BAD_CURSOR"


class TooManyStreams(Unavailable):
    """The process has the maximum number of open streams."""

    code = "TOO_MANY_STREAMS"
