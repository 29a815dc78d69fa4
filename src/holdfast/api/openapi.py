"""The OpenAPI document, generated from the types that decode requests.

The framework's own generator omits constraints, rejected fields, and the error envelope; msgspec describes its types
exactly. Parameters and return types come from the handler's signature. `opt` of a handler adds what a signature cannot
express: `content` (response types other than JSON), `also` (further responses by status), `body` (request types other
than JSON), each by media type; `headers` (response headers by status, name to meaning); `errors` (another error type).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

import msgspec
from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg
from litestar.typing import FieldDefinition

from holdfast.api.auth.rules import PUBLIC_ROUTES, ROUTE_RULES
from holdfast.api.auth.tickets import STREAM_PATHS, TICKET_PARAMETER
from holdfast.api.errors import ErrorEnvelope
from holdfast.api.parameters import is_repeatable
from holdfast.api.router import ROUTES
from holdfast.api.use_cases import UseCases
from holdfast.domain.limits import MAX_SAFE_INTEGER

_SCHEMAS: Final = "#/components/schemas/"
_RENAMED_SCHEMAS: Final = {"File": "StoredFile"}
"""`openapi-python-client` has a type `File` of its own."""
_GENERIC_PAGE: Final = re.compile(r"\APage_(\w+)_\Z")
_PARAMETER: Final = re.compile(r"{(\w+)(?::\w+)?}")
_NUMBER_SCHEMA: Final = {"type": "integer", "minimum": 1, "maximum": MAX_SAFE_INTEGER}
_RESERVED: Final = frozenset({"data", "request", "accept"})
"""Arguments that are not documented as parameters; `accept` follows from the response types."""
_CONSTRAINTS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "pattern": "pattern",
    "min_length": "minLength",
    "max_length": "maxLength",
}
_ID_SCHEMA: Final = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}
EVENT_STREAM: Final = "text/event-stream"
_STREAM_SCHEMA: Final = {
    "description": "A stream of server-sent events with the fields `id`, `event` and `data`.",
}
"""Without a type: tools disagree whether a schema describes the whole stream or one event."""
_EXTRA_CONSTRAINTS: Final[Mapping[str, Mapping[str, Any]]] = {  # constraints that types cannot express, by schema
    "RunBody": {  # with `oneOf`, generators of clients drop the fields
        "if": {"required": ["messages"]},
        "then": {"not": {"required": ["input"]}},
        "else": {"required": ["input"]},
    },
    "ArtifactBody": {"if": {"not": {"required": ["content"]}}, "then": {"required": ["file_id"]}},
    **dict.fromkeys(("SpacePatch", "ThreadChanges", "PlanItemPatch"), {"minProperties": 1}),
}
_ERROR_DESCRIPTIONS: Final = {  # by status; all routes share these responses
    "400": "The request can never succeed as written.",
    "401": "The request has no key, or its key is not valid.",
    "403": "The host or the origin is not allowed, or the key does not allow the request.",
    "404": "A named resource does not exist in this space.",
    "409": "A resource is not in the required state.",
    "413": "The body or a part of it is too large.",
    "414": "The URL is too long.",
    "415": "The content type is not supported, or the body is encoded.",
    "429": "The key exceeded its request rate, or the space has too many queued runs; `Retry-After` is in seconds.",
    "431": "The headers are too large.",
    "500": "An internal error; the log of the server has the cause.",
    "503": "A dependency of the server is unavailable; the same request may succeed later.",
}

SchemaLookup = Callable[[Any], dict[str, Any]]


@get("/openapi.json", media_type=MediaType.JSON, include_in_schema=False)
async def read_openapi() -> bytes:
    """Return the OpenAPI document."""
    return openapi_json()


@cache
def openapi_json() -> bytes:
    """Return the document as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(openapi_document()), indent=2) + b"\n"


def openapi_document(routes: Iterable[HTTPRouteHandler] = ROUTES) -> dict[str, Any]:
    """Return the document of `routes`."""
    handlers = list(routes)
    types = list(dict.fromkeys([ErrorEnvelope, *(each for handler in handlers for each in _types(handler))]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS + "{name}")
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for handler in handlers:
        for path in sorted(handler.paths):
            operations = paths.setdefault(_PARAMETER.sub(r"{\1}", path), {})
            operations[_method(handler)] = _operation(handler, path, by_type.__getitem__)
    add_links(paths)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": "1",
            "description": "A durable runtime for AI agents. Routes without a space in their path use `default`.",
        },
        "security": [{"key": []}, {}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key, or a token."},
                "ticket": {
                    "type": "apiKey",
                    "in": "query",
                    "name": TICKET_PARAMETER,
                    "description": "A ticket for this path, of `POST /api/tickets`.",
                },
            },
            "responses": {
                f"Error{status}": _error_schema(description, by_type[ErrorEnvelope])
                for status, description in _ERROR_DESCRIPTIONS.items()
            },
            "schemas": {
                _schema_name(name): schema | {"title": _schema_name(name)} | _EXTRA_CONSTRAINTS.get(name, {})
                for name, schema in sorted(components.items())
            },
        },
    }
    return _with_portable_patterns(_with_schema_names(document))


