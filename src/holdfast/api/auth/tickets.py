"""Tickets for streams: the paths that they open, and the query parameter that carries them."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from holdfast.api.asgi import AsgiScope
from holdfast.api.auth.rules import check_route_allowed
from holdfast.control.principal import Principal
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import SpaceId

TICKET_PARAMETER: Final = "ticket"
_STATE_KEY: Final = "holdfast_ticket"
_ID: Final = "[A-Za-z0-9_-]{1,128}"
_IN_SPACE: Final = f"/api(?:/spaces/(?P<space>{_ID}))?"
STREAM_PATHS: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "follow_run": rf"{_IN_SPACE}/runs/{_ID}/sse",
        "join_segment": rf"{_IN_SPACE}/runs/{_ID}/segment",
        "run_socket": rf"{_IN_SPACE}/runs/{_ID}/ws",
        "follow_notifications": rf"{_IN_SPACE}/notifications/sse",
        "follow_space": rf"/api/spaces/(?P<space>{_ID})/feed",
        "follow_task": rf"/tasks/{_ID}/stream",
        "client_socket": rf"/ws|/api/spaces/(?P<space>{_ID})/ws",
    }.items()
}
"""The paths that a ticket can open, by the name of the route's handler function."""


def check_stream_path(principal: Principal, path: str) -> None:
    """Raise unless `path` is a stream that the principal may open."""
    for name, pattern in STREAM_PATHS.items():
        match = pattern.fullmatch(path)
        if match is not None:
            check_route_allowed(principal, name)
            space = match.groupdict().get("space")
            if space is not None:
                principal.check_access(SpaceId(space))
            return
    raise Invalid(
        "a ticket opens one stream: `path` must be the path of one, such as `/api/runs/RUN_ID/sse` or `/ws`, "
        "without host and query",
        field="path",
    )


def take_ticket(scope: AsgiScope) -> None:
    """Move the ticket of a request from its query to its state, before anything can log the query."""
    query: bytes = scope["query_string"]
    if TICKET_PARAMETER.encode() not in query and b"%" not in query:
        return
    kept, found = [], []
    for part in query.split(b"&"):
        name, _, value = part.decode("latin-1").partition("=")
        if unquote_plus(name) == TICKET_PARAMETER:
            found.append(unquote_plus(value))
        else:
            kept.append(part)
    if found:
        scope["query_string"] = b"&".join(kept)
        scope["state"][_STATE_KEY] = found[0] if len(found) == 1 else ""  # two of them: not valid


def ticket_of(scope: AsgiScope) -> str | None:
    """Return the ticket of a request."""
    ticket: str | None = scope.get("state", {}).get(_STATE_KEY)
    return ticket
