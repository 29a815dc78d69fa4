"""HTTP errors: one table from error classes to status codes, and one JSON envelope.

HoldfastError (domain)
├── Invalid
│   ├── BadRequest            not a valid HTTP request
│   ├── BadHandshake          not a valid WebSocket handshake
│   ├── BadJson               the body is not JSON, or not UTF-8
│   ├── TooDeep               the body is nested too deeply
│   ├── UnsupportedMediaType  the route does not accept this content type
│   ├── HeaderRepeated        a single-value header is sent twice
│   └── BodyCutOff            the client disconnected before the end of its body
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
from litestar.params import HeaderParameter
from litestar.types import ExceptionHandlersMap

from holdfast.control.errors import Forbidden, TooMany, TooManyStreams, Unauthenticated
from holdfast.control.settings import SettingsChanged
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, LimitExceeded, NotFound, TooLarge, Unavailable
from holdfast.domain.validation import describe_error, lowercase_first

_log: Final = logging.getLogger("holdfast.api")
_DISCONNECTED_DETAIL: Final = "client disconnected prematurely"
"""How the framework calls a body that breaks off."""
_MISSING_PARAMETER: Final = re.compile(r"Missing required \w+ parameter '(\w+)'")
"""How it calls a parameter that is not given."""


class BadRequest(Invalid):
    """What came is not a request of HTTP."""

    code = "BAD_REQUEST"


class BadHandshake(Invalid):
    """What came asks for a WebSocket, but is no handshake."""

    code = "BAD_HANDSHAKE"


class BadJson(Invalid):
    """The body is not JSON in UTF-8."""

    code = "BAD_JSON"


class TooDeep(Invalid):
    """The body is nested too deeply."""

    code = "TOO_DEEP"


class UnsupportedMediaType(Invalid):
    """The route reads another kind of body."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class HeaderRepeated(Invalid):
    """A header that can be meant only once comes more than once."""

    code = "HEADER_REPEATED"


class BodyCutOff(Invalid):
    """The client left before its body had ended."""

    code = "BODY_CUT_OFF"


class AddressTooLong(TooLarge):
    """The address of the request is longer than any that means something."""

    code = "ADDRESS_TOO_LONG"


class HeadersTooLarge(TooLarge):
    """The headers of the request are larger than anybody needs."""

    code = "HEADERS_TOO_LARGE"


class BodyTooLarge(TooLarge):
    """The body is larger than the route reads."""

    code = "BODY_TOO_LARGE"


class NoSuchRoute(NotFound):
    """There is nothing at this address."""

    code = "NO_SUCH_ROUTE"


class MethodNotAllowed(HoldfastError):
    """There is something at this address, but not for this method."""

    code = "METHOD_NOT_ALLOWED"


class Refused(HoldfastError):
    """The request comes from where none may come from."""

    code = "REFUSED"


class HostRefused(Refused):
    """The request is for another host than this one."""

    code = "HOST_REFUSED"


class OriginRefused(Refused):
    """The request comes from a page of another site."""

    code = "ORIGIN_REFUSED"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: `code` is for programs, `message` for people, `details` is what a program may want to read."""

    code: str
    message: str
    details: dict[str, Json] = {}


class ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every answer that is an error."""

    error: Problem


STATUS_BY_ERROR: Final[Mapping[type[HoldfastError], int]] = {
    HoldfastError: 500,
    NotFound: 404,
    Conflict: 409,
    Invalid: 400,
    TooLarge: 413,
    AddressTooLong: 414,
    HeadersTooLarge: 431,
    UnsupportedMediaType: 415,
    MethodNotAllowed: 405,
    Refused: 403,
    Unauthenticated: 401,
    Forbidden: 403,
    TooMany: 429,
    LimitExceeded: 409,
    SettingsChanged: 412,
    Unavailable: 503,
}
"""A class that is not here has the status of the nearest one above it that is."""

HTTP_ERRORS: Final = (
    BadRequest,
    BadHandshake,
    BadJson,
    TooDeep,
    UnsupportedMediaType,
    HeaderRepeated,
    BodyCutOff,
    BodyTooLarge,
    AddressTooLong,
    HeadersTooLarge,
    NoSuchRoute,
    MethodNotAllowed,
    HostRefused,
    OriginRefused,
)
"""The errors that only a request over HTTP can meet."""


def status_of(error: HoldfastError) -> int:
    """Return the status code of an error."""
    return next(STATUS_BY_ERROR[each] for each in type(error).__mro__ if each in STATUS_BY_ERROR)


