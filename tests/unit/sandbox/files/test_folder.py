"""The promises of `WorkingFolder`, however it opens what is in it."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.domain.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.ports.tools import EntryKind, FileSnapshot, FolderEntry, WorkingFolder
from holdfast.sandbox.safe_open import Opener
from holdfast.sandbox.working_folders import TEMPORARY_PREFIX, WorkspaceFolders

A = WorkingPath("a")
DEEP = WorkingPath("x/y/a")


def write(
    folder: WorkingFolder, path: WorkingPath, content: bytes, instead_of: FileSnapshot | None = None, mark: str = "m"
) -> None:
    folder.write(path, content, replacing=instead_of, mark=mark, before_rename=lambda: None)


def names(place: Path) -> list[str]:
    return sorted(os.listdir(place))


def test_a_file_is_read(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_bytes(b"\x00\xff")
    assert folder.read(A, max_bytes=2).content == b"\x00\xff"


def test_a_file_that_is_too_large_is_refused(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_bytes(b"123")
    with pytest.raises(TooLarge, match="`a` has 3 bytes, and 2 can be read"):
        folder.read(A, max_bytes=2)


def test_a_file_has_another_stamp_after_each_change(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("1")
    first = folder.read(A, max_bytes=9)
    assert folder.read(A, max_bytes=9) == first
    os.utime(place / "a", ns=(1, 1))
    second = folder.read(A, max_bytes=9)
    (place / "b").write_text("1")
    os.utime(place / "b", ns=(1, 1))
    (place / "b").rename(place / "a")
    assert len({first.stamp, second.stamp, folder.read(A, max_bytes=9).stamp}) == 3


@pytest.mark.parametrize("path", ["a", "a/b/c"])
def test_what_is_not_there_is_not_found(folder: WorkingFolder, path: str) -> None:
    with pytest.raises(NotFound, match=f"there is no `{path}`"):
        folder.read(WorkingPath(path), max_bytes=9)
    with pytest.raises(NotFound, match=f"there is no `{path}`"):
        folder.list(WorkingPath(path), max_entries=9)


@pytest.mark.parametrize("target", ["../secret", "b", "/etc/passwd", "nowhere"])
def test_a_link_is_named_with_where_it_leads(folder: WorkingFolder, place: Path, target: str) -> None:
    (place / "b").write_text("b")
    (place / "a").symlink_to(target)
    told = f"`a` is a symbolic link to `{target}`, and links are not followed"
    with pytest.raises(Invalid, match=told):
        folder.read(A, max_bytes=9)
    with pytest.raises(Invalid, match=told):
        folder.read(WorkingPath("a/c"), max_bytes=9)
    with pytest.raises(Invalid, match=told):
        folder.list(A, max_entries=9)
    with pytest.raises(Invalid, match=told):
        write(folder, WorkingPath("a/c"), b"")
    with pytest.raises(Invalid, match="`a` is a symbolic link"):
        write(folder, A, b"")
    assert (place / "a").is_symlink()
    assert (place.parent / "secret").read_text() == "secret"


def test_a_link_deeper_down_is_named_by_its_path(folder: WorkingFolder, place: Path) -> None:
    (place / "x").mkdir()
    (place / "x" / "y").symlink_to("../../outside")
    with pytest.raises(Invalid, match="`x/y` is a symbolic link to `../../outside`"):
        folder.read(WorkingPath("x/y/key"), max_bytes=9)


@contextmanager
def pipe(path: Path) -> Iterator[None]:
    os.mkfifo(path)
    yield


@contextmanager
def unix_socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
        yield


@contextmanager
def directory(path: Path) -> Iterator[None]:
    path.mkdir()
    yield


@pytest.mark.parametrize(
    ("made", "told"),
    [(pipe, "is a pipe"), (unix_socket, "is (a socket|neither a file nor a folder)"), (directory, "is a folder")],
    ids=["pipe", "socket", "folder"],
)
def test_what_is_no_file_is_neither_read_nor_written_and_nobody_waits(
    folder: WorkingFolder, place: Path, made: type, told: str
) -> None:
    with made(place / "a"):
        with pytest.raises(Invalid, match=told):
            folder.read(A, max_bytes=9)
        with pytest.raises(Invalid, match=told):
            write(folder, A, b"")
        assert not stat.S_ISREG((place / "a").stat().st_mode)


def test_a_file_is_no_folder(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("")
    for path in (A, WorkingPath("a/b")):
        with pytest.raises(Invalid, match="`a` is not a folder"):
            folder.list(path, max_entries=9)
    with pytest.raises(Invalid, match="`a` is not a folder"):
        write(folder, WorkingPath("a/b/c"), b"")


def test_a_folder_is_listed_by_name(folder: WorkingFolder, place: Path) -> None:
    (place / "b").write_text("12")
    (place / "a").mkdir()
    (place / "c").symlink_to("nowhere")
    os.mkfifo(place / "d")
    (place / os.fsdecode(b"\xff")).write_text("")
    listing = folder.list(WORKING_ROOT, max_entries=5)
    assert listing.complete
    assert [(entry.name, entry.kind) for entry in listing.entries] == [
        ("a", EntryKind.FOLDER),
        ("b", EntryKind.FILE),
        ("c", EntryKind.LINK),
        ("d", EntryKind.OTHER),
        ("\udcff", EntryKind.FILE),
    ]
    assert listing.entries[1] == FolderEntry(name="b", kind=EntryKind.FILE, size=2)


def test_no_more_is_listed_than_was_asked_for(folder: WorkingFolder, place: Path) -> None:
    for name in "abc":
        (place / name).write_text("")
    assert len(folder.list(WORKING_ROOT, max_entries=3).entries) == 3
    short = folder.list(WORKING_ROOT, max_entries=2)
    assert (len(short.entries), short.complete) == (2, False)


def test_a_file_is_made_with_the_folders_on_the_way_to_it(folder: WorkingFolder, place: Path) -> None:
    write(folder, DEEP, b"new")
    assert (place / "x" / "y" / "a").read_bytes() == b"new"
    assert names(place / "x" / "y") == ["a"]


def test_a_file_is_replaced_and_keeps_its_mode(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    (place / "a").chmod(0o750)
    write(folder, A, b"new", folder.read(A, max_bytes=9))
    assert (place / "a").read_bytes() == b"new"
    assert stat.S_IMODE((place / "a").stat().st_mode) == 0o750
    assert names(place) == ["a"]


def test_a_new_file_has_no_special_rights_of_the_old_one(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    (place / "a").chmod(0o4755)
    write(folder, A, b"new", folder.read(A, max_bytes=9))
    assert stat.S_IMODE((place / "a").stat().st_mode) == 0o755


def test_what_others_hold_open_or_have_linked_stays_as_it_was(folder: WorkingFolder, place: Path) -> None:
    """Also a file outside that somebody has linked into the folder."""
    os.link(place.parent / "secret", place / "a")
    with open(place / "a") as held:
        write(folder, A, b"new", folder.read(A, max_bytes=9))
        assert held.read() == "secret"
    assert (place.parent / "secret").read_text() == "secret"
    assert (place / "a").read_text() == "new"


def test_a_file_that_changed_is_not_replaced(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    found = folder.read(A, max_bytes=9)
    (place / "a").write_text("newer")
    with pytest.raises(Conflict, match="has changed since it was looked at"):
        write(folder, A, b"new", found)
    (place / "a").unlink()
    with pytest.raises(Conflict, match="is gone since it was looked at"):
        write(folder, A, b"new", found)
    (place / "a").write_text("another")
    with pytest.raises(Conflict, match="has changed"):
        write(folder, A, b"new", None)
    assert names(place) == ["a"]
    assert (place / "a").read_text() == "another"


def test_nothing_is_done_if_somebody_objects_before_the_last_move(folder: WorkingFolder, place: Path) -> None:
    def too_late() -> None:
        assert len(names(place)) == 1, "all but the last move is done"
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        folder.write(A, b"new", replacing=None, mark="m", before_rename=too_late)
    assert names(place) == []


def test_a_file_that_nobody_may_write_is_left_alone(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    (place / "a").chmod(0o444)
    with pytest.raises(Conflict, match="`a` is read-only"):
        write(folder, A, b"new", folder.read(A, max_bytes=9))
    assert (place / "a").read_text() == "old"


def test_the_folder_itself_is_no_file(folder: WorkingFolder) -> None:
    with pytest.raises(Invalid, match="is no file"):
        write(folder, WORKING_ROOT, b"")


def test_what_a_killed_writer_left_is_hidden_and_taken_away_by_the_next_try(folder: WorkingFolder, place: Path) -> None:
    for mark in ("m", "other"):
        (place / f"{TEMPORARY_PREFIX}{mark}-1").write_text("half")
    assert folder.list(WORKING_ROOT, max_entries=9).entries == []
    write(folder, A, b"whole", mark="m")
    assert names(place) == [f"{TEMPORARY_PREFIX}other-1", "a"]


def test_a_name_that_the_disk_cannot_have_is_told(folder: WorkingFolder) -> None:
    with pytest.raises(Invalid, match="has a name that is too long here"):
        folder.read(WorkingPath("x" * 300), max_bytes=9)


def test_a_full_table_of_handles_is_told_as_something_that_passes(folder: WorkingFolder, place: Path) -> None:
    import resource

    (place / "a").write_text("")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(place / "a") as probe:
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno(), hard))
        try:
            with pytest.raises(Unavailable, match="`a` cannot be used now"):
                folder.read(A, max_bytes=9)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_working_folder_is_made_when_it_is_first_opened(tmp_path: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(tmp_path, opener=opener)
    for _ in range(2):
        with folders.open("projects/site") as folder:
            assert folder.list(WORKING_ROOT, max_entries=1).complete
    assert (tmp_path / "projects" / "site").is_dir()


def test_a_working_folder_that_is_a_link_is_refused(tmp_path: Path, opener: Opener) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "files").symlink_to("real")
    with (
        pytest.raises(Invalid, match="`files` is a symbolic link"),
        WorkspaceFolders(tmp_path, opener=opener).open("files"),
    ):
        pass


def test_a_workspace_that_is_gone_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="the workspace cannot be opened"),
        WorkspaceFolders(tmp_path / "gone").open("files"),
    ):
        pass


def test_a_path_that_nothing_is_at_is_reserved_once_and_released(place: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(place.parent, opener=opener)
    assert [folders.reserve("files", A), folders.reserve("files", A)] == [True, False]
    assert (place / "a").is_dir()
    folders.release("files", A)
    folders.release("files", A)
    assert names(place) == []


def test_what_is_not_empty_or_no_folder_is_not_released(place: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(place.parent, opener=opener)
    folders.reserve("files", A)
    (place / "a" / "note").touch()
    (place / "b").touch()
    folders.release("files", A)
    folders.release("files", WorkingPath("b"))
    assert names(place) == ["a", "b"]


@pytest.mark.parametrize(("path", "kind"), [("gone/x", NotFound), ("link/x", Invalid), ("file/x", Invalid)])
def test_nothing_is_reserved_where_the_way_is_not_clear(
    place: Path, opener: Opener, path: str, kind: type[Exception]
) -> None:
    (place / "link").symlink_to(place.parent / "outside")
    (place / "file").touch()
    folders = WorkspaceFolders(place.parent, opener=opener)
    with pytest.raises(kind):
        folders.reserve("files", WorkingPath(path))
    folders.release("files", WorkingPath(path))
    assert names(place.parent / "outside") == ["key"]
