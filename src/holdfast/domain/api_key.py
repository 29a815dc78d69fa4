"""An API key: who may do what in which spaces. Only its hash is kept."""

import re
from enum import StrEnum
from typing import Final, NamedTuple

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

    def includes(self, other: "Scope") -> bool:
        """Say whether who may do this may do the other."""
        return _ORDER[self] >= _ORDER[other]


_ORDER: Final = {scope: number for number, scope in enumerate(Scope)}
_RATE: Final = re.compile(r"[1-9][0-9]{0,6}/(second|minute|hour|day)")
HASH_SIZE: Final = 32


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


class KeptKey(NamedTuple):
    """A key with what its secret is known by. It is no value that anybody is sent."""

    key: ApiKey
    secret_hash: bytes


def check_new_key(new: NewApiKey, spaces: list[SpaceId]) -> None:
    """Raise if `new` can never be a key."""
    check_text(new.name, field="name", most=200)
    if len(new.secret_hash) != HASH_SIZE:
        raise Invalid(f"a key is kept as a SHA-256 hash of {HASH_SIZE} bytes", field="secret_hash")
    if not spaces and not new.every_space:
        raise Invalid("a key must be bound to at least one space, or to every space", field="space_ids")
    if spaces and new.every_space:
        raise Invalid("a key for every space is bound to none: leave out its spaces", field="space_ids")
    if new.rate_limit is not None:
        check_rate(new.rate_limit)


def check_rate(rate: str) -> str:
    """Return `rate` if it is one."""
    if _RATE.fullmatch(rate) is None:
        raise Invalid(f"`{rate}` is no rate: write it like `600/minute`, per second, minute, hour or day", field="rate")
    return rate


def valid(key: ApiKey, *, now: Instant) -> bool:
    """Say whether `key` opens anything now."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)
