"""Artifacts: the results of runs, in versions."""

import asyncio
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.domain.artifact import Artifact, ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.errors import InUse, Invalid, LeaseLost, NotFound, ThreadClosed, TooLarge
from holdfast.domain.ids import ArtifactId, FileId, RunId
from holdfast.domain.instant import instant
from holdfast.domain.run import Run
from holdfast.domain.thread import ThreadPatch, ThreadStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, assistant, claim, finish, new_run, new_thread
from tests.conformance.conftest import SPACE
from tests.conformance.tables import rows_of

MISSING = ArtifactId("art_missing")


def doc(content: str | None = "words", **fields: Any) -> NewArtifact:
    return NewArtifact(**{"type": ArtifactType.DOC, "title": "Notes", "content": content, **fields})


@pytest.fixture
async def run(store: Store) -> Run:
    return await new_run(store, SPACE, await new_thread(store, SPACE), "hi")


async def test_an_artifact_is_read_back_unchanged(store: Store, run: Run, clock: HeldClock) -> None:
    new = NewArtifact(
        type=ArtifactType.CODE,
        title="Grüße · 挨拶",
        content="print('👋')\n",
        media_type="text/x-python",
        metadata={"lines": [1, None, {"deep": "x"}]},
        created_by="ann",
    )
    made = await store.artifacts.create(SPACE, run.id, new)
    assert made == Artifact(
        id=made.id,
        run_id=run.id,
        space_id=SPACE,
        type=ArtifactType.CODE,
        title=new.title,
        version=1,
        content=new.content,
        file_id=None,
        media_type="text/x-python",
        digest=made.digest,
        size=made.size,
        metadata=new.metadata,
        created_by="ann",
        created_at=instant(clock.now()),
    )
    assert made.id.startswith("art_")
    assert await store.artifacts.get(SPACE, made.id) == made


async def test_artifacts_of_a_deleted_thread_are_not_listed_and_accept_no_version(store: Store, run: Run) -> None:
    other = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    gone = await store.artifacts.create(SPACE, run.id, doc())
    kept = await store.artifacts.create(SPACE, other.id, doc())
    await store.runs.end(SPACE, run.id)
    await store.threads.update(SPACE, run.thread_id, ThreadPatch(status=ThreadStatus.DELETED))
    await store.threads.update(SPACE, other.thread_id, ThreadPatch(status=ThreadStatus.ARCHIVED))
    assert [each.id for each in (await store.artifacts.page(SPACE)).items] == [kept.id]
    assert [each.id for each in (await store.artifacts.page(SPACE, run=run.id)).items] == [gone.id]
    assert await store.artifacts.get(SPACE, gone.id) == gone
    for new in (doc(), doc(id=gone.id)):
        with pytest.raises(ThreadClosed):
            await store.artifacts.create(SPACE, run.id, new)
    assert (await store.artifacts.create(SPACE, other.id, doc(id=kept.id))).version == 2


async def test_digest_and_size_are_those_of_the_content_in_bytes(store: Store, run: Run) -> None:
    for content in ("", "plain", "挨拶 👋"):
        made = await store.artifacts.create(SPACE, run.id, doc(content))
        assert made.size == len(content.encode())
        assert made.digest == sha256(content.encode()).hexdigest()
        assert made.content == content


async def test_an_artifact_of_a_file_has_the_digest_and_size_of_the_file(store: Store, run: Run) -> None:
    file = await store.files.create(SPACE, NewFile(name="a.bin", content=b"\x00\xff" * 9))
    made = await store.artifacts.create(SPACE, run.id, doc(None, file_id=file.id, media_type="image/png"))
    assert (made.file_id, made.content, made.media_type) == (file.id, None, "image/png")
    assert (made.digest, made.size) == (file.digest, 18)
    assert await store.artifacts.get(SPACE, made.id) == made


async def test_an_artifact_of_a_file_that_does_not_exist_is_refused(store: Store, run: Run, where: str | Path) -> None:
    before = await rows_of(where)
    with pytest.raises(NotFound, match="there is no file `fil_missing`"):
        await store.artifacts.create(SPACE, run.id, doc(None, file_id=FileId("fil_missing")))
    assert await rows_of(where) == before


async def test_an_artifact_of_a_run_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no run `run_missing`"):
        await store.artifacts.create(SPACE, RunId("run_missing"), doc())


async def test_an_invalid_artifact_is_refused(store: Store, run: Run, where: str | Path) -> None:
    before = await rows_of(where)
    for new, error in [
        (doc(None), Invalid),
        (doc(file_id=FileId("fil_1")), Invalid),
        (doc(id=ArtifactId("no spaces")), Invalid),
        (doc("a\x00b"), Invalid),
        (doc(title="x" * 501), TooLarge),
        (doc(metadata={"a": "\ud800"}), Invalid),
    ]:
        with pytest.raises(error):
            await store.artifacts.create(SPACE, run.id, new)
    assert await rows_of(where) == before


