"""Authenticating API keys: they are cached for a moment, and refused once revoked or expired."""

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


class FakeMonotonic:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the current time in seconds."""
        return self.now


class CountingApiKeys(SqlApiKeys):
    """API keys that count lookups."""

    lookups = 0

    async def find(self, key: ApiKeyId) -> StoredApiKey:
        """Count the lookup of a key."""
        self.lookups += 1
        return await super().find(key)

    async def any(self) -> bool:
        """Count the check whether a key exists."""
        self.lookups += 1
        return await super().any()


class KeyFixture:
    """An authenticator with a controlled clock, and a second process that creates and revokes keys."""

    def __init__(self, store: Store) -> None:
        self.keys = CountingApiKeys(store.api_keys._database)
        self.clock, self.monotonic = HeldClock(), FakeMonotonic()
        self.authenticator = CachedKeyAuthenticator(self.keys, self.clock, monotonic=self.monotonic)
        self.other_process = KeyControl(store.api_keys, CachedKeyAuthenticator(store.api_keys, self.clock), self.clock)

    async def create(self, minutes: int | None = None) -> MadeKey:
        """Create a key in the other process."""
        expires_at = None if minutes is None else instant(Millis(self.clock.now() + minutes * 60_000))
        return await self.other_process.create(
            KeyRequest(name="x", scope=Scope.RUN, space_ids=[ACME], expires_at=expires_at)
        )


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[KeyFixture]:
    async with open_store(tmp_path / "holdfast.db") as store:
        await store.spaces.create(ACME, name="Acme")
        yield KeyFixture(store)


async def test_a_key_is_cached(fixture: KeyFixture) -> None:
    key = await fixture.create()
    found = [await fixture.authenticator.authenticate(key.secret) for _ in range(100)]
    assert found == [Principal(name=key.id, scope=Scope.RUN, space_ids=(ACME,))] * 100
    assert fixture.keys.lookups == 1
    fixture.monotonic.now += KEY_CACHE_SECONDS
    await fixture.authenticator.authenticate(key.secret)
    assert fixture.keys.lookups == 2


async def test_a_key_revoked_elsewhere_is_refused_when_its_cache_entry_expires(fixture: KeyFixture) -> None:
    key = await fixture.create()
    await fixture.authenticator.authenticate(key.secret)
    await fixture.other_process.revoke(key.id)
    fixture.monotonic.now += KEY_CACHE_SECONDS
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await fixture.authenticator.authenticate(key.secret)


async def test_a_key_revoked_here_is_refused_at_once(fixture: KeyFixture) -> None:
    key = await fixture.create()
    await fixture.authenticator.authenticate(key.secret)
    await fixture.other_process.revoke(key.id)
    fixture.authenticator.note_revoked(key.id)
    with pytest.raises(Unauthenticated):
        await fixture.authenticator.authenticate(key.secret)


async def test_a_key_is_refused_as_soon_as_it_expires(fixture: KeyFixture) -> None:
    key = await fixture.create(minutes=1)
    await fixture.authenticator.authenticate(key.secret)
    fixture.clock.tick(MINUTE)
    with pytest.raises(Unauthenticated):
        await fixture.authenticator.authenticate(key.secret)


async def test_all_invalid_keys_get_the_same_message(fixture: KeyFixture) -> None:
    key, revoked = await fixture.create(), await fixture.create()
    await fixture.other_process.revoke(revoked.id)
    messages = set()
    for token in (
        "",
        "x",
        "hf_",
        key.secret[:-1],
        key.secret + "x",
        "hf_" + "0" * 32 + key.secret[35:],
        revoked.secret,
        "é",
    ):
        with pytest.raises(Unauthenticated) as caught:
            await fixture.authenticator.authenticate(token)
        messages.add(caught.value.message)
    assert len(messages) == 1


async def test_a_key_is_required_once_one_exists_and_from_then_on(fixture: KeyFixture) -> None:
    assert not await fixture.authenticator.key_required()
    key = await fixture.create()
    assert not await fixture.authenticator.key_required()  # the check is cached
    fixture.monotonic.now += KEY_CACHE_SECONDS
    assert await fixture.authenticator.key_required()
    await fixture.other_process.revoke(key.id)
    lookups = fixture.keys.lookups
    fixture.monotonic.now += KEY_CACHE_SECONDS
    assert await fixture.authenticator.key_required()
    assert fixture.keys.lookups == lookups


async def test_a_key_is_required_at_once_in_the_process_that_creates_it(fixture: KeyFixture) -> None:
    assert not await fixture.authenticator.key_required()
    await KeyControl(fixture.keys, fixture.authenticator, fixture.clock).create(
        KeyRequest(name="x", scope=Scope.READ, every_space=True)
    )
    assert await fixture.authenticator.key_required()


async def test_the_cache_of_keys_is_bounded(fixture: KeyFixture) -> None:
    key = await fixture.create()
    await fixture.authenticator.authenticate(key.secret)
    cache = fixture.authenticator._cache
    cache.update({number.to_bytes(32): next(iter(cache.values())) for number in range(MAX_CACHED_KEYS)})
    fixture.monotonic.now += KEY_CACHE_SECONDS
    await fixture.authenticator.authenticate(key.secret)
    assert len(fixture.authenticator._cache) == 1
