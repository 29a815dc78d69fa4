"""Errors of a provider's library, converted to ours.

`ModelUnavailable`: the call may succeed later. `ContextOverflow`: it is too long. `ModelRefused`: it can never
succeed. An exception caused by a malformed response counts as an outage.
"""

import os
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import httpx2
from pydantic_ai import exceptions as errors

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable

PROVIDER_ERRORS: Final = (
    RuntimeError,  # all errors of pydantic-ai, and a closed client
    OSError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    ValueError,  # from here on: a malformed response
    TypeError,
    AttributeError,
    LookupError,
    AssertionError,
)
RETRYABLE_STATUS_CODES: Final = frozenset({408, 409, 425, 429})
"""Client errors (4xx) after which the same call may succeed; after server errors it always may."""
MAX_QUOTE_CHARS: Final = 500
"""Characters quoted from a provider's error."""

_CONTEXT_OVERFLOW_PATTERN: Final = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|(prompt|input|request) is too (long|large)"
    r"|too many (input |prompt )?tokens|exceeds? the (maximum|max|available) (number of )?(input )?(tokens|context)",
    re.IGNORECASE,
)

_T = TypeVar("_T")


@contextmanager
def wrap_open_errors(name: str, *, key: str | None) -> Iterator[None]:
    """Convert errors while a call is opened; `key` is the environment variable of the provider's key."""
    try:
        yield
    except PROVIDER_ERRORS as exc:
        # For content that it cannot send, pydantic-ai has no error class of its own.
        unsupported = type(exc) is RuntimeError and str(exc).startswith("Unsupported")
        if unsupported or isinstance(exc, NotImplementedError | ValueError | errors.UserError):
            raise ModelRefused(f"`{name}` does not support this call: {exc}") from exc
        raise to_model_error(exc, name=name, key=key) from exc


async def wrap_stream_errors(events: AsyncIterator[_T], name: str, *, key: str | None) -> AsyncGenerator[_T, None]:
    """Yield `events`, converting the errors between them."""
    try:
        async for event in events:
            yield event
    except PROVIDER_ERRORS as exc:
        raise to_model_error(exc, name=name, key=key) from exc


def to_model_error(exc: Exception, *, name: str, key: str | None = None) -> HoldfastError:
    """Return our error for an exception of a provider's library."""
    if isinstance(exc, errors.ContentFilterError):
        return ModelRefused(f"`{name}` refused the call: {_quote(exc)}")
    if isinstance(exc, errors.ModelAPIError):
        return _api_error(exc, name=name, key=key)
    return ModelUnavailable(f"`{name}` disconnected or sent a malformed response: {_quote(exc)}")


def _api_error(exc: errors.ModelAPIError, *, name: str, key: str | None) -> HoldfastError:
    fields = {
        "status": getattr(exc, "status_code", None),
        "provider_code": exc.provider_error_code or exc.provider_error_type,
        "retry_after": exc.retry_after,
    }
    details: dict[str, Any] = {field: value for field, value in fields.items() if value is not None}
    if _is_too_long(exc):
        return ContextOverflow(f"the call exceeds the context window of `{name}`: {_quote(exc)}", **details)
    if isinstance(exc, errors.ModelQuotaExceededError):
        # A later call may succeed once the account has credit, and another model may be available meanwhile.
        return ModelUnavailable(f"the account of `{name}` has no credit left: add credit: {_quote(exc)}", **details)
    if isinstance(exc, errors.ModelAuthenticationError):
        remedy = f"check the environment variable `{key}`" if key else "set `api_key_env` of its provider"
        return ModelRefused(f"`{name}` does not accept the key: {remedy}: {_quote(exc)}", **details)
    if isinstance(exc, errors.ModelNotFoundError):
        return ModelRefused(f"there is no model `{name}`, or this key has no access: {_quote(exc)}", **details)
    if isinstance(exc, errors.ModelHTTPError):
        permanent = 400 <= exc.status_code < 500 and exc.status_code not in RETRYABLE_STATUS_CODES
    else:
        permanent = isinstance(exc, errors.ModelRequestRejectedError)
    if permanent:
        return ModelRefused(f"`{name}` refused the call: {_quote(exc)}", **details)
    return ModelUnavailable(f"`{name}` is not available: {_quote(exc)}", **details)


def _is_too_long(exc: errors.ModelAPIError) -> bool:
    if isinstance(exc, errors.ModelContextWindowExceededError):
        return True
    status = getattr(exc, "status_code", None)
    return status == 413 or (status in (400, 422) and _CONTEXT_OVERFLOW_PATTERN.search(_quote(exc)) is not None)


def _quote(exc: Exception) -> str:
    """Return the provider's error message, else the text of the exception, as one line of bounded length."""
    body = getattr(exc, "body", None)
    message = body.get("error", body) if isinstance(body, dict) else body
    message = message.get("message", message) if isinstance(message, dict) else message
    status = getattr(exc, "status_code", None)
    text = " ".join(str(message or exc or type(exc).__name__).split())
    if status is None and (cause := _os_error(exc)):
        text = f"{text.rstrip('.')}: {cause}"
    text = text[:MAX_QUOTE_CHARS]
    return f"{status}: {text}" if status is not None else text


def _os_error(exc: BaseException) -> str | None:
    """Return why no connection was made, such as `Connection refused`: clients only say that there is none."""
    cause: BaseException | None = exc
    while cause is not None and not (isinstance(cause, OSError) and cause.errno):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, socket.gaierror):
        return cause.strerror
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else None  # not asyncio's own words
