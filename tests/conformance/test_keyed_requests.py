"""Requests with an idempotency key: each is done once, together with the record of its result."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from holdfast.domain.errors import IdempotencyMismatch, IdTaken, Invalid, NotFound
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.thread import NewThread, Thread, ThreadPatch
from holdfast.ports.requests import RequestPorts
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.conformance.conftest import OTHER, SPACE, opened
from tests.conformance.conversations import expect_refusal

REQUEST = KeyedRequest(operation="create_thread", key="key", digest="body")


async def create(
    store: Store, request: KeyedRequest | None = REQUEST, *, space: SpaceId = SPACE, title: str = "once"
) -> KeyedResult[Thread]:
    return await store.requests.once(
        space, request, kind=Thread, create=lambda ports: ports.threads.create(space, NewThread(title=title))
    )


async def titles(store: Store, space: SpaceId = SPACE) -> list[str | None]:
    return [thread.title for thread in (await store.threads.page(space)).items]


async def test_the_same_key_returns_the_same_result_and_creates_nothing(store: Store) -> None:
    first, again = await create(store), await create(store, title="again")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.value == first.value
    assert await titles(store) == ["once"]


async def test_the_result_is_the_first_one_after_its_subject_changed(store: Store) -> None:
    first = (await create(store)).value
    await store.threads.update(SPACE, first.id, ThreadPatch(title="renamed"))
    assert (await create(store)).value == first


async def test_a_result_outlives_the_store_that_wrote_it(where: str | Path, clock: HeldClock) -> None:
    async with opened(where, clock) as store:
        await store.spaces.create(SPACE, name="Acme")
        first = await create(store)
    async with opened(where, clock) as store:
        again = await create(store)
        assert (again.value, again.replayed) == (first.value, True)
        assert await titles(store) == ["once"]


async def test_another_digest_under_the_same_key_is_refused(store: Store) -> None:
    await create(store)
    other = msgspec.structs.replace(REQUEST, digest="other")
    async with expect_refusal(store, IdempotencyMismatch):
        await create(store, other)
    async with expect_refusal(store, IdempotencyMismatch):
        await store.requests.find(SPACE, other, kind=Thread)


async def test_a_key_belongs_to_its_operation_and_its_space(store: Store) -> None:
    await create(store)
    assert not (await create(store, msgspec.structs.replace(REQUEST, operation="other"))).replayed
    assert not (await create(store, space=OTHER)).replayed
    assert (len(await titles(store)), len(await titles(store, OTHER))) == (2, 1)


async def test_a_result_is_found_without_creating_one(store: Store) -> None:
    assert await store.requests.find(SPACE, REQUEST, kind=Thread) is None
    made = (await create(store)).value
    assert await store.requests.find(SPACE, REQUEST, kind=Thread) == made
    assert await store.requests.find(OTHER, REQUEST, kind=Thread) is None
    assert await store.requests.find(SPACE, None, kind=Thread) is None


async def test_without_a_key_every_request_is_done(store: Store) -> None:
    made = [await create(store, None) for _ in range(2)]
    assert [each.replayed for each in made] == [False, False]
    assert len(await titles(store)) == 2


async def test_a_request_that_fails_changes_nothing_and_leaves_its_key_free(store: Store) -> None:
    await store.threads.create(SPACE, NewThread(id=ThreadId("used"), title="used"))

    async def create_two(ports: RequestPorts) -> Thread:
        await ports.threads.create(SPACE, NewThread(title="lost"))
        return await ports.threads.create(SPACE, NewThread(id=ThreadId("used")))

    async with expect_refusal(store, IdTaken):
        await store.requests.once(SPACE, REQUEST, kind=Thread, create=create_two)
    assert await titles(store) == ["used"]
    assert not (await create(store)).replayed


async def test_of_many_concurrent_requests_one_is_done_and_all_return_its_result(stores: list[Store]) -> None:
    made = await asyncio.gather(*(create(stores[number % len(stores)]) for number in range(20)))
    assert sum(not each.replayed for each in made) == 1
    assert len({each.value.id for each in made}) == 1
    assert await titles(stores[0]) == ["once"]


async def test_a_key_that_is_not_valid_is_refused(store: Store) -> None:
    for key in ("", "x" * 256, "\u00e9", "a\nb"):
        bad = msgspec.structs.replace(REQUEST, key=key)
        async with expect_refusal(store, Invalid):
            await create(store, bad)
        with pytest.raises(Invalid):
            await store.requests.find(SPACE, bad, kind=Thread)


async def test_keys_are_deleted_with_their_space(store: Store) -> None:
    await create(store)
    await store.spaces.delete(SPACE)
    with pytest.raises(NotFound):
        await create(store)
    await store.spaces.create(SPACE, name="again")
    assert not (await create(store)).replayed
