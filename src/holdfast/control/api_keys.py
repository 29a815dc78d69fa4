"""API keys: create, list and revoke them, and authenticate the tokens that clients send.

A token is `hf_<key id>_<256 random bits>`. The id selects the key, so the hash of the secret is compared with one other
only, in constant time. A key that was looked up is cached for less than a second: a busy client costs one read per
interval instead of one per request, and every process refuses a revoked key once the interval is over.
"""

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

import msgspec

from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal, principal_of_key
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant, instant, millis
from holdfast.domain.space import ApiKey, NewApiKey, Scope, StoredApiKey, is_valid
from holdfast.domain.worker import check_pools
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import ApiKeys

TOKEN_PREFIX: Final = "hf_"
KEY_ID_PREFIX: Final = "key_"
_SECRET_BYTES: Final = 32
_TOKEN_PATTERN: Final = re.compile(rf"{TOKEN_PREFIX}(?P<key>[0-9a-f]{{32}})_(?P<secret>[A-Za-z0-9_-]{{43}})")
KEY_CACHE_SECONDS: Final = 0.4
"""Seconds for which a key is cached."""
MAX_CACHED_KEYS: Final = 4096


def new_secret() -> str:
    """Return a random secret."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def hash_secret(secret: str) -> bytes:
    """Return the hash of a secret. The secret has 256 random bits, so a fast hash is as safe as a slow one."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def format_token(key: ApiKeyId, secret: str) -> str:
    """Return the token that the owner of a key sends."""
    return f"{TOKEN_PREFIX}{key.removeprefix(KEY_ID_PREFIX)}_{secret}"


def parse_token(token: str) -> tuple[ApiKeyId, str] | None:
    """Return the key id and the secret of a token, or `None` if it is malformed."""
    match = _TOKEN_PATTERN.fullmatch(token)
    return None if match is None else (ApiKeyId(KEY_ID_PREFIX + match["key"]), match["secret"])


class _CachedKey(NamedTuple):
    key: ApiKey
    principal: Principal
    expires_at: float


