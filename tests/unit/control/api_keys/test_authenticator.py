"""From what a client sends to who asks: read once in a while, and refused in time."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.bootstrap import open_store
from holdfast.control.api_keys import (
    KEY_CACHE_SECONDS,
    MAX_CACHED_KEYS,
    CachedKeyAuthenticator,
    KeyControl,
    KeyRequest,
    MadeKey,
)
from holdfast.control.errors import Unauthenticated
from holdfast.control.principal import Principal
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.space import Scope, StoredApiKey
from holdfast.store.spaces import SqlApiKeys
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock

ACME = SpaceId("acme")
MINUTE = timedelta(minutes=1)


class Watch:
    """A clock that counts seconds."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return how many there were."""
        return self.now


class Counted(SqlApiKeys):
    """Keys that count how often they are looked up."""

    looks = 0

    async def find(self, key: ApiKeyId) -> StoredApiKey:
        """Look one up."""
        self.looks += 1
        return await super().find(key)

    async def any(self) -> bool:
        """Look whether there is one."""
        self.looks += 1
        return await super().any()


class Bunch:
    """Keys, and a ring that they hang on."""

    def __init__(self, store: Store) -> None:
        self.keys = Counted(store.api_keys._database)
        self.clock, self.watch = HeldClock(), Watch()
        self.ring = CachedKeyAuthenticator(self.keys, self.clock, monotonic=self.watch)
        self.elsewhere = KeyControl(store.api_keys, CachedKeyAuthenticator(store.api_keys, self.clock), self.clock)

    async def make(self, minutes: int | None = None) -> MadeKey:
        """Make a key in another process."""
        end = None if minutes is None else instant(Millis(self.clock.now() + minutes * 60_000))
        return await self.elsewhere.create(KeyRequest(name="x", scope=Scope.RUN, space_ids=[ACME], expires_at=end))


@pytest.fixture
async def bunch(tmp_path: Path) -> AsyncIterator[Bunch]:
    async with open_store(tmp_path / "holdfast.db") as store:
        await store.spaces.create(ACME, name="Acme")
        yield Bunch(store)


async def test_a_key_is_read_once_in_a_while_however_often_it_comes(bunch: Bunch) -> None:
    key = await bunch.make()
    found = [await bunch.ring.authenticate(key.secret) for _ in range(100)]
    assert found == [Principal(name=key.id, scope=Scope.RUN, space_ids=(ACME,))] * 100
    assert bunch.keys.looks == 1
    bunch.watch.now += KEY_CACHE_SECONDS
    await bunch.ring.authenticate(key.secret)
    assert bunch.keys.looks == 2


async def test_a_key_revoked_elsewhere_is_refused_once_it_is_read_again(bunch: Bunch) -> None:
    key = await bunch.make()
    await bunch.ring.authenticate(key.secret)
    await bunch.elsewhere.revoke(key.id)
    bunch.watch.now += KEY_CACHE_SECONDS
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await bunch.ring.authenticate(key.secret)


async def test_a_key_revoked_here_is_refused_at_once(bunch: Bunch) -> None:
    key = await bunch.make()
    await bunch.ring.authenticate(key.secret)
    await bunch.elsewhere.revoke(key.id)
    bunch.ring.note_revoked(key.id)
    with pytest.raises(Unauthenticated):
        await bunch.ring.authenticate(key.secret)


async def test_a_key_is_refused_from_the_moment_that_it_expires(bunch: Bunch) -> None:
    key = await bunch.make(minutes=1)
    await bunch.ring.authenticate(key.secret)
    bunch.clock.tick(MINUTE)
    with pytest.raises(Unauthenticated):
        await bunch.ring.authenticate(key.secret)


async def test_all_that_opens_nothing_is_refused_in_the_same_words(bunch: Bunch) -> None:
    key, gone = await bunch.make(), await bunch.make()
    await bunch.elsewhere.revoke(gone.id)
    said = set()
    for sent in (
        "",
        "x",
        "hf_",
        key.secret[:-1],
        key.secret + "x",
        "hf_" + "0" * 32 + key.secret[35:],
        gone.secret,
        "é",
    ):
        with pytest.raises(Unauthenticated) as caught:
            await bunch.ring.authenticate(sent)
        said.add(caught.value.message)
    assert len(said) == 1


async def test_keys_are_needed_once_there_is_one_and_from_then_on(bunch: Bunch) -> None:
    assert not await bunch.ring.key_required()
    key = await bunch.make()
    assert not await bunch.ring.key_required()  # it looked a moment ago
    bunch.watch.now += KEY_CACHE_SECONDS
    assert await bunch.ring.key_required()
    await bunch.elsewhere.revoke(key.id)
    looks = bunch.keys.looks
    bunch.watch.now += KEY_CACHE_SECONDS
    assert await bunch.ring.key_required()
    assert bunch.keys.looks == looks


async def test_who_makes_a_key_here_needs_one_at_once(bunch: Bunch) -> None:
    assert not await bunch.ring.key_required()
    await KeyControl(bunch.keys, bunch.ring, bunch.clock).create(
        KeyRequest(name="x", scope=Scope.READ, every_space=True)
    )
    assert await bunch.ring.key_required()


async def test_so_many_keys_are_remembered_and_no_more(bunch: Bunch) -> None:
    key = await bunch.make()
    await bunch.ring.authenticate(key.secret)
    known = bunch.ring._cache
    known.update({number.to_bytes(32): next(iter(known.values())) for number in range(MAX_CACHED_KEYS)})
    bunch.watch.now += KEY_CACHE_SECONDS
    await bunch.ring.authenticate(key.secret)
    assert len(bunch.ring._cache) == 1
