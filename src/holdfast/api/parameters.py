"""Parameters shared by routes: space paths, paging, stream positions, and the check for unknown ones."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import HeaderParameter, PathParameter, QueryParameter, SkipValidation
from litestar.typing import FieldDefinition

from holdfast.control.errors import BadCursor
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.page import MAX_PAGE_SIZE
from holdfast.domain.task_ids import run_id_of

T = TypeVar("T")

PortDependency: TypeAlias = NamedDependency[SkipValidation[T]]
"""A port of the store as a dependency: the framework cannot validate a `Protocol`."""
Limit: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_PAGE_SIZE, description="The maximum number of items of a page.")
]
Cursor: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        pattern=r"^[A-Za-z0-9_.-]{1,200}\Z",
        description="The `next_cursor` of the previous page.",
    ),
]
ID_PATTERN: Final = r"^[A-Za-z0-9_-]{1,128}\Z"
IdQuery: TypeAlias = Annotated[str | None, QueryParameter(pattern=ID_PATTERN)]
"""An id in the query."""
SequenceQuery: TypeAlias = Annotated[
    int | None, QueryParameter(ge=0, le=MAX_SAFE_INTEGER, description="The `sequence` of a message on the branch.")
]
ChildrenQuery: TypeAlias = Annotated[
    bool, QueryParameter(description="Whether threads that were created for sub-agents are included.")
]
FromTime: TypeAlias = Annotated[
    str | None,
    QueryParameter(name="from", max_length=40, description="Created at this time or later: `2026-01-31T12:00:00Z`."),
]
ToTime: TypeAlias = Annotated[str | None, QueryParameter(name="to", max_length=40, description="Created before it.")]
IfMatch: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        max_length=1000,
        description="The `ETag` of the last read: the change is refused if there was another one since.",
    ),
]
WaitSeconds: TypeAlias = Annotated[
    float,
    QueryParameter(
        ge=0, le=300, description="Seconds to wait for the run to end, or to wait for a person, before responding."
    ),
]

PlanItemNumber: TypeAlias = Annotated[
    int, PathParameter(ge=1, le=MAX_SAFE_INTEGER, description="The `task_id` of a plan item.")
]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ETAG: Final = re.compile(r'"([!#-~]*)"|(\*)')
_QUALITY: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_RESERVED_ARGUMENTS: Final = frozenset({"data", "request", "socket", "body"})
_WRITE_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def parse_run_id(name: str | None) -> RunId | None:
    """Return the run id of a query parameter, which may also be a task id."""
    return None if name is None else run_id_of(name)


@lru_cache(maxsize=64)
def prefers_stream(accept: str) -> bool:
    """Return whether an `Accept` header names event streams, with at least the quality of JSON."""
    qualities: dict[str, float] = {}
    for part in accept.lower().split(","):
        media_type, *parameters = [each.strip() for each in part.split(";")]
        quality = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
        qualities[media_type] = float(quality) if _QUALITY.fullmatch(quality) else 0
    stream = qualities.get("text/event-stream", 0)
    return stream > 0 and stream >= qualities.get("application/json", 0)


def space_paths(path: str) -> list[str]:
    """Return the two paths of a route: for the default space, and for a named one."""
    return [f"/api{path}", f"/api/spaces/{{space_id:str}}{path}"]


def parse_etags(header: str | None) -> list[str]:
    """Return the tags of an `If-Match` header: quoted strings, or `*` for any."""
    if header is None:
        return []
    matches = [_ETAG.fullmatch(part.strip()) for part in header.split(",")]
    if None in matches:
        raise Invalid('`If-Match` must be an `ETag` that was read, in quotes, such as `"3f9c"`', field="If-Match")
    return [match[1] or match[2] or "" for match in matches if match is not None]


def check_request(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Raise if the path has a malformed id, or the query an unknown parameter; convert a task id to its run id."""
    path_params = connection.scope["path_params"]
    for name, value in path_params.items():
        if name.endswith("_id") and isinstance(value, str) and _ID.fullmatch(value) is None:
            raise NotFound(f"there is no such {name.removesuffix('_id')}: an id has only letters, digits, `_` and `-`")
    if "run_id" in path_params:
        path_params["run_id"] = run_id_of(path_params["run_id"])
    if connection.scope["query_string"]:
        try:
            unquote_to_bytes(connection.scope["query_string"]).decode()
        except UnicodeDecodeError as exc:
            raise Invalid("the query is not in UTF-8: percent-encode it as UTF-8", field="query") from exc
        _check_query(connection.query_params.multi_items(), handler)


