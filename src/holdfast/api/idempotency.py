"""The header `Idempotency-Key`: a repeated request is done once, and gets the response of the first."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from litestar import Response
from litestar.params import HeaderParameter

from holdfast.domain.idempotency import MAX_IDEMPOTENCY_KEY_CHARS, KeyedRequest, KeyedResult, request_digest

T = TypeVar("T")

IdempotencyKey: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY_CHARS,
        description="Requests with the same key and body are done once; a different body is refused.",
    ),
]
REPLAYED_HEADER: Final = {"Idempotency-Replayed": "`true` if an earlier request with the same key was done instead."}


def keyed_request(operation: str, key: str | None, content: Sequence[Any]) -> KeyedRequest | None:
    """Return a request with a key; `content` is everything that a repeat must share, such as ids and the body."""
    return None if key is None else KeyedRequest(operation=operation, key=key, digest=request_digest(list(content)))


def keyed_response(result: KeyedResult[T]) -> Response[T]:
    """Return the response with a result."""
    return Response(result.value, headers=replay_headers(replayed=result.replayed))


def replay_headers(*, replayed: bool) -> dict[str, str]:
    """Return the header that marks the response to a repeated request."""
    return {"Idempotency-Replayed": "true"} if replayed else {}