def headers_of(error: HoldfastError) -> dict[str, str]:
    """Return the headers that go with an error."""
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
    """Return the body that tells of an error."""
    return ErrorEnvelope(error=Problem(code=error.code, message=error.message, details=error.details))


def encode_error(error: HoldfastError) -> bytes:
    """Return that body as JSON; what cannot be written as JSON is written as text."""
    return msgspec.json.encode(envelope(error), enc_hook=str)


def _error_response(error: HoldfastError, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    status = status_of(error)
    if status >= 500 and not isinstance(error, TooManyStreams):  # of that only its clients are the cause
        _log.error("%s: %s", error.code, error.message)
    headers = {**headers_of(error), **(headers or {})}
    return Response(encode_error(error), status_code=status, media_type="application/json", headers=headers)


def _on_holdfast_error(_: Request[Any, Any, Any], error: HoldfastError) -> Response[bytes]:
    return _error_response(error)


def _on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Say in our words what the framework refused."""
    path = request.scope["path"]
    match error.status_code:
        case 404:
            return _error_response(NoSuchRoute(f"there is nothing at `{path}`", path=path))
        case 405:
            method = request.scope["method"]
            return _error_response(MethodNotAllowed(f"`{path}` does not know {method}", method=method), error.headers)
        case 413:
            return _error_response(body_too_large(request.route_handler.resolve_request_max_body_size()))
        case status if status < 500:
            return _error_response(_validation_error(error, request))
        case _ if error.detail == _DISCONNECTED_DETAIL:
            return _error_response(BodyCutOff("the client left before its body had ended"))
        case _:
            return _on_unexpected_error(request, error)


def _on_unexpected_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer for an error that nobody foresaw: the log has all of it, the client only where to find it."""
    name = request.scope.get("state", {}).get("request_id", "-")
    _log.error("%s %s broke [%s]", request.scope["method"], request.scope["path"], name, exc_info=error)
    return _error_response(HoldfastError("something broke here: the server's log says what", request_id=name))


def handshake_error(error: Exception, path: str) -> HoldfastError:
    """Return why a handshake is refused that met an error; the framework would close the socket without a word."""
    match error:
        case HoldfastError():
            return error
        case HTTPException(status_code=404):
            return NoSuchRoute(f"there is nothing at `{path}`", path=path)
        case HTTPException(__cause__=KeyError()):  # how the framework says it of a route that has no socket
            return MethodNotAllowed(f"`{path}` is no WebSocket", method="WS")
        case HTTPException() if error.status_code < 500:
            return Invalid(lowercase_first(error.detail))
        case _:
            _log.error("WS %s broke", path, exc_info=error)
            return HoldfastError("something broke here: the server's log says what")


def body_too_large(max_bytes: int | None) -> BodyTooLarge:
    """Make the error of a body that is larger than `most` bytes."""
    return BodyTooLarge(f"the body may have at most {max_bytes} bytes", limit=max_bytes)


def _validation_error(error: HTTPException, request: Request[Any, Any, Any]) -> Invalid:
    """Return what is wrong with a request, in one sentence."""
    extra = error.extra if isinstance(error, ValidationException) and isinstance(error.extra, list) else []
    if not extra:
        missing = _MISSING_PARAMETER.match(error.detail)
        return _missing_parameter(missing[1]) if missing else Invalid(lowercase_first(error.detail))
    field, message = extra[0].get("key", ""), extra[0].get("message", "")
    if field == "data":
        return Invalid("this needs a body: send it as JSON", field="body")
    if not field:
        return Invalid(lowercase_first(message), field=field)
    name = _public_name(request, field)
    return Invalid(f"`{name}`: {describe_error(message, _parameter_type(request, field))}", field=name)


def _missing_parameter(field: str) -> Invalid:
    return Invalid(f"`{field}`: missing", field=field)


def _public_name(request: Request[Any, Any, Any], field: str) -> str:
    """Return how clients call a parameter: a header has another name in the code."""
    parameter = request.route_handler.parsed_fn_signature.parameters.get(field)
    header = parameter.kwarg_definition if parameter is not None else None
    return header.name or field if isinstance(header, HeaderParameter) else field


def _parameter_type(request: Request[Any, Any, Any], field: str) -> Any:
    """Return what a parameter may be; its name may be another one in the code."""
    parameters = request.route_handler.parsed_fn_signature.parameters
    if field in parameters:
        return parameters[field].annotation
    named = (each for each in parameters.values() if getattr(each.kwarg_definition, "query", None) == field)
    return next((each.annotation for each in named), None)


EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    HoldfastError: _on_holdfast_error,
    HTTPException: _on_http_exception,
    Exception: _on_unexpected_error,
}
