"""How the tasks contract, and what is in its style, say no: in the common envelope, with the codes of their pages."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from holdfast.api.errors import EXCEPTION_HANDLERS, ErrorEnvelope, TooDeep, encoded, headers_of, status_of
from holdfast.control.task_contract.errors import CONTRACT_ERRORS, TaskInvalid, TaskNotFound
from holdfast.domain.errors import HoldfastError, Invalid, NotFound

_Answer = Callable[[Request[Any, Any, Any], Any], Response[Any]]


def refusals(own: tuple[type[HoldfastError], ...], *, not_found: type[NotFound]) -> ExceptionHandlersMap:
    """Return how routes say no whose page has the codes of `own`, and calls what is not there by one of them."""
    return {Invalid: _on_invalid(own), NotFound: _on_not_found(own, not_found), HTTPException: _on_http}


def _on_invalid(own: tuple[type[HoldfastError], ...]) -> _Answer:
    """Call what does not fit by the contract's name; what is too large, too deep, or of another kind, keeps its own."""

    def answer(_: Request[Any, Any, Any], error: Invalid) -> Response[bytes]:
        if isinstance(error, (*own, TooDeep)) or status_of(error) != 400:
            return _refuse(error)
        return _refuse(TaskInvalid(error.message, **error.details))

    return answer


def _on_not_found(own: tuple[type[HoldfastError], ...], not_found: type[NotFound]) -> _Answer:
    def answer(_: Request[Any, Any, Any], error: NotFound) -> Response[bytes]:
        return _refuse(error if isinstance(error, own) else not_found(error.message, **error.details))

    return answer


def _on_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    answer: Response[Any] = EXCEPTION_HANDLERS[HTTPException](request, error)
    if answer.status_code != 400:
        return answer
    problem = msgspec.json.decode(answer.content, type=ErrorEnvelope).error
    return _refuse(TaskInvalid(problem.message, **problem.details))


def _refuse(error: HoldfastError) -> Response[bytes]:
    return Response(
        encoded(error), status_code=status_of(error), media_type="application/json", headers=headers_of(error)
    )


REFUSALS: Final = refusals(CONTRACT_ERRORS, not_found=TaskNotFound)
