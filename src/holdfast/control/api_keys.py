"""API keys: create, list and revoke them, and authenticate the tokens that clients send.

A token is `hf_<key id>_<256 random bits>`. The id selects the key, so the hash of the secret is compared with one other
only, in constant time. A key that was looked up is cached for less than a second: a busy client costs one read per
interval instead of one per request, and every process refuses a revoked key once the interval is over.
"""

import re
import secrets
import time
from collections.abc import Callable, Sequence
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
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import ApiKeys

TOKEN_PREFIX: Final = "hf_"
_KEY_ID_PREFIX: Final = "key_"
_SECRET_BYTES: Final = 32
_TOKEN_PATTERN: Final = re.compile(rf"{TOKEN_PREFIX}(?P<key>[0-9a-f]{{32}})_(?P<secret>[A-Za-z0-9_-]{{43}})")


def new_secret() -> str:
    """Return something that nobody can guess."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def hash_secret(secret: str) -> bytes:
    """Return what is kept of a secret. It is too long to be tried out, so a fast hash is as good as a slow one."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def format_token(key: ApiKeyId, secret: str) -> str:
    """Return what the owner of a key sends."""
    return f"{TOKEN_PREFIX}{key.removeprefix(_KEY_ID_PREFIX)}_{secret}"


def parse_token(token: str) -> tuple[ApiKeyId, str] | None:
    """Return the key that a token names, and its secret; nothing if it is no token of ours."""
    read = _TOKEN_PATTERN.fullmatch(token)
    return None if read is None else (ApiKeyId(_KEY_ID_PREFIX + read["key"]), read["secret"])


def secret_matches(kept: StoredApiKey, secret: str) -> bool:
    """Say whether it is the secret of a key."""
    return compare_digest(kept.secret_hash, hash_secret(secret))


KEY_CACHE_SECONDS: Final = 0.4
"""Seconds for which a key is believed."""
MAX_CACHED_KEYS: Final = 4096
"""Keys that are remembered at once."""


class _CachedKey(NamedTuple):
    key: ApiKey
    asker: Principal
    until: float


class CachedKeyAuthenticator:
    """The keys of a workspace, for those who come with one."""

    def __init__(self, keys: ApiKeys, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[bytes, _CachedKey] = {}
        self._needed = False
        self._look_again = 0.0

    async def key_required(self) -> bool:
        """Say whether everybody needs a key: there is one, revoked or not. Once it is so, it stays so."""
        if not self._needed and self._monotonic() >= self._look_again:
            self._needed = await self._keys.any()
            self._look_again = self._monotonic() + KEY_CACHE_SECONDS
        return self._needed

    async def authenticate(self, token: str) -> Principal:
        """Return who comes with a token; one that opens nothing raises `Unauthenticated`."""
        digest = hash_secret(token)
        known = self._known.get(digest)
        if known is None or self._monotonic() >= known.until:
            known = self._known[digest] = await self._look(token)
            self._forget_some()
        if not is_valid(known.key, now=instant(self._clock.now())):
            raise invalid_key_error()
        return known.asker

    def note_created(self) -> None:
        """Learn that there is a key now."""
        self._needed = True

    def note_revoked(self, key: ApiKeyId) -> None:
        """Learn that a key was revoked, without waiting for it."""
        for digest in [digest for digest, known in self._known.items() if known.key.id == key]:
            del self._known[digest]

    async def _look(self, token: str) -> _CachedKey:
        until = self._monotonic() + KEY_CACHE_SECONDS  # from before it was read: a change after that is seen in time
        read = parse_token(token)
        if read is None:
            raise invalid_key_error()
        name, secret = read
        try:
            kept = await self._keys.find(name)
        except NotFound as exc:
            raise invalid_key_error() from exc
        if not secret_matches(kept, secret):
            raise invalid_key_error()
        return _CachedKey(kept.key, principal_of_key(kept.key), until)

    def _forget_some(self) -> None:
        if len(self._known) > MAX_CACHED_KEYS:
            now = self._monotonic()
            self._known = {digest: known for digest, known in self._known.items() if now < known.until}


def invalid_key_error() -> Unauthenticated:
    """Make the error of a key that opens nothing; why that is so is nobody's business."""
    return Unauthenticated("this key opens nothing: it is wrong, has expired or was revoked")


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A key that somebody wants."""

    name: str
    scope: Scope
    space_ids: Sequence[SpaceId] = ()
    """The home of who asks, if there are none and it is not for every space."""
    every_space: bool = False
    rate_limit: str | None = None
    expires_at: Instant | None = None


class MadeKey(ApiKey, frozen=True, kw_only=True):
    """A key that was just made, with what its owner sends: it is shown here and never again."""

    secret: str


class KeyControl:
    """What can be done with keys. Nobody sees or gives away more than they have themselves."""

    def __init__(
        self,
        keys: ApiKeys,
        authenticator: CachedKeyAuthenticator,
        clock: Clock,
        *,
        principal: Principal = LOCAL_PRINCIPAL,
    ) -> None:
        self._keys = keys
        self._ring = authenticator
        self._clock = clock
        self._asker = principal

    async def create(self, request: KeyRequest) -> MadeKey:
        """Make a key."""
        spaces = (
            []
            if request.every_space and not request.space_ids
            else list(request.space_ids or [self._asker.default_space])
        )
        self._check(request, spaces)
        secret = new_secret()
        new = NewApiKey(
            name=request.name,
            scope=request.scope,
            secret_hash=hash_secret(secret),
            every_space=request.every_space,
            rate_limit=request.rate_limit,
            expires_at=request.expires_at,
            created_by=self._asker.name,
        )
        made = await self._keys.create(spaces, new)
        self._ring.note_created()
        return MadeKey(**msgspec.structs.asdict(made), secret=format_token(made.id, secret))

    async def all(self) -> list[ApiKey]:
        """Return the keys that open nothing which is not theirs who asks, the oldest first."""
        if self._asker.space_ids is None:
            return await self._keys.all()
        found = {key.id: key for space in self._asker.space_ids for key in await self._keys.of_space(space)}
        return [key for _, key in sorted(found.items()) if self._covers(key)]

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Let a key open nothing from now on; revoking it again changes nothing."""
        if not self._covers((await self._keys.find(key)).key):
            raise NotFound(f"there is no key `{key}`", id=key)
        revoked = await self._keys.revoke(key)
        self._ring.note_revoked(key)
        return revoked

    def _check(self, asked: KeyRequest, spaces: Sequence[SpaceId]) -> None:
        for space in spaces:
            self._asker.check_access(space)
        if asked.every_space and not self._asker.has_all_spaces:
            raise Forbidden("only who has every space can make a key for every space")
        if not self._asker.scope.includes(asked.scope):
            raise Forbidden(f"a key with the scope `{self._asker.scope}` cannot make one with `{asked.scope}`")
        if asked.expires_at is not None and millis(asked.expires_at) <= self._clock.now():
            now = instant(self._clock.now())
            raise Invalid(f"`expires_at` must be in the future: it is {now}", field="expires_at")

    def _covers(self, key: ApiKey) -> bool:
        if key.every_space:
            return self._asker.has_all_spaces
        return all(self._asker.can_access(space) for space in key.space_ids)
