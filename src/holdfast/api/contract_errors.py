"""Errors of the routes outside `/api` (tasks, chat, models, settings): the common envelope with their own codes.

HoldfastError (domain)
└── Invalid
    └── ContractInvalid      the request does not fit the contract
"""

from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from holdfast.api.errors import EXCEPTION_HANDLERS, ErrorEnvelope, TooDeep, encode_error, headers_of, status_of
from holdfast.domain.errors import HoldfastError, Invalid, NotFound


class ContractInvalid(Invalid):
    """The request does not fit the contract."""

    code = "VALIDATION_ERROR"


def contract_error_handlers(
    own_errors: tuple[type[HoldfastError], ...], *, not_found: type[NotFound]
) -> ExceptionHandlersMap:
    """Return exception handlers that keep `own_errors`, and map other errors to `ContractInvalid` and `not_found`.

    An `Invalid` error whose status is not 400, and `TooDeep`, keep their own codes.
    """

    def handle_invalid(_: Request[Any, Any, Any], error: Invalid) -> Response[bytes]:
        if isinstance(error, (*own_errors, TooDeep)) or status_of(error) != 400:
            return _error_response(error)
        return _error_response(ContractInvalid(error.message, **error.details))

    def handle_not_found(_: Request[Any, Any, Any], error: NotFound) -> Response[bytes]:
        return _error_response(error if isinstance(error, own_errors) else not_found(error.message, **error.details))

    return {Invalid: handle_invalid, NotFound: handle_not_found, HTTPException: _handle_http_exception}


def _handle_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    response: Response[Any] = EXCEPTION_HANDLERS[HTTPException](request, error)
    if response.status_code != 400:
        return response
    problem = msgspec.json.decode(response.content, type=ErrorEnvelope).error
    return _error_response(ContractInvalid(problem.message, **problem.details))


def _error_response(error: HoldfastError) -> Response[bytes]:
    return Response(
        encode_error(error), status_code=status_of(error), media_type="application/json", headers=headers_of(error)
    )
