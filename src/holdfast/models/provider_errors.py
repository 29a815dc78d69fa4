"""Errors of a provider's library, converted to ours.

A call that may succeed later is `ModelUnavailable`, one that is too long is `ContextOverflow`, one that can never
succeed is `ModelRefused`. An exception caused by a malformed response counts as an outage.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import httpx2
from pydantic_ai import exceptions as raised

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable

PROVIDER_ERRORS: Final = (
    RuntimeError,  # all of pydantic-ai's own, and a client that was closed
    OSError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    ValueError,  # from here on: garbage in place of an answer
    TypeError,
    AttributeError,
    LookupError,
    AssertionError,
)
RETRYABLE_STATUS_CODES: Final = frozenset({408, 409, 425, 429})
"""Client errors after which the same call may succeed; those of the server always may."""
MAX_QUOTE_CHARS: Final = 500
"""Characters of a provider's own words."""

_CONTEXT_OVERFLOW_PATTERN: Final = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|(prompt|input|request) is too (long|large)"
    r"|too many (input |prompt )?tokens|exceeds? the (maximum|max|available) (number of )?(input )?(tokens|context)",
    re.IGNORECASE,
)

_T = TypeVar("_T")


@contextmanager
def wrap_open_errors(name: str, *, key: str | None) -> Iterator[None]:
    """Raise what goes wrong while a call is opened as one of our errors; `key` is the variable that holds its key."""
    try:
        yield
    except PROVIDER_ERRORS as exc:
        if isinstance(exc, NotImplementedError | ValueError | raised.UserError) or _is_unsupported(exc):
            raise ModelRefused(f"`{name}` cannot be asked this: {exc}") from exc
        raise to_model_error(exc, name=name, key=key) from exc


async def wrap_stream_errors(events: AsyncIterator[_T], name: str, *, key: str | None) -> AsyncGenerator[_T, None]:
    """Yield `events`, and raise what goes wrong between them as one of our errors."""
    try:
        async for event in events:
            yield event
    except PROVIDER_ERRORS as exc:
        raise to_model_error(exc, name=name, key=key) from exc


def to_model_error(exc: Exception, *, name: str, key: str | None = None) -> HoldfastError:
    """Return our error for what a provider's library raised."""
    if isinstance(exc, raised.ContentFilterError):
        return ModelRefused(f"`{name}` refused the call: {_quote(exc)}")
    if isinstance(exc, raised.ModelAPIError):
        return _api_error(exc, name=name, key=key)
    return ModelUnavailable(f"`{name}` broke off or gave no sensible answer: {_quote(exc)}")


def _api_error(exc: raised.ModelAPIError, *, name: str, key: str | None) -> HoldfastError:
    details = _details(exc)
    if _is_too_long(exc):
        return ContextOverflow(f"the call is longer than `{name}` can read: {_quote(exc)}", **details)
    if isinstance(exc, raised.ModelQuotaExceededError):
        # Waiting does not help, but somebody may pay, or there may be another model to fall back on.
        return ModelUnavailable(f"the account of `{name}` is used up: add credit to it: {_quote(exc)}", **details)
    if isinstance(exc, raised.ModelAuthenticationError):
        advice = f"check the environment variable `{key}`" if key else "give its provider an `api_key_env`"
        return ModelRefused(f"`{name}` does not accept the key: {advice}: {_quote(exc)}", **details)
    if isinstance(exc, raised.ModelNotFoundError):
        return ModelRefused(f"there is no model `{name}`, or not for this key: {_quote(exc)}", **details)
    if _is_final(exc):
        return ModelRefused(f"`{name}` refused the call: {_quote(exc)}", **details)
    return ModelUnavailable(f"`{name}` is not available: {_quote(exc)}", **details)


def _is_unsupported(exc: Exception) -> bool:
    """Tell whether a library knows no way to ask; it has no class of its own for what it cannot send."""
    return type(exc) is RuntimeError and str(exc).startswith("Unsupported")


def _is_too_long(exc: raised.ModelAPIError) -> bool:
    if isinstance(exc, raised.ModelContextWindowExceededError):
        return True
    status = getattr(exc, "status_code", None)
    return status == 413 or (status in (400, 422) and _CONTEXT_OVERFLOW_PATTERN.search(_quote(exc)) is not None)


def _is_final(exc: raised.ModelAPIError) -> bool:
    if isinstance(exc, raised.ModelHTTPError):
        return 400 <= exc.status_code < 500 and exc.status_code not in RETRYABLE_STATUS_CODES
    return isinstance(exc, raised.ModelRequestRejectedError)


def _details(exc: raised.ModelAPIError) -> dict[str, Any]:
    named = {
        "status": getattr(exc, "status_code", None),
        "provider_code": exc.provider_error_code or exc.provider_error_type,
        "retry_after": exc.retry_after,
    }
    return {key: value for key, value in named.items() if value is not None}


def _quote(exc: Exception) -> str:
    """Return what the provider said, or what the error says, in one line that is not too long."""
    body = getattr(exc, "body", None)
    said = body.get("error", body) if isinstance(body, dict) else body
    said = said.get("message", said) if isinstance(said, dict) else said
    status = getattr(exc, "status_code", None)
    text = " ".join(str(said or exc or type(exc).__name__).split())[:MAX_QUOTE_CHARS]
    return f"{status}: {text}" if status is not None else text
