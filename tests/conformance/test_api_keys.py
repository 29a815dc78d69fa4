"""API keys: creation, lookup and revocation."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import IdTaken, Invalid, NotFound
from holdfast.domain.ids import ApiKeyId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.space import ApiKey, NewApiKey, Scope, StoredApiKey, is_valid
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import seconds_from_now
from tests.conformance.tables import rows_of


def hashed(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def new_key(secret: str = "secret", **fields: Any) -> NewApiKey:
    return NewApiKey(**{"name": "laptop", "scope": Scope.RUN, "secret_hash": hashed(secret), **fields})


async def test_a_stored_key_is_returned_without_its_secret(store: Store, clock: HeldClock) -> None:
    new = new_key(
        name="Büro · 職場",
        scope=Scope.ADMIN,
        rate_limit="60/minute",
        expires_at=seconds_from_now(clock, 60),
        created_by="ann",
    )
    made = await store.api_keys.create([SPACE], new)
    assert made == ApiKey(
        id=made.id,
        name=new.name,
        scope=Scope.ADMIN,
        space_ids=[SPACE],
        every_space=False,
        pools=[],
        rate_limit="60/minute",
        created_by="ann",
        created_at=seconds_from_now(clock, 0),
        expires_at=seconds_from_now(clock, 60),
        revoked_at=None,
    )
    assert made.id.startswith("key_")


async def test_a_key_is_found_by_its_id_with_the_hash_of_its_secret(store: Store) -> None:
    made = await store.api_keys.create([SPACE], new_key("one"))
    await store.api_keys.create([SPACE], new_key("two"))
    assert await store.api_keys.find(made.id) == StoredApiKey(made, hashed("one"))
    with pytest.raises(NotFound, match="there is no key `key_missing`"):
        await store.api_keys.find(ApiKeyId("key_missing"))


async def test_a_key_forevery_space_is_bound_to_none_and_outlives_each(store: Store) -> None:
    made = await store.api_keys.create([], new_key(every_space=True))
    assert (made.every_space, made.space_ids) == (True, [])
    assert await store.api_keys.of_space(SPACE) == []
    await store.spaces.delete(OTHER)
    assert (await store.api_keys.find(made.id)).key == made


async def test_all_keys_come_oldest_first(store: Store) -> None:
    assert not await store.api_keys.any()
    assert await store.api_keys.all() == []
    one = await store.api_keys.create([SPACE], new_key("one"))
    two = await store.api_keys.create([], new_key("two", every_space=True))
    three = await store.api_keys.create([OTHER], new_key("three"))
    revoked = await store.api_keys.revoke(one.id)
    assert await store.api_keys.all() == [revoked, two, three]
    assert await store.api_keys.any()


async def test_a_key_is_bound_to_each_of_its_spaces_once(store: Store) -> None:
    made = await store.api_keys.create([OTHER, SPACE, OTHER], new_key())
    assert sorted(made.space_ids) == sorted([SPACE, OTHER])
    assert await store.api_keys.of_space(SPACE) == [made]
    assert await store.api_keys.of_space(OTHER) == [made]


async def test_a_secret_already_stored_is_refused(store: Store, where: str | Path) -> None:
    await store.api_keys.create([SPACE], new_key())
    before = await rows_of(where)
    with pytest.raises(IdTaken, match="this secret is in use"):
        await store.api_keys.create([OTHER], new_key(name="another", scope=Scope.READ))
    assert await rows_of(where) == before


async def test_of_many_concurrent_creates_with_one_secret_one_succeeds(stores: list[Store]) -> None:
    made = await asyncio.gather(
        *(stores[number % len(stores)].api_keys.create([SPACE], new_key()) for number in range(8)),
        return_exceptions=True,
    )
    (kept,) = [key for key in made if isinstance(key, ApiKey)]
    assert sum(isinstance(error, IdTaken) for error in made) == 7
    assert await stores[0].api_keys.all() == [kept]


async def test_an_invalid_key_is_refused(store: Store, where: str | Path) -> None:
    before = await rows_of(where)
    for spaces, new, error in [
        ([], new_key(), Invalid),
        ([SPACE], new_key(every_space=True), Invalid),
        ([SPACE], new_key(rate_limit="often"), Invalid),
        ([SPACE], new_key(secret_hash=b"short"), Invalid),
        ([SPACE], new_key(name="a\x00b"), Invalid),
        ([SPACE], new_key(expires_at=Instant("soon")), Invalid),
        ([SPACE, SpaceId("missing")], new_key(), NotFound),
    ]:
        with pytest.raises(error):
            await store.api_keys.create(spaces, new)
    assert await rows_of(where) == before


async def test_the_keys_of_a_space_come_oldest_first_the_revoked_ones_too(store: Store) -> None:
    one, two, three = [await store.api_keys.create([SPACE], new_key(name)) for name in ("one", "two", "three")]
    await store.api_keys.create([OTHER], new_key("theirs"))
    revoked = await store.api_keys.revoke(two.id)
    assert await store.api_keys.of_space(SPACE) == [one, revoked, three]
    with pytest.raises(NotFound, match="there is no space `missing`"):
        await store.api_keys.of_space(SpaceId("missing"))


async def test_a_revoked_key_is_still_found_and_marked_revoked(store: Store, clock: HeldClock) -> None:
    made = await store.api_keys.create([SPACE], new_key())
    assert is_valid(made, now=seconds_from_now(clock, 0))
    revoked = await store.api_keys.revoke(made.id)
    assert revoked.revoked_at == seconds_from_now(clock, 0)
    found = (await store.api_keys.find(made.id)).key
    assert found == revoked
    assert not is_valid(found, now=seconds_from_now(clock, 0))


async def test_revoking_a_key_again_changes_nothing(store: Store, clock: HeldClock) -> None:
    made = await store.api_keys.create([SPACE], new_key())
    revoked = await store.api_keys.revoke(made.id)
    clock.tick(MINUTE)
    assert await store.api_keys.revoke(made.id) == revoked


async def test_a_missing_key_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no key `key_missing`"):
        await store.api_keys.revoke(ApiKeyId("key_missing"))


async def test_a_key_is_revoked_with_the_last_of_its_spaces(store: Store, clock: HeldClock) -> None:
    theirs = await store.api_keys.create([OTHER], new_key("theirs"))
    earlier = await store.api_keys.revoke((await store.api_keys.create([OTHER], new_key("earlier"))).id)
    both = await store.api_keys.create([SPACE, OTHER], new_key("both"))
    clock.tick(MINUTE)
    await store.spaces.delete(OTHER)
    found = (await store.api_keys.find(theirs.id)).key
    assert (found.space_ids, found.revoked_at) == ([], seconds_from_now(clock, 0))
    assert (await store.api_keys.find(earlier.id)).key.revoked_at == earlier.revoked_at
    kept = (await store.api_keys.find(both.id)).key
    assert (kept.space_ids, kept.revoked_at) == ([SPACE], None)
    await store.spaces.create(OTHER, name="Another")
    assert await store.api_keys.of_space(OTHER) == []


async def test_deleting_the_only_space_with_keys_does_not_open_the_store(store: Store) -> None:
    await store.api_keys.create([OTHER], new_key())
    await store.spaces.delete(OTHER)
    assert await store.api_keys.any()
