"""Parameters shared by routes: space paths, paging, stream positions, and the check for unknown ones."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from holdfast.control.errors import BadCursor
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.task_ids import run_id_of

Limit: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_PAGE_SIZE, description="How many items a page has at most.")
]
Cursor: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        pattern=r"^[A-Za-z0-9_.-]{1,200}\Z",
        description="Where to go on: the `next_cursor` of the page before.",
    ),
]
IdQuery: TypeAlias = Annotated[str | None, QueryParameter(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")]
"""The id of something, in a query."""
WaitSeconds: TypeAlias = Annotated[
    float,
    QueryParameter(
        ge=0, le=300, description="Seconds to wait for the run to end, or to ask a person, before answering."
    ),
]

PlanItemNumber: TypeAlias = Annotated[
    int, PathParameter(ge=1, le=MAX_SAFE_INTEGER, description="The `task_id` of an item.")
]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_QUALITY: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_RESERVED_ARGUMENTS: Final = frozenset({"data", "request", "socket", "body"})
_WRITE_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def parse_run_id(name: str | None) -> RunId | None:
    """Return the run that a query names, by its own name or by that of the task that it is."""
    return None if name is None else run_id_of(name)


@lru_cache(maxsize=64)
def prefers_stream(accept: str) -> bool:
    """Say whether a client that accepts these types wants a stream, and JSON not more than that."""
    wanted = dict(_parse_media_range(part) for part in accept.lower().split(","))
    stream = wanted.get("text/event-stream", 0)
    return stream > 0 and stream >= wanted.get("application/json", 0)


def _parse_media_range(part: str) -> tuple[str, float]:
    """Return a media type and how much it is wanted, from 0 to 1."""
    kind, *parameters = [each.strip() for each in part.split(";")]
    weight = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
    return kind, float(weight) if _QUALITY.fullmatch(weight) else 0


def space_paths(path: str) -> list[str]:
    """Return the addresses of something in a space: in the default one, and in a named one."""
    return [f"/api{path}", f"/api/spaces/{{space_id:str}}{path}"]


def check_request(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Raise if an id in the path can be none, or the query has something that the route does not know.

    A run may be called by the name of the task that it is.
    """
    given = connection.scope["path_params"]
    for name, value in given.items():
        if name.endswith("_id") and isinstance(value, str) and _ID.fullmatch(value) is None:
            raise NotFound(f"there is no {name.removesuffix('_id')} of that name: an id has letters, digits, `_`, `-`")
    if "run_id" in given:
        given["run_id"] = run_id_of(given["run_id"])
    if connection.scope["query_string"]:
        _check_utf8(connection.scope["query_string"])
        _check_query(connection.query_params.multi_items(), handler)


def _check_utf8(query: bytes) -> None:
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as exc:
        raise Invalid("the query is not in UTF-8", field="query") from exc


def _check_query(given: Iterable[tuple[str, Any]], handler: BaseRouteHandler) -> None:
    known, seen = query_names(handler), set[str]()
    for name, value in given:
        if name not in known:
            raise Invalid(f"`{name}` is no parameter of this route: it knows {_format_names(known)}", field=name)
        if name in seen and name not in REPEATABLE_PARAMETERS:
            raise Invalid(f"`{name}` is given more than once", field=name)
        if str(value).lower() == "null" and name not in FREE_TEXT_PARAMETERS:  # the framework would read it as absent
            raise Invalid(f"`{name}`: leave it out if it has no value", field=name)
        seen.add(name)


REPEATABLE_PARAMETERS: Final = frozenset({"type"})
"""Parameters that may be given more than once: each names one more."""
FREE_TEXT_PARAMETERS: Final = frozenset(
    {"title", "agent_type", "agentName", "tag", "type", "name", "cursor", "last_event_id"}
)
"""Parameters that are any text, so also `null`."""


def query_names(handler: BaseRouteHandler) -> frozenset[str]:
    """Return the parameters that a route reads from the query."""
    known = handler.opt.get("query_names")
    if known is None:
        known = handler.opt["query_names"] = frozenset(_query_names(handler))
    return known


def takes_no_body(handler: BaseRouteHandler) -> bool:
    """Say whether a route of ours changes something, and nothing in a body has to do with it."""
    silent: bool | None = handler.opt.get("takes_no_body")
    if silent is None:
        silent = handler.opt["takes_no_body"] = _takes_no_body(handler)
    return silent


def _takes_no_body(handler: BaseRouteHandler) -> bool:
    reads = not handler.parsed_fn_signature.parameters.keys().isdisjoint(_RESERVED_ARGUMENTS)
    writes = isinstance(handler, HTTPRouteHandler) and not handler.http_methods.isdisjoint(_WRITE_METHODS)
    return writes and not reads and all(path.startswith("/api/") for path in handler.paths)


def _query_names(handler: BaseRouteHandler) -> Iterable[str]:
    elsewhere = {*re.findall(r"{(\w+)", " ".join(handler.paths)), *handler.resolve_dependencies(), *_RESERVED_ARGUMENTS}
    for name, field in handler.parsed_fn_signature.parameters.items():
        kwarg = field.kwarg_definition
        if name not in elsewhere and not isinstance(kwarg, HeaderParameter):
            yield getattr(kwarg, "name", None) or name


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "none"


LastEventHeader: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="Go on after this event. A browser that reconnects sends it."),
]
LastEventId: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="Go on after this event, where the header `Last-Event-ID` cannot be sent."),
]

_MAX_POSITION_DIGITS: Final = 15


def resume_position(header: str | None, query: str | None) -> int | None:
    """Return the number to go on after, if there is one; the header is newer than the address that it came with."""
    given = header or query
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= _MAX_POSITION_DIGITS):
        raise BadCursor("the last event id must be the number of an event", last_event_id=given[:64])
    return int(given)
