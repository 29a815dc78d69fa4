"""A space (the tenant that everything belongs to) and the API keys and stream tickets that give access to spaces.

Only the hash of a secret is stored.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.validation import check_text
from holdfast.domain.worker import check_pools

DEFAULT_SPACE: Final = SpaceId("default")

MAX_SPACE_NAME_CHARS: Final = 200


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant."""

    id: SpaceId
    name: str
    metadata: dict[str, Json]
    created_at: Instant


class SpacePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a space; absent fields stay."""

    name: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MAX_SPACE_NAME_CHARS})] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    metadata: dict[str, Json] | msgspec.UnsetType = msgspec.UNSET


class Scope(StrEnum):
    """Scope of an API key. `admin` includes all others, `run` includes `read`, and `worker` includes none."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"
    WORKER = "worker"
    """Claim runs and execute them, and nothing else."""

    def includes(self, other: "Scope") -> bool:
        """Return whether this scope includes the `other`."""
        return self is other or other in _INCLUDED[self]


_INCLUDED: Final[dict[Scope, frozenset[Scope]]] = {
    Scope.WORKER: frozenset(),
    Scope.READ: frozenset(),
    Scope.RUN: frozenset({Scope.READ}),
    Scope.ADMIN: frozenset(Scope),
}
_RATE_LIMIT: Final = re.compile(r"[1-9][0-9]{0,6}/(second|minute|hour|day)")
SECRET_HASH_BYTES: Final = 32


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, without its secret."""

    id: ApiKeyId
    name: str
    scope: Scope
    space_ids: list[SpaceId]
    """Empty if `every_space` is set."""
    every_space: bool
    """Valid for all spaces, including later ones."""
    pools: list[str]
    """The pools that a worker key may claim runs from; empty for every pool, and for keys of other scopes."""
    rate_limit: str | None
    """Maximum request rate, such as `600/minute`; null is the limit of the server."""
    created_by: str | None
    created_at: Instant
    expires_at: Instant | None
    revoked_at: Instant | None


class NewApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key to store, with the hash of its secret."""

    name: str
    scope: Scope
    secret_hash: bytes
    every_space: bool = False
    pools: Sequence[str] = ()
    rate_limit: str | None = None
    expires_at: Instant | None = None
    created_by: str | None = None


class StoredApiKey(NamedTuple):
    """A key with the hash of its secret. It is never sent to clients."""

    key: ApiKey
    secret_hash: bytes


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The right to open one stream for a short time, without the header that carries a key."""

    path: str
    api_key_id: ApiKeyId | None
    """The key that asked for it; null if another principal did."""
    principal: Json
    """The principal that asked for it."""
    expires_at: Instant


def check_new_api_key(new: NewApiKey, spaces: list[SpaceId]) -> None:
    """Raise if `new` is not a valid key."""
    check_text(new.name, field="name", max_chars=200)
    if len(new.secret_hash) != SECRET_HASH_BYTES:
        raise Invalid(f"`secret_hash` must be a SHA-256 hash of {SECRET_HASH_BYTES} bytes", field="secret_hash")
    if not spaces and not new.every_space:
        raise Invalid("a key must be bound to at least one space, or to every space", field="space_ids")
    if spaces and new.every_space:
        raise Invalid("a key for every space takes no `space_ids`: remove them", field="space_ids")
    if check_pools(new.pools) and new.scope is not Scope.WORKER:
        raise Invalid("only a key with the scope `worker` is bound to pools: remove `pools`", field="pools")
    if new.rate_limit is not None:
        check_rate_limit(new.rate_limit)


def check_rate_limit(rate: str) -> str:
    """Return `rate` if it is a valid request rate."""
    if _RATE_LIMIT.fullmatch(rate) is None:
        raise Invalid(f"`{rate}` is not a rate: write it like `600/minute` (second, minute, hour or day)", field="rate")
    return rate


def is_valid(key: ApiKey, *, now: Instant) -> bool:
    """Return whether `key` is neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)
