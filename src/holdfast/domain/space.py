"""A space (the tenant that everything belongs to) and the API keys that give access to spaces.

Only the hash of a key's secret is stored.
"""

import re
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.validation import check_text

DEFAULT_SPACE: Final = SpaceId("default")
"""The space that every workspace begins with."""

MAX_SPACE_NAME_CHARS: Final = 200
"""Characters of a space's name."""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    id: SpaceId
    name: str
    metadata: dict[str, Json]
    created_at: Instant


class SpacePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a space; what is absent stays."""

    name: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MAX_SPACE_NAME_CHARS})] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    metadata: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET


class Scope(StrEnum):
    """What a key may do; each includes the ones before it."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"

    def includes(self, other: "Scope") -> bool:
        """Say whether who may do this may do the other."""
        return _SCOPE_ORDER[self] >= _SCOPE_ORDER[other]


_SCOPE_ORDER: Final = {scope: number for number, scope in enumerate(Scope)}
_RATE_LIMIT: Final = re.compile(r"[1-9][0-9]{0,6}/(second|minute|hour|day)")
SECRET_HASH_BYTES: Final = 32


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret."""

    id: ApiKeyId
    name: str
    scope: Scope
    space_ids: list[SpaceId]
    """None of them if it is for `every_space`."""
    every_space: bool
    """Also for those that are made later."""
    rate_limit: str | None
    """How many requests it may make, such as `600/minute`; the server's own limit, unless given."""
    created_by: str | None
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to be kept, by the hash of its secret."""

    name: str
    scope: Scope
    secret_hash: bytes
    every_space: bool = False
    rate_limit: str | None = None
    expires_at: Instant | None = None
    created_by: str | None = None


class StoredApiKey(NamedTuple):
    """A key with what its secret is known by. It is no value that anybody is sent."""

    key: ApiKey
    secret_hash: bytes


def check_new_api_key(new: NewApiKey, spaces: list[SpaceId]) -> None:
    """Raise if `new` can never be a key."""
    check_text(new.name, field="name", max_chars=200)
    if len(new.secret_hash) != SECRET_HASH_BYTES:
        raise Invalid(f"a key is kept as a SHA-256 hash of {SECRET_HASH_BYTES} bytes", field="secret_hash")
    if not spaces and not new.every_space:
        raise Invalid("a key must be bound to at least one space, or to every space", field="space_ids")
    if spaces and new.every_space:
        raise Invalid("a key for every space is bound to none: leave out its spaces", field="space_ids")
    if new.rate_limit is not None:
        check_rate_limit(new.rate_limit)


def check_rate_limit(rate: str) -> str:
    """Return `rate` if it is one."""
    if _RATE_LIMIT.fullmatch(rate) is None:
        raise Invalid(f"`{rate}` is no rate: write it like `600/minute`, per second, minute, hour or day", field="rate")
    return rate


def is_valid(key: ApiKey, *, now: Instant) -> bool:
    """Say whether `key` opens anything now."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)