def _operation(handler: HTTPRouteHandler, path: str, schema: SchemaLookup) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(handler, path),
        "summary": handler.summary,
        "description": inspect.getdoc(handler.fn) or "",
        "tags": sorted(handler.tags or ()),
        "parameters": [*_path_parameters(path), *_query_and_header_parameters(handler, schema)],
    }
    if handler.handler_name in PUBLIC_ROUTES:
        operation["security"] = []
    if handler.handler_name in STREAM_PATHS:
        operation["security"] = [{"key": []}, {"ticket": []}, {}]
    if (rule := ROUTE_RULES.get(handler.handler_name)) is not None:
        operation["x-scope"] = rule.scope
    if body := _request_types(handler):
        data = handler.parsed_fn_signature.parameters.get("data")
        required = data is not None and not data.has_default  # a body of raw bytes may be empty
        operation["requestBody"] = {"required": required, "content": _content_schema(schema, body)}
    operation["responses"] = _responses(handler, path, schema, has_body=bool(body))
    return operation


def _responses(handler: HTTPRouteHandler, path: str, schema: SchemaLookup, *, has_body: bool) -> dict[str, Any]:
    content = _content_schema(schema, _response_types(handler))
    success: dict[str, Any] = {"description": handler.summary}
    responses = {str(handler.status_code): success | ({"content": content} if content else {})}
    for status, types in handler.opt.get("also", {}).items():
        responses[status] = success | {"content": _content_schema(schema, types)}
    for status, headers in handler.opt.get("headers", {}).items():
        responses[status] |= {
            "headers": {
                name: {"description": description, "schema": {"type": "string"}}
                for name, description in headers.items()
            }
        }
    statuses = _error_statuses(handler, path, has_body=has_body)
    if (error_type := handler.opt.get("errors")) is not None:
        error = schema(error_type)
        return responses | {status: _error_schema(_ERROR_DESCRIPTIONS[status], error) for status in statuses}
    return responses | {status: {"$ref": f"#/components/responses/Error{status}"} for status in statuses}


