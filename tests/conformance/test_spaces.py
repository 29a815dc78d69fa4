"""Spaces: the tenants."""

import asyncio
from itertools import repeat

import pytest

from holdfast.domain.errors import IdTaken, Invalid, NotFound, RunActive, TooLarge
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.space import Space, SpacePatch
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, finished_run, new_thread, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import active_run, claim_run, create_run, expect_refusal, read_everything

MISSING = SpaceId("missing")


async def test_a_space_is_made_under_a_chosen_id(store: Store) -> None:
    made = await store.spaces.create(SpaceId("New_space-1"), name="Neu · 新", metadata={"plan": ["a", 1, None]})
    assert (made.id, made.name, made.metadata) == ("New_space-1", "Neu · 新", {"plan": ["a", 1, None]})
    assert await store.spaces.get(made.id) == made


async def test_a_space_id_already_used_is_refused(store: Store) -> None:
    async with expect_refusal(store, IdTaken):
        await store.spaces.create(SPACE, name="Another")


async def test_of_many_concurrent_creates_of_one_space_one_succeeds(store: Store) -> None:
    made = await asyncio.gather(
        *(store.spaces.create(SpaceId("raced"), name=str(number)) for number in range(20)), return_exceptions=True
    )
    (winner,) = [space for space in made if isinstance(space, Space)]
    assert sum(isinstance(error, IdTaken) for error in made) == 19
    assert await store.spaces.get(SpaceId("raced")) == winner


async def test_a_missing_space_is_not_found(store: Store) -> None:
    for call in (
        store.spaces.get(MISSING),
        store.spaces.update(MISSING, SpacePatch(name="x")),
        store.spaces.delete(MISSING),
    ):
        async with expect_refusal(store, NotFound):
            await call


async def test_spaces_are_listed_oldest_first(store: Store) -> None:
    await store.spaces.create(SpaceId("a-later-one"), name="Later")
    assert [space.id for space in (await store.spaces.page()).items] == [SPACE, OTHER, "a-later-one"]


async def test_pages_of_spaces_show_each_once_while_others_are_added(store: Store) -> None:
    seen, cursor = list[str](), None
    for number in range(4):
        page = await store.spaces.page(limit=1, cursor=cursor)
        seen += [space.id for space in page.items]
        cursor = page.next_cursor
        if number < 2:
            await store.spaces.create(SpaceId(f"new-{number}"), name="New")
    assert seen == [SPACE, OTHER, "new-0", "new-1"]
    assert cursor is None


async def test_an_update_changes_only_the_fields_it_sets(store: Store) -> None:
    made = await store.spaces.create(SpaceId("third"), name="Third", metadata={"a": 1})
    renamed = await store.spaces.update(made.id, SpacePatch(name="Renamed"))
    assert renamed == Space(id=made.id, name="Renamed", metadata={"a": 1}, created_at=made.created_at)
    changed = await store.spaces.update(made.id, SpacePatch(metadata={}))
    assert changed == Space(id=made.id, name="Renamed", metadata={}, created_at=made.created_at)
    assert await store.spaces.get(made.id) == changed
    assert (await store.spaces.get(SPACE)).name == "Acme"


async def test_concurrent_updates_of_a_space_do_not_undo_each_other(store: Store) -> None:
    for number in range(10):
        await asyncio.gather(
            store.spaces.update(SPACE, SpacePatch(name=f"name {number}")),
            store.spaces.update(SPACE, SpacePatch(metadata={"number": number})),
        )
        space = await store.spaces.get(SPACE)
        assert (space.name, space.metadata) == (f"name {number}", {"number": number})


async def test_deleting_a_space_removes_everything_in_it_and_nothing_else(store: Store) -> None:
    before = await read_everything(store)
    doomed = (await store.spaces.create(SpaceId("doomed"), name="Doomed")).id
    thread = await new_thread(store, doomed)
    done = await finished_run(store, doomed, thread, "hello")
    await store.spaces.delete(doomed)
    assert await read_everything(store) == before
    for call in (store.spaces.get(doomed), store.threads.get(doomed, thread), store.runs.get(doomed, done.id)):
        with pytest.raises(NotFound):
            await call


