"""Where a reader goes on: after the last number that it has."""

from typing import Annotated, Final, TypeAlias

from litestar.params import HeaderParameter, QueryParameter

from holdfast.control.feeds.errors import BadCursor

LastEventHeader: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="Go on after this event. A browser that reconnects sends it."),
]
LastEventId: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="Go on after this event, where the header `Last-Event-ID` cannot be sent."),
]

_DIGITS: Final = 15


def position_of(header: str | None, query: str | None) -> int | None:
    """Return the number to go on after, if there is one; the header is newer than the address that it came with."""
    given = header or query
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= _DIGITS):
        raise BadCursor("the last event id must be the number of an event", last_event_id=given[:64])
    return int(given)