def _error_schema(description: str, envelope: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": envelope}}}


def _error_statuses(handler: HTTPRouteHandler, path: str, *, has_body: bool) -> Iterator[str]:
    changes = _method(handler) != "get"
    for status in _ERROR_DESCRIPTIONS:
        if (
            status in ("400", "403", "414", "415", "431", "500", "503")
            or (status in ("401", "429") and handler.handler_name not in PUBLIC_ROUTES)
            or (status == "404" and (path.startswith(("/api", "/v1")) or "{" in path))
            or (status == "409" and changes)
            or (status == "413" and has_body)
        ):
            yield status


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(path):
        schema = (
            _NUMBER_SCHEMA if f"{{{name}:int}}" in path else _ID_SCHEMA if name.endswith("_id") else {"type": "string"}
        )
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_and_header_parameters(handler: HTTPRouteHandler, schema: SchemaLookup) -> Iterator[dict[str, Any]]:
    for field in _parameters(handler):
        kwarg = field.kwarg_definition if isinstance(field.kwarg_definition, ParameterKwarg) else None
        parameter: dict[str, Any] = {
            "name": (kwarg and kwarg.name) or field.name,
            "in": "header" if isinstance(kwarg, HeaderParameter) else "query",
            "required": not field.has_default,
            "schema": _parameter_schema(field, kwarg, schema),
        }
        if kwarg is not None and kwarg.description:
            parameter["description"] = kwarg.description
        if is_repeatable(field):
            parameter |= {"style": "form", "explode": True}
        yield parameter


def _parameter_schema(field: FieldDefinition, kwarg: ParameterKwarg | None, schema: SchemaLookup) -> dict[str, Any]:
    result = dict(schema(_without_none(field.annotation)))
    for name, keyword in _CONSTRAINTS.items():
        if kwarg is not None and (value := getattr(kwarg, name)) is not None:
            result[keyword] = value.replace(r"\Z", "$") if isinstance(value, str) else value
    if field.has_default and field.default is not None:
        result["default"] = field.default
    return result


def _parameters(handler: HTTPRouteHandler) -> Iterator[FieldDefinition]:
    """Yield the query and header parameters of a route."""
    others = {*_RESERVED, *UseCases._fields, *_PARAMETER.findall(" ".join(handler.paths))}
    for name, field in handler.parsed_fn_signature.parameters.items():
        if name not in others:
            yield field


def _types(handler: HTTPRouteHandler) -> Iterator[Any]:
    types = [*_request_types(handler).values(), *_response_types(handler).values()]
    if "errors" in handler.opt:
        types.append(handler.opt["errors"])
    yield from (each for each in types if each not in (bytes, str))
    yield from (_without_none(field.annotation) for field in _parameters(handler))


def _request_types(handler: HTTPRouteHandler) -> Mapping[str, Any]:
    if "body" in handler.opt:
        return handler.opt["body"]  # type: ignore[no-any-return]
    data = handler.parsed_fn_signature.parameters.get("data")
    return {} if data is None else {"application/json": data.annotation}


def _response_types(handler: HTTPRouteHandler) -> Mapping[str, Any]:
    if "content" in handler.opt:
        return handler.opt["content"]  # type: ignore[no-any-return]
    returned = handler.parsed_fn_signature.return_type.annotation
    if returned in (None, type(None)):
        return {}
    return {"application/json": get_args(returned)[0] if get_origin(returned) is Response else returned}


def _content_schema(schema: SchemaLookup, types: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media_type, kind in types.items():
        if media_type == EVENT_STREAM:
            content[media_type] = {"schema": _STREAM_SCHEMA}
        elif kind is bytes:
            content[media_type] = {"schema": {"type": "string", "format": "binary"}}
        else:
            content[media_type] = {"schema": {"type": "string"} if kind is str else schema(kind)}
    return content


def _method(handler: HTTPRouteHandler) -> str:
    (method,) = handler.http_methods
    return str(getattr(method, "value", method)).lower()


def _operation_id(handler: HTTPRouteHandler, path: str) -> str:
    if len(handler.paths) == 1:
        return handler.handler_name
    of_agent = "_of_agent" if "{agent" in path else ""
    return f"{handler.handler_name}{of_agent}{'_in_space' if '{space_id' in path else ''}"


def _without_none(annotation: Any) -> Any:
    """Return the annotation of an optional parameter without its `None`."""
    members = get_args(annotation)
    others = [each for each in members if each is not type(None)]
    return others[0] if type(None) in members and len(others) == 1 else annotation


def _schema_name(name: str) -> str:
    """Return the name of a schema in the document: `RunPage` for `Page_Run_`, and none that generated clients use."""
    return _RENAMED_SCHEMAS.get(name) or _GENERIC_PAGE.sub(r"\1Page", name)


def _with_schema_names(value: Any) -> Any:
    """Return a part of the document whose references use the names of the document."""
    match value:
        case {"$ref": str(target), **others} if target.startswith(_SCHEMAS):
            return {"$ref": _SCHEMAS + _schema_name(target.removeprefix(_SCHEMAS))} | _with_schema_names(others)
        case dict():
            return {name: _with_schema_names(part) for name, part in value.items()}
        case list():
            return [_with_schema_names(part) for part in value]
        case _:
            return value


def _with_portable_patterns(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose patterns use `$`, because `\\Z` exists only in Python."""
    return msgspec.json.decode(msgspec.json.encode(document).replace(rb"\\Z", b"$"))  # type: ignore[no-any-return]


CREATED_IDS: Final[Mapping[str, tuple[str, str]]] = {
    "create_space": ("space_id", "id"),
    "create_thread": ("thread_id", "id"),
    "create_run": ("run_id", "id"),
    "create_run_on_thread": ("run_id", "id"),
    "retry_run": ("run_id", "id"),
    "create_plan_item": ("task_id", "task_id"),
    "create_artifact": ("artifact_id", "id"),
    "upload_file": ("file_id", "id"),
    "create_task": ("task_id", "taskId"),
}
"""By operation that creates something: the path parameter of its id, and the response field with the id."""


def add_links(paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Link each operation that creates something to the operations that take its id."""
    operations = [(path, operation) for path, item in paths.items() for operation in item.values()]
    for path, operation in operations:
        if operation["operationId"] in CREATED_IDS:
            links = dict(_links_from(path, operation, operations))
            status = next(status for status in ("201", "202") if status in operation["responses"])
            operation["responses"][status]["links"] = links


def _links_from(path: str, source: Any, operations: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    parameter, field = CREATED_IDS[source["operationId"]]
    values = {name: f"$request.path.{name}" for name in _path_parameter_names(source)}
    values[parameter] = f"$response.body#/{field}"
    for target_path, target in operations:
        names = _path_parameter_names(target)
        same_api = path.startswith("/api") == target_path.startswith("/api")
        if parameter in names and names <= values.keys() and same_api:
            parameters = {name: values[name] for name in sorted(names)}
            yield target["operationId"], {"operationId": target["operationId"], "parameters": parameters}


def _path_parameter_names(operation: Any) -> set[str]:
    return {each["name"] for each in operation["parameters"] if each["in"] == "path"}
