"""`FolderSnapshots`: a restored folder equals what was saved, merges lose nothing, and nothing hostile gets in."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, Invalid, LeaseLost, NotFound, TooLarge
from holdfast.domain.folder_snapshot import (
    MAX_SNAPSHOT_BYTES,
    MAX_SNAPSHOT_ENTRIES,
    MAX_SNAPSHOT_FILE_BYTES,
    FolderChanges,
    SavedFolder,
    SnapshotEntry,
    SnapshotKind,
    check_entry,
    check_tree,
    is_inner_link,
)
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.domain.working_folder import folder_name, space_folder
from holdfast.store.claims import AFFINITY_MS
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, finish, user
from tests.conformance.conftest import OTHER, SPACE

HERE, THERE = "place-1", "place-2"


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def file(path: str, content: bytes, *, executable: bool = False) -> SnapshotEntry:
    return SnapshotEntry(path=path, digest=digest(content), size=len(content), executable=executable)


async def leased(store: Store, *, space: SpaceId = SPACE) -> Lease:
    """Return the lease of a new run on a new thread."""
    new = NewRun(thread=NewThread(agent_type="bot"), agent_type="bot", messages=[user("go")])
    run = (await store.runs.create(space, new)).run
    (lease,) = await store.leases.claim(FIRST, lease=MINUTE, limit=10)
    assert lease.run_id == run.id
    return lease


def folder_of(lease: Lease) -> str:
    return f"{space_folder(lease.space_id)}/threads/{folder_name(lease.run.root_thread_id)}"


async def save(
    store: Store,
    lease: Lease,
    files: Mapping[str, bytes],
    *,
    base: int = 0,
    removed: tuple[str, ...] = (),
    place: str = HERE,
) -> SavedFolder:
    """Upload what the space lacks, and save."""
    missing = await store.folders.stage(lease, [digest(content) for content in files.values()])
    await store.folders.upload(lease, [content for content in files.values() if digest(content) in missing])
    changes = FolderChanges(base=base, changed=[file(*each) for each in files.items()], removed=removed)
    return await store.folders.save(lease, folder_of(lease), changes, place=place)


async def restored(store: Store, lease: Lease, *, place: str = THERE) -> dict[str, bytes]:
    """Return the files that a place gets that has nothing."""
    state = await store.folders.open(lease, folder_of(lease), place=place, version=0)
    files = [entry for entry in state.entries if entry.kind is SnapshotKind.FILE]
    contents = await store.folders.download(lease, folder_of(lease), [entry.digest for entry in files])
    return {entry.path: content for entry, content in zip(files, contents, strict=True)}


async def test_a_restored_folder_equals_what_was_saved(store: Store) -> None:
    lease = await leased(store)
    entries = [
        file("run.sh", b"#!/bin/sh\n", executable=True),
        file("src/empty", b""),
        SnapshotEntry(path="src/link", kind=SnapshotKind.LINK, target="../run.sh"),
        SnapshotEntry(path="build", kind=SnapshotKind.FOLDER),
    ]
    assert await store.folders.stage(lease, [digest(b"#!/bin/sh\n"), digest(b"")]) == [
        digest(b"#!/bin/sh\n"),
        digest(b""),
    ]
    await store.folders.upload(lease, [b"", b"#!/bin/sh\n"])
    saved = await store.folders.save(lease, folder_of(lease), FolderChanges(base=0, changed=entries), place=HERE)
    assert saved == SavedFolder(version=1, current=True, conflicts=[])
    state = await store.folders.open(lease, folder_of(lease), place=THERE, version=0)
    assert sorted(state.entries, key=str) == sorted(entries, key=str)
    assert (state.version, state.kept, state.unsaved) == (1, False, False)
    assert await restored(store, lease) == {"run.sh": b"#!/bin/sh\n", "src/empty": b""}


async def test_a_place_that_has_the_version_keeps_its_folder(store: Store) -> None:
    lease = await leased(store)
    await store.folders.open(lease, folder_of(lease), place=HERE, version=0)
    await save(store, lease, {"a": b"1"})
    state = await store.folders.open(lease, folder_of(lease), place=HERE, version=1)
    assert (state.kept, state.entries) == (True, [])
    assert not (await store.folders.open(lease, folder_of(lease), place=THERE, version=1)).kept
    assert not (await store.folders.open(lease, folder_of(lease), place=HERE, version=1)).kept


async def test_a_folder_that_was_used_and_not_saved_elsewhere_says_so(store: Store) -> None:
    lease = await leased(store)
    await store.folders.open(lease, folder_of(lease), place=HERE, version=0)
    assert not (await store.folders.open(lease, folder_of(lease), place=HERE, version=0)).unsaved
    state = await store.folders.open(lease, folder_of(lease), place=THERE, version=0)
    assert (state.unsaved, state.version, state.saved_at) == (True, 0, None)
    await save(store, lease, {}, place=THERE)
    assert not (await store.folders.open(lease, folder_of(lease), place=HERE, version=0)).unsaved


async def test_a_content_is_stored_once_in_a_space_and_never_shared_between_spaces(store: Store) -> None:
    first = await leased(store)
    await save(store, first, {"a": b"same", "b": b"same"})
    second = await leased(store)
    assert await store.folders.stage(second, [digest(b"same")]) == []
    assert await store.folders.stage(await leased(store, space=OTHER), [digest(b"same")]) == [digest(b"same")]


async def test_runs_that_save_at_once_lose_no_file(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"both": b"0", "gone": b"0", "mine": b"0"})
    saved = await save(store, lease, {"both": b"theirs", "gone": b"kept"}, base=1, place=THERE)
    assert (saved.version, saved.current) == (2, True)
    saved = await save(store, lease, {"both": b"ours", "mine": b"1", "new": b"1"}, base=1, removed=("gone",))
    assert (saved.version, saved.current, saved.conflicts) == (3, False, ["both"])
    assert await restored(store, lease) == {
        "both": b"theirs",
        f"conflicts/{lease.run_id}/both": b"ours",
        "gone": b"kept",
        "mine": b"1",
        "new": b"1",
    }


async def test_a_file_where_another_run_made_a_folder_is_kept_too(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"a/b": b"theirs"})
    saved = await save(store, lease, {"a": b"ours"})
    assert saved.conflicts == ["a"]
    assert await restored(store, lease) == {"a/b": b"theirs", f"conflicts/{lease.run_id}/a": b"ours"}


async def test_the_same_change_by_two_runs_is_no_conflict(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"a": b"1"})
    assert (await save(store, lease, {"a": b"1"})).conflicts == []
    assert await restored(store, lease) == {"a": b"1"}


async def test_a_file_in_an_empty_folder_replaces_the_folder(store: Store) -> None:
    lease = await leased(store)
    empty = SnapshotEntry(path="a", kind=SnapshotKind.FOLDER)
    await store.folders.save(lease, folder_of(lease), FolderChanges(base=0, changed=[empty]), place=HERE)
    await save(store, lease, {"a/b": b"1"}, base=1, removed=("a",))
    assert await restored(store, lease) == {"a/b": b"1"}


HOSTILE = [
    SnapshotEntry(path="../x", digest="0" * 64),
    SnapshotEntry(path="/etc/passwd", digest="0" * 64),
    SnapshotEntry(path="a/../../x", digest="0" * 64),
    SnapshotEntry(path="a//b", digest="0" * 64),
    SnapshotEntry(path="./a", digest="0" * 64),
    SnapshotEntry(path=".", digest="0" * 64),
    SnapshotEntry(path="", digest="0" * 64),
    SnapshotEntry(path="a\0b", digest="0" * 64),
    SnapshotEntry(path="a\nb", digest="0" * 64),
    SnapshotEntry(path="x/" * 70 + "x", digest="0" * 64),
    SnapshotEntry(path="x" * 300, digest="0" * 64),
    SnapshotEntry(path="a", digest="0" * 63),
    SnapshotEntry(path="a", digest="../" + "0" * 61),
    SnapshotEntry(path="a", digest="0" * 64, target="b"),
    SnapshotEntry(path="a", digest="0" * 64, size=-1),
    SnapshotEntry(path="a", kind=SnapshotKind.LINK),
    SnapshotEntry(path="a", kind=SnapshotKind.LINK, target="/etc"),
    SnapshotEntry(path="a", kind=SnapshotKind.LINK, target=".."),
    SnapshotEntry(path="a/b", kind=SnapshotKind.LINK, target="../../x"),
    SnapshotEntry(path="a/b", kind=SnapshotKind.LINK, target="x/../../../y"),
    SnapshotEntry(path="a", kind=SnapshotKind.LINK, target="b\0"),
    SnapshotEntry(path="a", kind=SnapshotKind.FOLDER, executable=True),
]


@pytest.mark.parametrize("entry", HOSTILE, ids=[ascii(each.path[:20] + each.target) for each in HOSTILE])
async def test_a_hostile_entry_is_refused_and_changes_nothing(store: Store, entry: SnapshotEntry) -> None:
    lease = await leased(store)
    await save(store, lease, {"a": b"1"})
    await store.folders.upload(lease, [b"x"])
    changes = FolderChanges(base=1, changed=[file("good", b"x"), entry])
    with pytest.raises(Invalid):
        await store.folders.save(lease, folder_of(lease), changes, place=HERE)
    assert await restored(store, lease) == {"a": b"1"}


async def test_a_content_is_saved_only_by_a_run_that_has_it(store: Store) -> None:
    lease, other = await leased(store), await leased(store)
    await save(store, other, {"secret": b"s"})
    for entry in (file("a", b"never sent"), file("a", b"s")):
        with pytest.raises(Conflict):
            await store.folders.save(lease, folder_of(lease), FolderChanges(base=0, changed=[entry]), place=HERE)
    await store.folders.upload(lease, [b"abc"])
    wrong = SnapshotEntry(path="a", digest=digest(b"abc"), size=2)
    with pytest.raises(Conflict):
        await store.folders.save(lease, folder_of(lease), FolderChanges(base=0, changed=[wrong]), place=HERE)
    with pytest.raises(NotFound):
        await store.folders.download(lease, folder_of(lease), [digest(b"s")])


async def test_a_lost_lease_opens_and_saves_nothing(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"a": b"1"})
    await finish(store, lease)
    for call in (
        lambda: store.folders.open(lease, folder_of(lease), place=HERE, version=1),
        lambda: store.folders.stage(lease, [digest(b"1")]),
        lambda: store.folders.upload(lease, [b"1"]),
        lambda: store.folders.download(lease, folder_of(lease), [digest(b"1")]),
        lambda: store.folders.save(lease, folder_of(lease), FolderChanges(base=1, removed=["a"]), place=HERE),
    ):
        with pytest.raises(LeaseLost):
            await call()


async def test_contents_that_nothing_uses_are_dropped(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"a": b"old", "b": b"kept", "c": b"kept"})
    await store.folders.upload(lease, [b"never used"])
    await save(store, lease, {"a": b"new"}, base=1, removed=("b",))
    unused = [digest(b"old"), digest(b"never used")]
    assert await store.folders.stage(lease, [*unused, digest(b"kept"), digest(b"new")]) == unused


async def test_the_snapshots_of_a_deleted_space_are_gone(store: Store) -> None:
    lease = await leased(store)
    await save(store, lease, {"a": b"1"})
    await finish(store, lease)
    await store.spaces.delete(SPACE)
    await store.spaces.create(SPACE, name="again")
    lease = await leased(store)
    assert await store.folders.stage(lease, [digest(b"1")]) == [digest(b"1")]


async def next_run(store: Store, lease: Lease) -> RunId:
    return (await store.runs.create(SPACE, NewRun(thread=lease.thread_id, messages=[user("on")]))).run.id


async def claimed(store: Store, owner: str) -> list[RunId]:
    return [lease.run_id for lease in await store.leases.claim(owner, lease=MINUTE, limit=10)]  # type: ignore[arg-type]


async def test_the_next_run_of_a_thread_is_left_to_the_worker_with_its_folder_for_a_while(
    store: Store, clock: HeldClock
) -> None:
    lease = await leased(store)
    await store.folders.open(lease, folder_of(lease), place=HERE, version=0)
    await finish(store, lease)
    run = await next_run(store, lease)
    assert await claimed(store, SECOND) == []
    assert (await store.leases.queue_state()).ready  # so that every worker looks again
    assert await claimed(store, FIRST) == [run]


async def test_after_the_deadline_any_worker_takes_it(store: Store, clock: HeldClock) -> None:
    lease = await leased(store)
    await store.folders.open(lease, folder_of(lease), place=HERE, version=0)
    await finish(store, lease)
    run = await next_run(store, lease)
    clock.tick(timedelta(milliseconds=AFFINITY_MS - 1))
    assert await claimed(store, SECOND) == []
    clock.tick(timedelta(milliseconds=1))
    assert await claimed(store, SECOND) == [run]


async def test_the_run_of_a_dead_worker_is_left_to_nobody(store: Store, clock: HeldClock) -> None:
    lease = await leased(store)
    await store.folders.open(lease, folder_of(lease), place=HERE, version=0)
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    assert await claimed(store, SECOND) == [lease.run_id]


async def test_a_thread_without_a_folder_is_left_to_nobody(store: Store) -> None:
    lease = await leased(store)
    await finish(store, lease)
    run = await next_run(store, lease)
    assert await claimed(store, SECOND) == [run]


def test_a_tree_within_the_limits_is_required() -> None:
    with pytest.raises(TooLarge):
        check_tree(SnapshotEntry(path=str(n), kind=SnapshotKind.FOLDER) for n in range(MAX_SNAPSHOT_ENTRIES + 1))
    count = MAX_SNAPSHOT_BYTES // MAX_SNAPSHOT_FILE_BYTES
    large = [SnapshotEntry(path=str(n), digest="0" * 64, size=MAX_SNAPSHOT_FILE_BYTES) for n in range(count)]
    check_tree(large)
    with pytest.raises(TooLarge):
        check_tree([*large, SnapshotEntry(path="one", digest="0" * 64, size=1)])
    with pytest.raises(TooLarge):
        check_entry(SnapshotEntry(path="a", digest="0" * 64, size=MAX_SNAPSHOT_FILE_BYTES + 1))
    for paths in (["a", "a"], ["a", "a/b/c"]):
        with pytest.raises(Invalid):
            check_tree(SnapshotEntry(path=path, digest="0" * 64) for path in paths)


@for_all(st.lists(st.sampled_from(["..", ".", "a", "bc", ""]), max_size=8), st.integers(0, 3))
def test_a_link_that_is_accepted_stays_inside(parts: list[str], depth: int) -> None:
    path, target = "/".join(["d"] * depth + ["link"]), "/".join(parts)
    if not is_inner_link(path, target):
        return
    at = depth
    for part in target.split("/"):
        at += {"..": -1, ".": 0, "": 0}.get(part, 1)
        assert at >= 0
