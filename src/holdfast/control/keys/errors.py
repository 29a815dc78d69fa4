"""Why somebody may not, or not now.

HoldfastError (domain)
├── Unauthenticated      no key came, or none that opens anything
├── Forbidden            the key does not go that far
└── TooMany              not now: `details.retry_after` are seconds
    ├── RateLimited      this key asks too often
    └── QueueFull        too much waits in this space already
"""

from holdfast.domain.errors import HoldfastError


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
