"""What can be wrong with what a client of the socket wants.

HoldfastError (domain)
├── Conflict
│   └── AlreadySubscribed   it is followed over this socket
└── NotFound
    └── NotSubscribed       it is not
"""

from holdfast.domain.errors import Conflict, NotFound


class AlreadySubscribed(Conflict):
    """The socket follows the task or session already."""

    code = "ALREADY_SUBSCRIBED"


class NotSubscribed(NotFound):
    """The socket does not follow the task or session."""

    code = "NOT_SUBSCRIBED"
