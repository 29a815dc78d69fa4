"""Keys in the hands of those who may give some away."""

from collections.abc import Sequence

import msgspec

from holdfast.control.keys.asker import LOCAL, Asker
from holdfast.control.keys.errors import Forbidden
from holdfast.control.keys.ring import KeyRing
from holdfast.control.keys.secret import hash_of, new_secret, token_of
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant, instant, millis
from holdfast.domain.space import ApiKey, NewApiKey, Scope
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import ApiKeys


class AskedKey(msgspec.Struct, frozen=True, kw_only=True):
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

    def __init__(self, keys: ApiKeys, ring: KeyRing, clock: Clock, *, asker: Asker = LOCAL) -> None:
        self._keys = keys
        self._ring = ring
        self._clock = clock
        self._asker = asker

    async def create(self, asked: AskedKey) -> MadeKey:
        """Make a key."""
        spaces = [] if asked.every_space and not asked.space_ids else list(asked.space_ids or [self._asker.home])
        self._check(asked, spaces)
        secret = new_secret()
        new = NewApiKey(
            name=asked.name,
            scope=asked.scope,
            secret_hash=hash_of(secret),
            every_space=asked.every_space,
            rate_limit=asked.rate_limit,
            expires_at=asked.expires_at,
            created_by=self._asker.name,
        )
        made = await self._keys.create(spaces, new)
        self._ring.added()
        return MadeKey(**msgspec.structs.asdict(made), secret=token_of(made.id, secret))

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
        self._ring.revoked(key)
        return revoked

    def _check(self, asked: AskedKey, spaces: Sequence[SpaceId]) -> None:
        for space in spaces:
            self._asker.check_sees(space)
        if asked.every_space and not self._asker.everywhere:
            raise Forbidden("only who has every space can make a key for every space")
        if not self._asker.scope.includes(asked.scope):
            raise Forbidden(f"a key with the scope `{self._asker.scope}` cannot make one with `{asked.scope}`")
        if asked.expires_at is not None and millis(asked.expires_at) <= self._clock.now():
            now = instant(self._clock.now())
            raise Invalid(f"`expires_at` must be in the future: it is {now}", field="expires_at")

    def _covers(self, key: ApiKey) -> bool:
        if key.every_space:
            return self._asker.everywhere
        return all(self._asker.sees(space) for space in key.space_ids)
