"""The key ring: from what a client sends to who asks.

A key that was looked up is believed for a moment, so that a busy client costs one read in that time and not one for
each request. A revoked key is refused everywhere once that moment is over, also by other processes.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.control.keys.asker import Asker, asker_of
from holdfast.control.keys.errors import Unauthenticated
from holdfast.control.keys.secret import hash_of, matches, read_token
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ApiKeyId
from holdfast.domain.instant import instant
from holdfast.domain.space import ApiKey, is_valid
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import ApiKeys

MEMORY: Final = 0.4
"""Seconds for which a key is believed."""
MOST: Final = 4096
"""Keys that are remembered at once."""


class _Known(NamedTuple):
    key: ApiKey
    asker: Asker
    until: float


class KeyRing:
    """The keys of a workspace, for those who come with one."""

    def __init__(self, keys: ApiKeys, clock: Clock, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._known: dict[bytes, _Known] = {}
        self._needed = False
        self._look_again = 0.0

    async def needed(self) -> bool:
        """Say whether everybody needs a key: there is one, revoked or not. Once it is so, it stays so."""
        if not self._needed and self._monotonic() >= self._look_again:
            self._needed = await self._keys.any()
            self._look_again = self._monotonic() + MEMORY
        return self._needed

    async def asker(self, token: str) -> Asker:
        """Return who comes with a token; one that opens nothing raises `Unauthenticated`."""
        digest = hash_of(token)
        known = self._known.get(digest)
        if known is None or self._monotonic() >= known.until:
            known = self._known[digest] = await self._look(token)
            self._forget_some()
        if not is_valid(known.key, now=instant(self._clock.now())):
            raise refused()
        return known.asker

    def added(self) -> None:
        """Learn that there is a key now."""
        self._needed = True

    def revoked(self, key: ApiKeyId) -> None:
        """Learn that a key was revoked, without waiting for it."""
        for digest in [digest for digest, known in self._known.items() if known.key.id == key]:
            del self._known[digest]

    async def _look(self, token: str) -> _Known:
        until = self._monotonic() + MEMORY  # from before it was read: a change after that is seen in time
        read = read_token(token)
        if read is None:
            raise refused()
        name, secret = read
        try:
            kept = await self._keys.find(name)
        except NotFound as exc:
            raise refused() from exc
        if not matches(kept, secret):
            raise refused()
        return _Known(kept.key, asker_of(kept.key), until)

    def _forget_some(self) -> None:
        if len(self._known) > MOST:
            now = self._monotonic()
            self._known = {digest: known for digest, known in self._known.items() if now < known.until}


def refused() -> Unauthenticated:
    """Make the error of a key that opens nothing; why that is so is nobody's business."""
    return Unauthenticated("this key opens nothing: it is wrong, has expired or was revoked")
