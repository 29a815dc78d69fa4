import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from pydantic_ai import exceptions as errors

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable
from holdfast.models.provider_errors import to_model_error, wrap_open_errors, wrap_stream_errors


def http(status: int, body: Any = None, **headers: str) -> errors.ModelHTTPError:
    return errors.ModelHTTPError(status, "m", body, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_temporary_status_is_an_outage(status: int) -> None:
    assert type(to_model_error(http(status), name="p:m")) is ModelUnavailable


@pytest.mark.parametrize("status", [400, 403, 404, 405, 422])
def test_a_permanent_status_is_a_refusal(status: int) -> None:
    error = to_model_error(http(status, {"message": "no such thing"}), name="p:m")
    assert type(error) is ModelRefused
    assert "`p:m`" in error.message
    assert "no such thing" in error.message
    assert error.details["status"] == status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "7"}, 7.0), ({"retry_after_ms": "1500"}, 1.5), ({"retry_after": "soon"}, None)],
)
def test_the_retry_delay_is_in_the_details(headers: dict[str, str], seconds: float | None) -> None:
    assert to_model_error(http(429, **headers), name="p:m").details.get("retry_after") == seconds


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 8192 tokens.",
        "Your input exceeds the context window of this model.",
        "prompt is too long: 214087 tokens > 199999 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "the request exceeds the available context size",
        "Request has too many tokens",
    ],
)
def test_a_call_that_is_too_long_is_an_overflow_however_it_is_worded(words: str) -> None:
    assert type(to_model_error(http(400, {"error": {"message": words}}), name="p:m")) is ContextOverflow


def test_a_body_that_is_too_large_is_an_overflow() -> None:
    assert type(to_model_error(http(413), name="p:m")) is ContextOverflow


def test_other_errors_about_tokens_are_not_an_overflow() -> None:
    assert type(to_model_error(http(400, {"message": "max_tokens must be positive"}), name="p:m")) is ModelRefused


def test_a_rejected_key_is_named_by_its_variable() -> None:
    exception = errors.ModelHTTPError.for_category(errors.ModelAuthenticationError, status_code=401, model_name="m")
    assert "`P_KEY`" in to_model_error(exception, name="p:m", key="P_KEY").message
    assert "`api_key_env`" in to_model_error(exception, name="p:m").message


def test_an_account_without_credit_is_an_outage_that_names_the_remedy() -> None:
    broke = errors.ModelHTTPError.for_category(errors.ModelQuotaExceededError, status_code=429, model_name="m")
    error = to_model_error(broke, name="p:m")
    assert type(error) is ModelUnavailable
    assert "add credit" in error.message


@pytest.mark.parametrize(
    "exception",
    [
        errors.ModelConnectionError("m", "reset"),
        errors.UnexpectedModelBehavior("odd"),
        httpx2.ReadError("reset"),
        ConnectionResetError(),
        TimeoutError(),
        json.JSONDecodeError("no", "{", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        AttributeError("'list' object has no attribute 'choices'"),
        TypeError(),
        KeyError("x"),
        AssertionError(),
        RuntimeError("the client has been closed"),
    ],
)
async def test_any_error_of_a_stream_is_an_outage(exception: Exception) -> None:
    async def events() -> AsyncIterator[int]:
        yield 1
        raise exception

    seen = []
    with pytest.raises(ModelUnavailable) as caught:
        async for event in wrap_stream_errors(events(), "p:m", key=None):
            seen.append(event)
    assert seen == [1]
    assert caught.value.__cause__ is exception
    assert caught.value.message.startswith("`p:m`")


async def test_a_cancellation_is_not_converted() -> None:
    async def events() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        async for _ in wrap_stream_errors(events(), "p:m", key=None):
            pass


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (errors.UserError("this model reads no video"), ModelRefused),
        (NotImplementedError("no such part"), ModelRefused),
        (ValueError("unknown media type"), ModelRefused),
        (RuntimeError("Unsupported binary content type: "), ModelRefused),
        (RuntimeError("the client has been closed"), ModelUnavailable),
        (errors.ContentFilterError("blocked"), ModelRefused),
        (httpx2.ConnectError("refused"), ModelUnavailable),
        (http(529), ModelUnavailable),
    ],
)
def test_an_unsupported_call_is_a_refusal_and_a_connection_error_is_an_outage(
    exception: Exception, kind: type[HoldfastError]
) -> None:
    with pytest.raises(HoldfastError) as caught, wrap_open_errors("p:m", key=None):
        raise exception
    assert type(caught.value) is kind


def test_a_long_error_is_truncated() -> None:
    assert len(to_model_error(http(500, "x" * 10_000), name="p:m").message) < 700