async def test_an_artifact_with_an_existing_id_becomes_the_next_version(store: Store, run: Run) -> None:
    first = await store.artifacts.create(SPACE, run.id, doc("one"))
    second = await store.artifacts.create(SPACE, run.id, doc("two", id=first.id, title="Better notes"))
    assert (second.id, second.version, second.title, second.content) == (first.id, 2, "Better notes", "two")
    assert await store.artifacts.get(SPACE, first.id, version=1) == first


async def test_a_new_chosen_id_starts_with_version_one(store: Store, run: Run) -> None:
    made = await store.artifacts.create(SPACE, run.id, doc(id=ArtifactId("report")))
    assert (made.id, made.version) == ("report", 1)


async def test_a_later_run_can_create_the_next_version(store: Store) -> None:
    first = await new_run(store, SPACE, await new_thread(store, SPACE), "hi")
    later = await new_run(store, SPACE, await new_thread(store, SPACE), "again")
    made = await store.artifacts.create(SPACE, first.id, doc())
    await store.artifacts.create(SPACE, later.id, doc(id=made.id))
    assert [(one.version, one.run_id) for one in await store.artifacts.versions(SPACE, made.id)] == [
        (1, first.id),
        (2, later.id),
    ]


async def test_the_latest_version_is_returned_by_default(store: Store, run: Run) -> None:
    for content in ("one", "two", "three"):
        await store.artifacts.create(SPACE, run.id, doc(content, id=ArtifactId("a")))
    assert (await store.artifacts.get(SPACE, ArtifactId("a"))).content == "three"
    contents = [(await store.artifacts.get(SPACE, ArtifactId("a"), version=n)).content for n in (1, 2, 3)]
    assert contents == ["one", "two", "three"]


async def test_a_missing_artifact_or_version_is_not_found(store: Store, run: Run) -> None:
    made = await store.artifacts.create(SPACE, run.id, doc())
    with pytest.raises(NotFound, match="there is no artifact `art_missing`"):
        await store.artifacts.get(SPACE, MISSING)
    with pytest.raises(NotFound, match="there is no artifact `art_missing`"):
        await store.artifacts.versions(SPACE, MISSING)
    for version in (0, 2, -1):
        with pytest.raises(NotFound, match=f"`{made.id}` in version {version}"):
            await store.artifacts.get(SPACE, made.id, version=version)


async def test_a_version_number_that_is_too_large_is_refused(store: Store, run: Run) -> None:
    made = await store.artifacts.create(SPACE, run.id, doc())
    with pytest.raises(Invalid):
        await store.artifacts.get(SPACE, made.id, version=2**70)


async def test_versions_come_without_content_oldest_first(store: Store, run: Run) -> None:
    made = [await store.artifacts.create(SPACE, run.id, doc(text, id=ArtifactId("a"))) for text in ("one", "two")]
    listed = await store.artifacts.versions(SPACE, ArtifactId("a"))
    assert [one.content for one in listed] == [None, None]
    assert [(one.version, one.digest, one.size) for one in listed] == [(1, made[0].digest, 3), (2, made[1].digest, 3)]


async def test_a_list_shows_every_version_without_content_newest_first(store: Store, run: Run) -> None:
    for name, text in [("a", "one"), ("b", "two"), ("a", "three")]:
        await store.artifacts.create(SPACE, run.id, doc(text, id=ArtifactId(name)))
    listed = (await store.artifacts.page(SPACE)).items
    assert [(one.id, one.version, one.content) for one in listed] == [("a", 2, None), ("b", 1, None), ("a", 1, None)]


