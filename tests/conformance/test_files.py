"""Files: the storage of a space, each content stored once."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.artifact import ArtifactType, File, NewArtifact, NewFile
from holdfast.domain.errors import IdTaken, InUse, Invalid, NotFound, TooLarge
from holdfast.domain.ids import FileId, SpaceId
from holdfast.domain.instant import instant
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import claim, finish, new_run, new_thread
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.tables import rows_of

MISSING = FileId("fil_missing")
BYTES = bytes(range(256)) * 3


def named(name: str = "a.bin", content: bytes = BYTES, **fields: Any) -> NewFile:
    return NewFile(name=name, content=content, **fields)


async def blobs(where: str | Path) -> list[tuple[int, bytes]]:
    """Return size and bytes of each stored blob."""
    return [(row["size"], bytes(row["content"])) for row in (await rows_of(where))["blobs"]]


async def test_a_file_is_read_back_unchanged(store: Store, clock: HeldClock) -> None:
    new = named("Grüße · 挨拶.txt", media_type="text/plain; charset=utf-8", created_by="ann")
    made = await store.files.create(SPACE, new)
    assert made == File(
        id=made.id,
        space_id=SPACE,
        name=new.name,
        media_type=new.media_type,
        digest=sha256(BYTES).hexdigest(),
        size=768,
        created_by="ann",
        created_at=instant(clock.now()),
    )
    assert made.id.startswith("fil_")
    assert await store.files.get(SPACE, made.id) == made
    assert await store.files.content(SPACE, made.id) == BYTES


async def test_content_is_read_back_byte_for_byte(store: Store) -> None:
    for content in (b"", b"\x00", b"\xff\xfe", b"plain", bytes(3_000_000)):
        made = await store.files.create(SPACE, named(content=content))
        assert made.size == len(content)
        assert await store.files.content(SPACE, made.id) == content


async def test_a_chosen_file_id_can_be_used_once(store: Store, where: str | Path) -> None:
    made = await store.files.create(SPACE, named(id=FileId("logo")))
    assert made.id == "logo"
    before = await rows_of(where)
    with pytest.raises(IdTaken, match="there is a file `logo` already"):
        await store.files.create(SPACE, named(content=b"other", id=FileId("logo")))
    assert await rows_of(where) == before
    assert await store.files.content(SPACE, FileId("logo")) == BYTES


async def test_of_many_concurrent_creates_with_one_file_id_one_succeeds(stores: list[Store], where: str | Path) -> None:
    made = await asyncio.gather(
        *(
            stores[number % len(stores)].files.create(SPACE, named(content=bytes([number]), id=FileId("logo")))
            for number in range(10)
        ),
        return_exceptions=True,
    )
    (kept,) = [file for file in made if isinstance(file, File)]
    assert sum(isinstance(error, IdTaken) for error in made) == 9
    assert await blobs(where) == [(1, await stores[0].files.content(SPACE, kept.id))]


async def test_an_invalid_file_is_refused(store: Store, where: str | Path) -> None:
    before = await rows_of(where)
    for new, error in [
        (named("a\x00b"), Invalid),
        (named("x" * 501), TooLarge),
        (named(media_type="\ud800"), Invalid),
        (named(id=FileId("no spaces")), Invalid),
    ]:
        with pytest.raises(error):
            await store.files.create(SPACE, new)
    with pytest.raises(NotFound, match="there is no space"):
        await store.files.create(SpaceId("missing"), named())
    assert await rows_of(where) == before


async def test_a_missing_file_is_not_found(store: Store) -> None:
    for call in (store.files.get, store.files.content, store.files.delete):
        with pytest.raises(NotFound, match="there is no file `fil_missing`"):
            await call(SPACE, MISSING)


async def test_the_same_bytes_are_stored_once_per_space(store: Store, where: str | Path) -> None:
    made = [await store.files.create(SPACE, named(f"{number}.bin")) for number in range(3)]
    assert len({file.id for file in made}) == 3
    assert await blobs(where) == [(768, BYTES)]
    assert [await store.files.content(SPACE, file.id) for file in made] == [BYTES] * 3


async def test_the_same_bytes_are_not_shared_between_spaces(store: Store, where: str | Path) -> None:
    ours = await store.files.create(SPACE, named())
    theirs = await store.files.create(OTHER, named())
    assert await blobs(where) == [(768, BYTES)] * 2
    await store.files.delete(OTHER, theirs.id)
    assert await blobs(where) == [(768, BYTES)]
    assert await store.files.content(SPACE, ours.id) == BYTES


async def test_the_same_bytes_stored_concurrently_are_stored_once(stores: list[Store], where: str | Path) -> None:
    made = await asyncio.gather(*(stores[n % len(stores)].files.create(SPACE, named(f"{n}")) for n in range(16)))
    assert len({file.id for file in made}) == 16
    assert await blobs(where) == [(768, BYTES)]


async def test_the_bytes_of_a_deleted_file_are_deleted_unless_shared(store: Store, where: str | Path) -> None:
    one, other = [await store.files.create(SPACE, named(name)) for name in ("a", "b")]
    await store.files.delete(SPACE, one.id)
    with pytest.raises(NotFound):
        await store.files.get(SPACE, one.id)
    assert await store.files.content(SPACE, other.id) == BYTES
    await store.files.delete(SPACE, other.id)
    assert await blobs(where) == []
    again = await store.files.create(SPACE, named())
    assert await store.files.content(SPACE, again.id) == BYTES


async def test_a_file_used_by_an_artifact_cannot_be_deleted(store: Store, where: str | Path) -> None:
    file = await store.files.create(SPACE, named())
    run = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    new = NewArtifact(type=ArtifactType.OTHER, title="Logo", file_id=file.id)
    artifact = await store.artifacts.create(SPACE, run.id, new)
    before = await rows_of(where)
    with pytest.raises(InUse, match=f"artifact `{artifact.id}` refers to this file") as caught:
        await store.files.delete(SPACE, file.id)
    assert caught.value.details == {"artifact_id": artifact.id}
    assert await rows_of(where) == before
    await finish(store, await claim(store))
    await store.runs.delete(SPACE, run.id)
    await store.files.delete(SPACE, file.id)
    assert await blobs(where) == []


async def test_bytes_stored_while_their_last_file_is_deleted_are_never_lost(
    stores: list[Store], where: str | Path
) -> None:
    async def keep_and_delete(store: Store) -> None:
        for _ in range(25):
            made = await store.files.create(SPACE, named())
            assert await store.files.content(SPACE, made.id) == BYTES
            await store.files.delete(SPACE, made.id)

    await asyncio.gather(*(keep_and_delete(stores[number % len(stores)]) for number in range(4)))
    assert await blobs(where) == []


async def test_of_many_concurrent_deletes_of_one_file_one_succeeds(stores: list[Store]) -> None:
    made = await stores[0].files.create(SPACE, named())
    outcomes = await asyncio.gather(
        *(stores[number % len(stores)].files.delete(SPACE, made.id) for number in range(8)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert sum(isinstance(error, NotFound) for error in outcomes) == 7


async def test_files_are_listed_newest_first(store: Store) -> None:
    made = [await store.files.create(SPACE, named(str(number), bytes([number]))) for number in range(3)]
    page = await store.files.page(SPACE)
    assert page.items == made[::-1]
    assert page.next_cursor is None


async def test_pages_show_each_once_while_others_come_and_go(store: Store) -> None:
    made = [(await store.files.create(SPACE, named(str(number)))).id for number in range(6)]
    seen, cursor = list[str](), None
    while True:
        page = await store.files.page(SPACE, limit=2, cursor=cursor)
        seen += [file.id for file in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        await store.files.create(SPACE, named("later"))
        await store.files.delete(SPACE, FileId(seen[-1]))
    assert seen == made[::-1]


async def test_an_invalid_page_is_refused(store: Store) -> None:
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": 201}, {"cursor": "-1"}, {"cursor": "1.2"}, {"cursor": "٣"}]
    for options in wrong:
        with pytest.raises(Invalid):
            await store.files.page(SPACE, **options)
