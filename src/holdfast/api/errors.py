"""HTTP errors: one table from error classes to status codes, and one JSON envelope.

HoldfastError (domain)
├── Invalid
│   ├── BadRequest            not a valid HTTP request
│   ├── BadHandshake          not a valid WebSocket handshake
│   ├── BadJson               the body is not JSON, or not UTF-8
│   ├── TooDeep               the body is nested too deeply
│   ├── UnsupportedMediaType  the route does not accept this content type
│   ├── HeaderRepeated        a single-value header is sent twice
│   ├── BodyCutOff            the client disconnected before the end of its body
│   └── RequestTimeout        the request did not arrive in time
├── TooLarge
│   ├── BodyTooLarge
│   ├── AddressTooLong
│   └── HeadersTooLarge
├── NotFound
│   └── NoSuchRoute
├── MethodNotAllowed
└── Refused                   the host or the origin is not allowed
    ├── HostRefused
    └── OriginRefused
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.params import HeaderParameter, QueryParameter
from litestar.types import ExceptionHandlersMap

from holdfast.control.errors import Forbidden, TooMany, TooManyStreams, Unauthenticated
from holdfast.control.settings import SettingsChanged
from holdfast.domain.content import Json
from holdfast.domain.errors import (
    Conflict,
    HoldfastError,
    Invalid,
    LimitExceeded,
    MemoryFileChanged,
    NotFound,
    TooLarge,
    Unavailable,
    VersionChanged,
)
from holdfast.domain.validation import describe_error, lowercase_first

MAX_URL_BYTES: Final = 16 * 1024

_log: Final = logging.getLogger("holdfast.api")
_DISCONNECTED_DETAIL: Final = "client disconnected prematurely"
"""The framework's message for a body that ends too early."""
_MISSING_PARAMETER: Final = re.compile(r"Missing required \w+ parameter '(\w+)'")
"""The framework's message for a missing parameter."""


class BadRequest(Invalid):
    """The data is not a valid HTTP request."""

    code = "BAD_REQUEST"


class BadHandshake(Invalid):
    """The request is not a valid WebSocket handshake."""

    code = "BAD_HANDSHAKE"


class BadJson(Invalid):
    """The body is not JSON in UTF-8."""

    code = "BAD_JSON"


class TooDeep(Invalid):
    """The body is nested too deeply."""

    code = "TOO_DEEP"


class UnsupportedMediaType(Invalid):
    """The route does not accept this content type."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class HeaderRepeated(Invalid):
    """A single-value header is sent more than once."""

    code = "HEADER_REPEATED"


class BodyCutOff(Invalid):
    """The client disconnected before the end of its body."""

    code = "BODY_CUT_OFF"


class RequestTimeout(Invalid):
    """The request did not arrive in time, or too many others were waiting for theirs."""

    code = "REQUEST_TIMEOUT"


class AddressTooLong(TooLarge):
    """The URL of the request is too long."""

    code = "ADDRESS_TOO_LONG"


class HeadersTooLarge(TooLarge):
    """The headers of the request are too large."""

    code = "HEADERS_TOO_LARGE"


class BodyTooLarge(TooLarge):
    """The body is larger than the route accepts."""

    code = "BODY_TOO_LARGE"


class NoSuchRoute(NotFound):
    """There is no route for this path."""

    code = "NO_SUCH_ROUTE"


class MethodNotAllowed(HoldfastError):
    """The route does not support this method."""

    code = "METHOD_NOT_ALLOWED"


class Refused(HoldfastError):
    """The host or the origin of the request is not allowed."""

    code = "REFUSED"


class HostRefused(Refused):
    """The host of the request is not allowed."""

    code = "HOST_REFUSED"


class OriginRefused(Refused):
    """The origin of the request is not allowed."""

    code = "ORIGIN_REFUSED"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error: `code` and `details` are for programs, `message` is for people."""

    code: str
    message: str
    details: dict[str, Json] = {}


class ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error response."""

    error: Problem


STATUS_BY_ERROR: Final[Mapping[type[HoldfastError], int]] = {
    HoldfastError: 500,
    NotFound: 404,
    Conflict: 409,
    Invalid: 400,
    TooLarge: 413,
    AddressTooLong: 414,
    HeadersTooLarge: 431,
    RequestTimeout: 408,
    UnsupportedMediaType: 415,
    MethodNotAllowed: 405,
    Refused: 403,
    Unauthenticated: 401,
    Forbidden: 403,
    TooMany: 429,
    LimitExceeded: 409,
    SettingsChanged: 412,
    MemoryFileChanged: 412,
    VersionChanged: 412,
    Unavailable: 503,
}
"""A class that is missing here has the status of its nearest base class."""

HTTP_ERRORS: Final = (
    BadRequest,
    BadHandshake,
    BadJson,
    TooDeep,
    UnsupportedMediaType,
    HeaderRepeated,
    BodyCutOff,
    RequestTimeout,
    BodyTooLarge,
    AddressTooLong,
    HeadersTooLarge,
    NoSuchRoute,
    MethodNotAllowed,
    HostRefused,
    OriginRefused,
)
"""Errors that only an HTTP request can cause."""


def status_of(error: HoldfastError) -> int:
    """Return the status code of an error."""
    return next(STATUS_BY_ERROR[each] for each in type(error).__mro__ if each in STATUS_BY_ERROR)


def headers_of(error: HoldfastError) -> dict[str, str]:
    """Return the response headers of an error."""
    match error:
        case Unauthenticated():
            return {"WWW-Authenticate": "Bearer"}
        case TooMany():
            return {"Retry-After": str(error.details["retry_after"])}
        case BadHandshake():
            return {"Sec-WebSocket-Version": "13"}
        case _:
            return {}


def envelope(error: HoldfastError) -> ErrorEnvelope:
    """Return the response body of an error."""
    return ErrorEnvelope(error=Problem(code=error.code, message=error.message, details=error.details))


def encode_error(error: HoldfastError) -> bytes:
    """Return the response body of an error as JSON; details that are not JSON become text."""
    return msgspec.json.encode(envelope(error), enc_hook=str)


def _error_response(error: HoldfastError, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    status = status_of(error)
    if status >= 500 and not isinstance(error, TooManyStreams):  # caused by clients, not by a fault
        _log.error("%s: %s", error.code, error.message)
    headers = {**headers_of(error), **(headers or {})}
    return Response(encode_error(error), status_code=status, media_type="application/json", headers=headers)


def _on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Translate an error of the framework."""
    path = request.scope["path"]
    match error.status_code:
        case 404:
            return _error_response(NoSuchRoute(f"there is no route for `{path}`", path=path))
        case 405:
            method = request.scope["method"]
            return _error_response(
                MethodNotAllowed(f"`{path}` does not support {method}", method=method), error.headers
            )
        case 413:
            return _error_response(body_too_large(request.route_handler.resolve_request_max_body_size()))
        case status if status < 500:
            return _error_response(_validation_error(error, request))
        case _ if error.detail == _DISCONNECTED_DETAIL:
            return _error_response(BodyCutOff("the client disconnected before the end of its body"))
        case _:
            return _on_unexpected_error(request, error)


def _on_unexpected_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Log an unexpected error, and return only the request id to the client."""
    request_id = request.scope.get("state", {}).get("request_id", "-")
    _log.error("%s %s failed [%s]", request.scope["method"], request.scope["path"], request_id, exc_info=error)
    return _error_response(HoldfastError("internal error: see the log of the server", request_id=request_id))


def handshake_error(error: Exception, path: str) -> HoldfastError:
    """Return the reason for a refused handshake; the framework would close the socket without one."""
    match error:
        case HoldfastError():
            return error
        case HTTPException(status_code=404):
            return NoSuchRoute(f"there is no route for `{path}`", path=path)
        case HTTPException(__cause__=KeyError()):  # the framework's error for a route without a WebSocket
            return MethodNotAllowed(f"`{path}` is not a WebSocket", method="WS")
        case HTTPException() if error.status_code < 500:
            return Invalid(lowercase_first(error.detail))
        case _:
            _log.error("WS %s failed", path, exc_info=error)
            return HoldfastError("internal error: see the log of the server")


def address_too_long() -> AddressTooLong:
    """Return the error of a URL that is too long."""
    return AddressTooLong(f"the URL may have at most {MAX_URL_BYTES} bytes", limit=MAX_URL_BYTES)


def body_too_large(max_bytes: int | None) -> BodyTooLarge:
    """Return the error of a body larger than `max_bytes`."""
    return BodyTooLarge(f"the body may have at most {max_bytes} bytes", limit=max_bytes)


def _validation_error(error: HTTPException, request: Request[Any, Any, Any]) -> Invalid:
    """Translate a validation error of the framework."""
    extra = error.extra if isinstance(error, ValidationException) and isinstance(error.extra, list) else []
    if not extra:
        missing = _MISSING_PARAMETER.match(error.detail)
        if missing:
            return Invalid(f"`{missing[1]}`: missing", field=missing[1])
        return Invalid(lowercase_first(error.detail))
    field, message = extra[0].get("key", ""), extra[0].get("message", "")
    if field == "data":
        return Invalid("the route needs a body: send it as JSON", field="body")
    if not field:
        return Invalid(lowercase_first(message), field=field)
    # A parameter may have one name in the signature and another on the wire.
    parameters = request.route_handler.parsed_fn_signature.parameters
    aliased = (each for each in parameters.values() if getattr(each.kwarg_definition, "query", None) == field)
    parameter = parameters[field] if field in parameters else next(aliased, None)
    definition = None if parameter is None else parameter.kwarg_definition
    name = definition.name or field if isinstance(definition, HeaderParameter | QueryParameter) else field
    kind = None if parameter is None else parameter.annotation
    return Invalid(f"`{name}`: {describe_error(message, kind)}", field=name)


EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    HoldfastError: lambda _, error: _error_response(error),
    HTTPException: _on_http_exception,
    Exception: _on_unexpected_error,
}
