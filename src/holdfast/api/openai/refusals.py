"""How that API says no: in its own shape, which its clients make exceptions of."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from holdfast.api.errors import EXCEPTION_HANDLERS, ErrorEnvelope, Problem, headers_of, status_of
from holdfast.control.keys.errors import TooMany
from holdfast.control.openai.errors import ModelNotFound, RunStopped
from holdfast.domain.errors import (
    BudgetExceeded,
    ContextOverflow,
    DeadlineExceeded,
    HoldfastError,
    IterationLimit,
    ModelRefused,
    ModelUnavailable,
    ScriptError,
)

_NO_RETRY: Final = {"x-should-retry": "false"}
"""The official clients try again by themselves after some errors; a second try would be a second run."""

CODES: Final[Mapping[str, str]] = {
    ModelNotFound.code: "model_not_found",
    ContextOverflow.code: "context_length_exceeded",
}
"""Codes that clients of that API know; all others are ours."""

STOPPED: Final[Mapping[str, int]] = {
    **dict.fromkeys((ModelRefused.code, ContextOverflow.code, ScriptError.code), 400),
    **dict.fromkeys((IterationLimit.code, DeadlineExceeded.code, BudgetExceeded.code, "CANCELLED"), 409),
    ModelUnavailable.code: 503,
}
"""The status of an answer whose run was stopped, by the reason; any other is 500."""


class CompletionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong; `param` is the field that it is about."""

    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None


class CompletionRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer of this API that is an error."""

    error: CompletionProblem


def status_and_refusal(error: HoldfastError) -> tuple[int, CompletionRefusal]:
    """Return how an error is told."""
    code, status = error.code, status_of(error)
    if isinstance(error, RunStopped):
        code = error.details["reason"]
        status = STOPPED.get(code, 500)
    return status, _refusal(Problem(code=code, message=error.message, details=error.details), status)


def _refusal(problem: Problem, status: int) -> CompletionRefusal:
    field = problem.details.get("field")
    return CompletionRefusal(
        error=CompletionProblem(
            message=problem.message,
            type="server_error" if status >= 500 else "invalid_request_error",
            param=field if isinstance(field, str) else None,
            code=CODES.get(problem.code, problem.code),
        )
    )


def _answer(status: int, refusal: CompletionRefusal, headers: Mapping[str, str] = _NO_RETRY) -> Response[bytes]:
    return Response(
        msgspec.json.encode(refusal), status_code=status, media_type="application/json", headers=dict(headers)
    )


def _on_error(_: Request[Any, Any, Any], error: HoldfastError) -> Response[bytes]:
    if isinstance(error, TooMany):  # nothing was begun, so a later try is welcome
        return _answer(*status_and_refusal(error), headers_of(error))
    return _answer(*status_and_refusal(error), {**_NO_RETRY, **headers_of(error)})


def _on_other(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Say what all routes say, in the shape of this one."""
    kind = HTTPException if isinstance(error, HTTPException) else Exception
    answer: Response[Any] = EXCEPTION_HANDLERS[kind](request, error)
    problem, status = msgspec.json.decode(answer.content, type=ErrorEnvelope).error, answer.status_code or 500
    return _answer(status, _refusal(problem, status))


REFUSALS: Final[ExceptionHandlersMap] = {HoldfastError: _on_error, HTTPException: _on_other, Exception: _on_other}