async def test_pages_show_each_once_while_others_are_added(store: Store, run: Run) -> None:
    made = [(await store.artifacts.create(SPACE, run.id, doc())).id for _ in range(5)]
    seen, cursor = list[str](), None
    while True:
        page = await store.artifacts.page(SPACE, limit=2, cursor=cursor)
        seen += [one.id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        await store.artifacts.create(SPACE, run.id, doc("later"))
    assert seen == made[::-1]


async def test_a_list_can_be_filtered_by_run(store: Store, run: Run) -> None:
    other = await new_run(store, SPACE, await new_thread(store, SPACE), "again")
    made = await store.artifacts.create(SPACE, run.id, doc())
    await store.artifacts.create(SPACE, other.id, doc())
    assert [one.id for one in (await store.artifacts.page(SPACE, run=run.id)).items] == [made.id]
    with pytest.raises(NotFound):
        await store.artifacts.page(SPACE, run=RunId("run_missing"))


async def test_an_invalid_page_is_refused(store: Store) -> None:
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": 201}, {"cursor": "x"}, {"cursor": "1.2"}]
    for options in wrong:
        with pytest.raises(Invalid):
            await store.artifacts.page(SPACE, **options)


async def test_an_artifact_of_a_commit_is_stored_with_it_or_not_at_all(store: Store, run: Run) -> None:
    lease = await claim(store)
    await store.journal.commit(
        Commit(lease=lease, messages=[assistant("here")], artifacts=[doc("one", id=ArtifactId("a")), doc("two")])
    )
    assert sorted((one.size, one.run_id) for one in (await store.artifacts.page(SPACE)).items) == [(3, run.id)] * 2
    with pytest.raises(NotFound, match="there is no file"):
        await store.journal.commit(
            Commit(lease=lease, messages=[assistant("lost")], artifacts=[doc(), doc(None, file_id=FileId("fil_no"))])
        )
    assert len((await store.artifacts.page(SPACE)).items) == 2
    assert [message.content for message in await store.messages.of_run(SPACE, run.id)] == ["hi", "here"]


async def test_a_new_file_of_an_artifact_is_stored_with_the_commit_or_not_at_all(
    store: Store, run: Run, where: str | Path
) -> None:
    lease = await claim(store)
    file = NewFile(id=FileId("fil_1"), name="a.csv", media_type="text/csv", content=b"1,2")
    await store.journal.commit(Commit(lease=lease, artifacts=[doc(None, file=file, id=ArtifactId("a"))]))
    artifact = await store.artifacts.get(SPACE, ArtifactId("a"))
    assert (artifact.file_id, artifact.media_type, artifact.size, artifact.content) == ("fil_1", "text/csv", 3, None)
    assert await store.files.content(SPACE, FileId("fil_1")) == b"1,2"
    before = await rows_of(where)
    lost = replace(file, id=FileId("fil_2"))
    with pytest.raises(NotFound, match="there is no file"):
        await store.journal.commit(
            Commit(lease=lease, artifacts=[doc(None, file=lost), doc(None, file_id=FileId("fil_no"))])
        )
    assert await rows_of(where) == before
    for wrong in (doc("text", file=lost), doc(None, file=lost, file_id=FileId("fil_1"))):
        with pytest.raises(Invalid, match="exactly one"):
            await store.artifacts.create(SPACE, run.id, wrong)


async def test_a_lost_lease_leaves_no_artifact(store: Store, run: Run, clock: HeldClock) -> None:
    lease = await claim(store)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    with pytest.raises(LeaseLost):
        await store.journal.commit(Commit(lease=lease, artifacts=[doc()]))
    assert (await store.artifacts.page(SPACE)).items == []


async def test_concurrent_versions_all_get_their_own_number(stores: list[Store], run: Run) -> None:
    made = await asyncio.gather(
        *(
            stores[number % len(stores)].artifacts.create(SPACE, run.id, doc(str(number), id=ArtifactId("a")))
            for number in range(12)
        )
    )
    assert sorted(one.version for one in made) == list(range(1, 13))
    assert {one.content for one in made} == {str(number) for number in range(12)}


async def test_concurrent_commits_of_versions_all_succeed(stores: list[Store]) -> None:
    for number in range(4):
        await new_run(stores[0], SPACE, await new_thread(stores[0], SPACE), str(number))
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=4)

    async def work(number: int, lease: Lease) -> None:
        for _ in range(15):
            await stores[number % len(stores)].journal.commit(
                Commit(lease=lease, artifacts=[doc(str(number), id=ArtifactId("a"))])
            )

    await asyncio.gather(*(work(number, lease) for number, lease in enumerate(leases)))
    versions = await stores[0].artifacts.versions(SPACE, ArtifactId("a"))
    assert [one.version for one in versions] == list(range(1, 61))
    assert Counter(one.run_id for one in versions) == {lease.run_id: 15 for lease in leases}


async def test_a_file_is_deleted_or_used_by_an_artifact_but_never_both(stores: list[Store], run: Run) -> None:
    for number in range(20):
        file = await stores[0].files.create(SPACE, NewFile(name="a", content=str(number).encode()))
        made, deleted = await asyncio.gather(
            stores[0].artifacts.create(SPACE, run.id, doc(None, file_id=file.id)),
            stores[-1].files.delete(SPACE, file.id),
            return_exceptions=True,
        )
        if isinstance(made, Artifact):
            assert isinstance(deleted, InUse)
            assert await stores[0].files.content(SPACE, file.id) == str(number).encode()
        else:
            assert isinstance(made, NotFound) and deleted is None


async def test_the_artifacts_of_a_deleted_run_are_gone(store: Store, run: Run) -> None:
    made = await store.artifacts.create(SPACE, run.id, doc())
    await finish(store, await claim(store))
    await store.runs.delete(SPACE, run.id)
    assert (await store.artifacts.page(SPACE)).items == []
    with pytest.raises(NotFound):
        await store.artifacts.get(SPACE, made.id)
