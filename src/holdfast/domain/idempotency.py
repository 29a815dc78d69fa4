"""Digests and keys that identify a repeated request or step."""

from hashlib import sha256
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId

MAX_IDEMPOTENCY_KEY_CHARS: Final = 255

T = TypeVar("T")


class KeyedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with an idempotency key. The same key belongs to one request per operation."""

    operation: str
    key: str
    digest: str
    """The digest of everything that a repeat of the request must share."""


class KeyedResult(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a request, and whether an earlier request with the same key had it."""

    value: T
    replayed: bool = False


def request_digest(value: Json | msgspec.Struct) -> str:
    """Return the SHA-256 of `value` as JSON with sorted keys."""
    try:
        text = msgspec.json.encode(value, order="sorted")
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise Invalid(f"the value cannot be encoded as JSON: {exc}") from exc
    return sha256(text).hexdigest()


def check_idempotency_key(key: str) -> str:
    """Return `key` if it is a valid idempotency key."""
    if not (0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARS and key.isascii() and key.isprintable()):
        raise Invalid(
            f"an idempotency key must be 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters",
            field="Idempotency-Key",
        )
    return key


def step_key(run_id: RunId, number: int) -> str:
    """Return the key of a step, which is the same for every attempt."""
    return f"{run_id}.{number}"


def derived_id(prefix: str, *, key: str, index: int = 0) -> str:
    """Return the id of the object number `index` that the step with this `key` creates; it does not sort by age."""
    return f"{prefix}_{sha256(f'{key}.{index}'.encode()).hexdigest()[:32]}"