def _check_query(parameters: Iterable[tuple[str, Any]], handler: BaseRouteHandler) -> None:
    known, seen = query_names(handler), set[str]()
    repeatable = handler.opt.get("repeatable_names", frozenset())
    for name, value in parameters:
        if name not in known:
            known_names = ", ".join(f"`{each}`" for each in sorted(known)) or "none"
            raise Invalid(f"`{name}` is not a parameter of this route: known are {known_names}", field=name)
        if name in seen and name not in repeatable:
            raise Invalid(f"`{name}` is given more than once: give it once", field=name)
        if str(value).lower() == "null" and name not in FREE_TEXT_PARAMETERS:  # the framework reads it as absent
            raise Invalid(f"`{name}`: leave it out if it has no value", field=name)
        seen.add(name)


FREE_TEXT_PARAMETERS: Final = frozenset(
    {"title", "agent_type", "agentName", "tag", "model", "name", "cursor", "last_event_id"}
)
"""Query parameters that accept any text, including `null`."""


def query_names(handler: BaseRouteHandler) -> frozenset[str]:
    """Return the names of a route's query parameters, cached in its `opt`."""
    names: frozenset[str] | None = handler.opt.get("query_names")
    if names is None:
        path_names = re.findall(r"{(\w+)", " ".join(handler.paths))
        others = {*path_names, *handler.resolve_dependencies(), *_RESERVED_ARGUMENTS}
        fields = {
            getattr(field.kwarg_definition, "name", None) or name: field
            for name, field in handler.parsed_fn_signature.parameters.items()
            if name not in others and not isinstance(field.kwarg_definition, HeaderParameter)
        }
        names = handler.opt["query_names"] = frozenset(fields)
        handler.opt["repeatable_names"] = frozenset(name for name, field in fields.items() if is_repeatable(field))
    return names


def is_repeatable(field: FieldDefinition) -> bool:
    """Return whether a query parameter may be given several times: it is a list."""
    return field.is_non_string_sequence


def takes_no_body(handler: BaseRouteHandler) -> bool:
    """Return whether a route of the native API writes without reading a body, cached in its `opt`."""
    result: bool | None = handler.opt.get("takes_no_body")
    if result is None:
        reads = not handler.parsed_fn_signature.parameters.keys().isdisjoint(_RESERVED_ARGUMENTS)
        writes = isinstance(handler, HTTPRouteHandler) and not handler.http_methods.isdisjoint(_WRITE_METHODS)
        result = writes and not reads and all(path.startswith("/api/") for path in handler.paths)
        handler.opt["takes_no_body"] = result
    return result


LastEventHeader: TypeAlias = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="Resume after this event. A browser that reconnects sends it."),
]
LastEventId: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="Resume after this event; for clients that cannot send the header `Last-Event-ID`."),
]

_MAX_POSITION_DIGITS: Final = 15


def resume_position(header: str | None, query: str | None) -> int | None:
    """Return the position to resume after; the header wins, because a reconnecting browser keeps the old URL."""
    position = header or query
    if not position:
        return None
    if not (position.isascii() and position.isdecimal() and len(position) <= _MAX_POSITION_DIGITS):
        raise BadCursor("the last event id must be the number of an event", last_event_id=position[:64])
    return int(position)