async def test_a_space_made_again_under_the_id_of_a_deleted_one_is_empty(store: Store) -> None:
    again = SpaceId("again")
    for _ in range(2):
        await store.spaces.create(again, name="Again")
        assert (await store.runs.page(again)).items == []
        thread = (await store.threads.create(again, NewThread(title="same"))).id
        new = NewRun(thread=thread, id=RunId("same"), messages=[user("hello", id="same")], idempotency_key="same")
        assert not (await store.runs.create(again, new)).replayed
        await store.runs.end(again, RunId("same"))
        await store.spaces.delete(again)


@pytest.mark.parametrize("state", [RunStatus.PENDING, RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING])
async def test_a_space_with_an_active_run_is_not_deleted(store: Store, state: RunStatus) -> None:
    await active_run(store, state)
    async with expect_refusal(store, RunActive):
        await store.spaces.delete(SPACE)


async def test_a_space_whose_ended_run_still_has_a_worker_is_not_deleted(store: Store) -> None:
    lease = await claim_run(store, await create_run(store, await new_thread(store, SPACE), "hello"))
    await store.runs.end(SPACE, lease.run_id)
    async with expect_refusal(store, RunActive) as info:
        await store.spaces.delete(SPACE)
    assert str(info.value).endswith("is cancelled: its worker is still stopping: try again in a moment")
    await store.leases.release(lease)
    await store.spaces.delete(SPACE)


async def test_a_run_created_while_its_space_is_deleted_keeps_the_space_or_is_refused(store: Store) -> None:
    for number in range(10):
        space = (await store.spaces.create(SpaceId(f"raced-{number}"), name="Raced")).id
        thread = await new_thread(store, space)
        dropped, *made = await asyncio.gather(
            store.spaces.delete(space),
            *(store.runs.create(space, NewRun(thread=where)) for where in (thread, NewThread(), NewThread())),
            return_exceptions=True,
        )
        if dropped is None:
            assert all(isinstance(error, NotFound) for error in made), made
        else:
            assert isinstance(dropped, RunActive)
    await store.leases.claim(FIRST, lease=MINUTE, limit=100)


async def test_a_page_of_spaces_has_1_to_200(store: Store) -> None:
    await store.spaces.page(limit=200)
    for limit in (0, -1, 201, 2**70):
        async with expect_refusal(store, Invalid):
            await store.spaces.page(limit=limit)


async def test_an_invalid_cursor_is_refused_by_spaces(store: Store) -> None:
    for cursor in ("", "x", "1.2", "-1", "1" * 19, "\x00", "\ud800", "٣", "1 ", SPACE):
        async with expect_refusal(store, Invalid):
            await store.spaces.page(cursor=cursor)


async def test_an_invalid_space_is_refused(store: Store) -> None:
    for id in ("", "a b", "a/b", "ä", "a\n", "\x00", "\ud800", "x" * 129):
        async with expect_refusal(store, Invalid):
            await store.spaces.create(SpaceId(id), name="x")
    for name, error in [("\x00", Invalid), ("\ud800", Invalid), ("x" * 201, TooLarge)]:
        async with expect_refusal(store, error):
            await store.spaces.create(MISSING, name=name)
        async with expect_refusal(store, error):
            await store.spaces.update(SPACE, SpacePatch(name=name))
    async with expect_refusal(store, Invalid):
        await store.spaces.update(SPACE, SpacePatch())


async def test_space_metadata_that_is_not_json_is_refused(store: Store) -> None:
    deep: list[object] = []
    for _ in repeat(None, 5000):
        deep = [deep]
    for value in (object(), "\ud800", {"\ud800": 1}, deep):
        async with expect_refusal(store, Invalid):
            await store.spaces.create(MISSING, name="x", metadata={"value": value})
        async with expect_refusal(store, Invalid):
            await store.spaces.update(SPACE, SpacePatch(metadata={"value": value}))
