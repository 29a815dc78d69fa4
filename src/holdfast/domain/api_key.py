"""An API key: who may do what in which spaces. Only its hash is kept."""

from enum import StrEnum

import msgspec

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.text import check_text


class Scope(StrEnum):
    """What a key may do; each includes the ones before it."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret."""

    id: ApiKeyId
    name: str
    scope: Scope
    space_ids: list[SpaceId]
    created_by: str | None
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be kept, by the hash of its secret."""

    name: str
    scope: Scope
    secret_hash: bytes
    expires_at: Instant | None = None
    created_by: str | None = None


def check_new_key(new: NewApiKey, spaces: list[SpaceId]) -> None:
    """Raise if `new` can never be a key."""
    check_text(new.name, field="name", most=200)
    if len(new.secret_hash) != 32:
        raise Invalid("a key is kept as a SHA-256 hash of 32 bytes", field="secret_hash")
    if not spaces:
        raise Invalid("a key must be bound to at least one space", field="space_ids")


def valid(key: ApiKey, *, now: Instant) -> bool:
    """Say whether `key` opens anything now."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)
