"""Working folders of workers: two disks, one store, and what moves between them."""

import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap.store import open_store
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import FolderNotice
from holdfast.domain.folder_snapshot import MAX_SNAPSHOT_FILE_BYTES, FolderState, SnapshotEntry, SnapshotKind
from holdfast.sandbox.working_folders import ASIDE_PREFIX, WorkspaceFolders
from holdfast.store.store import Store
from holdfast.tools.files.snapshots import RunFolder, WorkerFolders
from tests.builders import claim, finish, new_run, new_thread
from tests.conformance.conftest import SPACE

NAME: Final = "files"


class Disk:
    """The disk of a worker."""

    def __init__(self, path: Path, store: Store) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        self.files = path / NAME
        self.workers = WorkerFolders(WorkspaceFolders(path), store.folders, data_folder=path / "data")

    async def use(self, lease: Lease) -> tuple[RunFolder, list[FolderNotice]]:
        folder = self.workers.of_run(lease)
        return folder, await folder.use("bash", NAME, is_command=True)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            self.files.mkdir(exist_ok=True)
            (self.files / name).write_text(text)

    def texts(self) -> dict[str, str]:
        return {
            path.relative_to(self.files).as_posix(): path.read_text()
            for path in self.files.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db") as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@pytest.fixture
async def lease(store: Store) -> Lease:
    await new_run(store, SPACE, await new_thread(store, SPACE), "go")
    return await claim(store)


@pytest.fixture
def disk(tmp_path: Path, store: Store) -> Callable[[str], Disk]:
    return lambda name: Disk(tmp_path / name, store)


async def test_a_folder_moves_with_its_links_modes_and_empty_folders(lease: Lease, disk: Callable[[str], Disk]) -> None:
    first, second = disk("first"), disk("second")
    folder, told = await first.use(lease)
    first.write(a="1")
    (first.files / "deep/er").mkdir(parents=True)
    (first.files / "deep/er/b").write_bytes(b"\0\xff")
    (first.files / "run").write_text("#!/bin/sh")
    (first.files / "run").chmod(0o755)
    (first.files / "empty").mkdir()
    (first.files / "link").symlink_to("deep/er/b")
    assert (told, await folder.save(let_go=True)) == ([], [])
    _, told = await second.use(lease)
    assert told == []
    assert (second.files / "deep/er/b").read_bytes() == b"\0\xff"
    assert stat.S_IMODE((second.files / "run").stat().st_mode) & 0o111
    assert not (second.files / "a").stat().st_mode & 0o111
    assert (second.files / "empty").is_dir()
    assert os.readlink(second.files / "link") == "deep/er/b"


async def test_changes_and_deletions_come_back(lease: Lease, disk: Callable[[str], Disk]) -> None:
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.write(a="1", b="1", c="1")
    await folder.save(let_go=True)
    folder, _ = await second.use(lease)
    second.write(a="2")
    (second.files / "b").unlink()
    (second.files / "c").unlink()
    (second.files / "c").mkdir()
    (second.files / "c/d").write_text("2")
    await folder.save(let_go=True)
    await first.use(lease)
    assert first.texts() == {"a": "2", "c/d": "2"}
    assert [each.name for each in first.path.iterdir() if each.name.startswith(ASIDE_PREFIX)] == []


async def test_ignored_files_stay_on_their_disk(lease: Lease, disk: Callable[[str], Disk]) -> None:
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.write(**{".gitignore": "*.log\n/build/\n", "a.log": "no", "a": "yes"})
    (first.files / "build").mkdir()
    (first.files / "build/out").write_text("no")
    await folder.save(let_go=True)
    folder, _ = await second.use(lease)
    assert set(second.texts()) == {".gitignore", "a"}
    second.write(a="2")
    await folder.save(let_go=True)
    await first.use(lease)
    assert first.texts() == {".gitignore": "*.log\n/build/\n", "a.log": "no", "a": "2", "build/out": "no"}


async def test_what_a_snapshot_cannot_take_is_named(lease: Lease, disk: Callable[[str], Disk], tmp_path: Path) -> None:
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.write(a="1")
    os.mkfifo(first.files / "pipe")
    (first.files / "out").symlink_to("/etc/passwd")
    (first.files / "up").symlink_to("../data")
    with (first.files / "large").open("wb") as large:
        large.truncate(MAX_SNAPSHOT_FILE_BYTES + 1)
    with open(os.fsencode(first.files) + b"/\xff", "wb"):  # noqa: ASYNC230
        pass
    told = await folder.save(let_go=True)
    assert {each.state for each in told} == {"left_out"}
    text = " ".join(each.message for each in told)
    for name in ("`pipe`", "`out`, `up`", "`large`", r"\udcff"):
        assert name in text
    await second.use(lease)
    assert second.texts() == {"a": "1"}


async def test_a_folder_beyond_the_limits_is_not_saved_and_says_what_to_do(
    lease: Lease, disk: Callable[[str], Disk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.domain.folder_snapshot.MAX_SNAPSHOT_ENTRIES", 2)
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.write(a="1")
    await folder.save()
    first.write(b="1", c="1")
    (told,) = await folder.save(let_go=True)
    assert (told.state, ".gitignore" in told.message) == ("not_saved", True)
    _, told_second = await second.use(lease)
    assert [each.state for each in told_second] == ["unsaved"]
    assert second.texts() == {"a": "1"}


async def test_unsaved_changes_of_a_crash_stay_on_the_disk_that_has_them(
    lease: Lease, store: Store, disk: Callable[[str], Disk]
) -> None:
    first = disk("first")
    folder, _ = await first.use(lease)
    first.write(a="1")
    await folder.save()
    first.write(a="2")
    restarted = disk("first")
    folder, told = await restarted.use(lease)
    assert (told, restarted.texts()) == ([], {"a": "2"})
    await folder.save(let_go=True)
    second = disk("second")
    assert ((await second.use(lease))[1], second.texts()) == ([], {"a": "2"})


async def test_unsaved_changes_of_a_crash_are_not_mixed_into_a_newer_snapshot(
    lease: Lease, disk: Callable[[str], Disk]
) -> None:
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.write(a="1")
    await folder.save()
    first.write(lost="x")
    folder, told = await second.use(lease)
    assert [each.state for each in told] == ["unsaved"]
    second.write(b="2")
    await folder.save(let_go=True)
    await disk("first").use(lease)
    assert first.texts() == {"a": "1", "b": "2"}
    (aside,) = [each for each in first.path.iterdir() if each.name.startswith(ASIDE_PREFIX)]
    assert (aside / "lost").read_text() == "x"


async def test_two_workers_that_save_at_once_lose_nothing(lease: Lease, disk: Callable[[str], Disk]) -> None:
    first, second = disk("first"), disk("second")
    one, _ = await first.use(lease)
    first.write(shared="0")
    await one.save()
    two, _ = await second.use(lease)
    first.write(shared="1", mine="1")
    second.write(shared="2", yours="2")
    assert await one.save(let_go=True) == []
    (told,) = await two.save(let_go=True)
    assert told.state == "conflict" and "`shared`" in told.message
    whole = {"shared": "1", "mine": "1", "yours": "2", f"conflicts/{lease.run_id}/shared": "2"}
    for each in (first, second, disk("third")):
        await each.use(lease)
        assert each.texts() == whole


async def test_runs_of_one_worker_share_its_folder(lease: Lease, disk: Callable[[str], Disk]) -> None:
    first = disk("first")
    one, two = first.workers.of_run(lease), first.workers.of_run(lease)
    await one.use("read_file", NAME, is_command=False)
    first.write(a="1")
    assert await two.use("glob", NAME, is_command=False) == []
    assert first.texts() == {"a": "1"}
    await one.save(let_go=True)
    first.write(b="2")
    await two.save(let_go=True)
    second = disk("second")
    await second.use(lease)
    assert second.texts() == {"a": "1", "b": "2"}


async def test_a_folder_is_not_opened_for_a_tool_that_does_not_use_it(
    lease: Lease, disk: Callable[[str], Disk]
) -> None:
    first = disk("first")
    folder = first.workers.of_run(lease)
    assert await folder.use("recall", NAME, is_command=False) == []
    assert await folder.use("bash", "/srv/project", is_command=True) == []
    assert await folder.save(let_go=True) == [] and not first.files.exists()


async def test_a_later_run_is_told_that_there_is_no_snapshot(store: Store, disk: Callable[[str], Disk]) -> None:
    thread = await new_thread(store, SPACE)
    await new_run(store, SPACE, thread, "go")
    first = await claim(store)
    assert (await disk("first").use(first))[1] == []
    await finish(store, first)
    await new_run(store, SPACE, thread, "on")
    _, told = await disk("second").use(await claim(store))
    assert [each.state for each in told] == ["unsaved"]


class Hostile:
    """A control plane that serves a hostile snapshot."""

    def __init__(self, *entries: SnapshotEntry, content: bytes = b"x") -> None:
        self._entries = entries
        self._content = content

    async def open(self, lease: Lease, folder: str, *, place: str, version: int) -> FolderState:
        return FolderState(version=1, kept=False, entries=self._entries)

    async def download(self, lease: Lease, folder: str, digests: list[str]) -> list[bytes]:
        return [self._content for _ in digests]


@pytest.mark.parametrize(
    "entries",
    [
        [SnapshotEntry(path="../outside", digest="0" * 64, size=1)],
        [SnapshotEntry(path="/tmp/outside", digest="0" * 64, size=1)],
        [SnapshotEntry(path="link", kind=SnapshotKind.LINK, target="..")],
        [
            SnapshotEntry(path="link", kind=SnapshotKind.LINK, target="sub"),
            SnapshotEntry(path="link/outside", digest="0" * 64, size=1),
        ],
        [SnapshotEntry(path="a", digest="0" * 64, size=1)],
        [SnapshotEntry(path="a", digest="0" * 64, size=2**40)],
    ],
    ids=["up", "absolute", "link up", "through a link", "other content", "huge"],
)
async def test_a_worker_refuses_a_hostile_snapshot(lease: Lease, tmp_path: Path, entries: list[SnapshotEntry]) -> None:
    (tmp_path / "w").mkdir()
    workers = WorkerFolders(WorkspaceFolders(tmp_path / "w"), Hostile(*entries), data_folder=tmp_path / "w/data")  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        await workers.of_run(lease).use("bash", NAME, is_command=True)
    assert not (tmp_path / "outside").exists() and not (tmp_path / "w/outside").exists()


async def test_a_link_that_was_swapped_in_leads_nowhere(
    lease: Lease, disk: Callable[[str], Disk], tmp_path: Path
) -> None:
    """A folder of the snapshot is a link on disk by now: what is behind it is neither changed nor removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b").write_text("safe")
    first, second = disk("first"), disk("second")
    folder, _ = await first.use(lease)
    first.files.mkdir(exist_ok=True)
    (first.files / "sub").mkdir()
    (first.files / "sub/b").write_text("1")
    await folder.save(let_go=True)
    folder, _ = await second.use(lease)
    (second.files / "sub/b").write_text("2")
    await folder.save(let_go=True)
    (first.files / "sub/b").unlink()
    (first.files / "sub").rmdir()
    (first.files / "sub").symlink_to(outside)
    await first.use(lease)
    assert (outside / "b").read_text() == "safe"
    assert (first.files / "sub/b").read_text() == "2" and not (first.files / "sub").is_symlink()
