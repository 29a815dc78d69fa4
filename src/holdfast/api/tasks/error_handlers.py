"""Exception handlers of the tasks contract and routes in its style: common envelope, own error codes."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from holdfast.api.errors import EXCEPTION_HANDLERS, ErrorEnvelope, TooDeep, encode_error, headers_of, status_of
from holdfast.api.tasks.errors import TASK_ERRORS, TaskInvalid, TaskNotFound
from holdfast.domain.errors import HoldfastError, Invalid, NotFound

_ExceptionHandler = Callable[[Request[Any, Any, Any], Any], Response[Any]]


def error_handlers(own: tuple[type[HoldfastError], ...], *, not_found: type[NotFound]) -> ExceptionHandlersMap:
    """Return how routes say no whose page has the codes of `own`, and calls what is not there by one of them."""
    return {
        Invalid: _invalid_handler(own),
        NotFound: _not_found_handler(own, not_found),
        HTTPException: _handle_http_exception,
    }


def _invalid_handler(own: tuple[type[HoldfastError], ...]) -> _ExceptionHandler:
    """Call what does not fit by the contract's name; what is too large, too deep, or of another kind, keeps its own."""

    def answer(_: Request[Any, Any, Any], error: Invalid) -> Response[bytes]:
        if isinstance(error, (*own, TooDeep)) or status_of(error) != 400:
            return _error_response(error)
        return _error_response(TaskInvalid(error.message, **error.details))

    return answer


def _not_found_handler(own: tuple[type[HoldfastError], ...], not_found: type[NotFound]) -> _ExceptionHandler:
    def answer(_: Request[Any, Any, Any], error: NotFound) -> Response[bytes]:
        return _error_response(error if isinstance(error, own) else not_found(error.message, **error.details))

    return answer


def _handle_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    answer: Response[Any] = EXCEPTION_HANDLERS[HTTPException](request, error)
    if answer.status_code != 400:
        return answer
    problem = msgspec.json.decode(answer.content, type=ErrorEnvelope).error
    return _error_response(TaskInvalid(problem.message, **problem.details))


def _error_response(error: HoldfastError) -> Response[bytes]:
    return Response(
        encode_error(error), status_code=status_of(error), media_type="application/json", headers=headers_of(error)
    )


TASK_ERROR_HANDLERS: Final = error_handlers(TASK_ERRORS, not_found=TaskNotFound)