class CachedKeyAuthenticator:
    """Authenticates the API keys of a workspace, with a short-lived cache."""

    def __init__(self, keys: ApiKeys, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._cache: dict[bytes, _CachedKey] = {}
        self._key_required = False
        self._recheck_at = 0.0

    async def key_required(self) -> bool:
        """Return whether requests need a key: once a key exists, revoked or not, they always do."""
        if not self._key_required and self._monotonic() >= self._recheck_at:
            self._key_required = await self._keys.any()
            self._recheck_at = self._monotonic() + KEY_CACHE_SECONDS
        return self._key_required

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a token; an invalid token raises `Unauthenticated`."""
        return await self._authenticate(hash_secret(token), lambda: self._find_by_token(token))

    async def authenticate_holder(self, key: ApiKeyId) -> Principal:
        """Return the principal of a key whose secret was checked before."""
        return await self._authenticate(hash_secret(f"{KEY_ID_PREFIX} {key}"), lambda: self._find(key))

    async def _authenticate(self, digest: bytes, find: Callable[[], Awaitable[StoredApiKey]]) -> Principal:
        cached = self._cache.get(digest)
        if cached is None or self._monotonic() >= cached.expires_at:
            expires_at = self._monotonic() + KEY_CACHE_SECONDS  # from before the read: a later change is seen in time
            key = (await find()).key
            cached = self._cache[digest] = _CachedKey(key, principal_of_key(key), expires_at)
            if len(self._cache) > MAX_CACHED_KEYS:
                now = self._monotonic()
                self._cache = {digest: each for digest, each in self._cache.items() if now < each.expires_at}
        if not is_valid(cached.key, now=instant(self._clock.now())):
            raise invalid_key_error()
        return cached.principal

    def note_created(self) -> None:
        """Require a key from now on: one was created."""
        self._key_required = True

    def note_revoked(self, key: ApiKeyId) -> None:
        """Drop a revoked key from the cache."""
        for digest in [digest for digest, cached in self._cache.items() if cached.key.id == key]:
            del self._cache[digest]

    async def _find_by_token(self, token: str) -> StoredApiKey:
        parsed = parse_token(token)
        if parsed is None:
            raise invalid_key_error()
        key_id, secret = parsed
        stored = await self._find(key_id)
        if not compare_digest(stored.secret_hash, hash_secret(secret)):
            raise invalid_key_error()
        return stored

    async def _find(self, key: ApiKeyId) -> StoredApiKey:
        try:
            return await self._keys.find(key)
        except NotFound as exc:
            raise invalid_key_error() from exc


def invalid_key_error() -> Unauthenticated:
    """Return the error of an invalid key; it does not tell which of the reasons applies."""
    return Unauthenticated("this key is not valid: it is wrong, has expired or was revoked")


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a new key."""

    name: str
    scope: Scope
    space_ids: Sequence[SpaceId] = ()
    """Defaults to the principal's default space, unless `every_space` is set."""
    every_space: bool = False
    pools: Sequence[str] = ()
    """The pools of a worker key; empty for every pool."""
    rate_limit: str | None = None
    expires_at: Instant | None = None


class MadeKey(ApiKey, frozen=True, kw_only=True):
    """A new key with its token in `secret`, which is shown only once."""

    secret: str


class KeyControl:
    """Commands for API keys. A principal sees and grants only what it has itself."""

    def __init__(
        self,
        keys: ApiKeys,
        authenticator: CachedKeyAuthenticator,
        clock: Clock,
        *,
        principal: Principal = LOCAL_PRINCIPAL,
    ) -> None:
        self._keys = keys
        self._authenticator = authenticator
        self._clock = clock
        self._principal = principal

    async def create(self, request: KeyRequest) -> MadeKey:
        """Create a key."""
        spaces = list(request.space_ids)
        if not spaces and not request.every_space:
            spaces = [self._principal.default_space]
        self._check(request, spaces)
        secret = new_secret()
        new = NewApiKey(
            name=request.name,
            scope=request.scope,
            secret_hash=hash_secret(secret),
            every_space=request.every_space,
            pools=check_pools(request.pools),
            rate_limit=request.rate_limit,
            expires_at=request.expires_at,
            created_by=self._principal.name,
        )
        key = await self._keys.create(spaces, new)
        self._authenticator.note_created()
        return MadeKey(**msgspec.structs.asdict(key), secret=format_token(key.id, secret))

    async def all(self) -> list[ApiKey]:
        """Return the keys whose access the principal has too, oldest first."""
        if self._principal.space_ids is None:
            return await self._keys.all()
        found = {key.id: key for space in self._principal.space_ids for key in await self._keys.of_space(space)}
        return [key for _, key in sorted(found.items()) if self._covers(key)]

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""
        if not self._covers((await self._keys.find(key)).key):
            raise NotFound(f"there is no key `{key}`", id=key)
        revoked = await self._keys.revoke(key)
        self._authenticator.note_revoked(key)
        return revoked

    def _check(self, request: KeyRequest, spaces: Sequence[SpaceId]) -> None:
        for space in spaces:
            self._principal.check_access(space)
        if request.every_space and not self._principal.has_all_spaces:
            raise Forbidden("a key for every space can only be created with a key for every space")
        if not self._principal.scope.includes(request.scope):
            raise Forbidden(f"a key with the scope `{self._principal.scope}` cannot create one with `{request.scope}`")
        if request.expires_at is not None and millis(request.expires_at, field="expires_at") <= self._clock.now():
            now = instant(self._clock.now())
            raise Invalid(f"`expires_at` must be in the future: it is {now}", field="expires_at")

    def _covers(self, key: ApiKey) -> bool:
        if key.every_space or not key.space_ids:  # without spaces: those that it opened were deleted
            return self._principal.has_all_spaces
        return all(self._principal.can_access(space) for space in key.space_ids)
