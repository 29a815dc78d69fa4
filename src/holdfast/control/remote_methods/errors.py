"""What can be wrong with remote methods.

HoldfastError (domain)
├── NotFound
│   ├── MethodNotOffered   no client that is connected offers it
│   └── CallNotOpen        it was answered, cancelled or given up, or is none of this client's
└── Unavailable
    ├── ClientGone         the client went away in the middle of a call
    ├── ClientBusy         the client has as many open calls as it may
    ├── MethodTimedOut     the client did not answer in time
    └── BadAnswer          the client answered with something that is no answer
"""

from holdfast.domain.errors import NotFound, Unavailable


class MethodNotOffered(NotFound):
    """No client that is connected offers the method."""

    code = "METHOD_NOT_OFFERED"


class CallNotOpen(NotFound):
    """The call was answered, cancelled or given up, or it was never sent to this client."""

    code = "CALL_NOT_OPEN"


class ClientGone(Unavailable):
    """The client that offers the method went away."""

    code = "CLIENT_GONE"


class ClientBusy(Unavailable):
    """The client has as many open calls as it may."""

    code = "CLIENT_BUSY"


class MethodTimedOut(Unavailable):
    """The client did not answer in time."""

    code = "METHOD_TIMED_OUT"


class BadAnswer(Unavailable):
    """The client answered with something that is no answer."""

    code = "BAD_ANSWER"


CALL_ERRORS = (MethodNotOffered, ClientGone, ClientBusy, MethodTimedOut, BadAnswer)
"""What a model may read instead of an answer."""
