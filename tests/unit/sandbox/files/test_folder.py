"""The contract of `WorkingFolder`, with every opener."""

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
    folder: WorkingFolder, path: WorkingPath, content: bytes, replacing: FileSnapshot | None = None, mark: str = "m"
) -> None:
    folder.write(path, content, replacing=replacing, mark=mark, before_rename=lambda: None)


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
def test_a_missing_path_is_not_found(folder: WorkingFolder, path: str) -> None:
    with pytest.raises(NotFound, match=f"there is no `{path}`"):
        folder.read(WorkingPath(path), max_bytes=9)
    with pytest.raises(NotFound, match=f"there is no `{path}`"):
        folder.list(WorkingPath(path), max_entries=9)


@pytest.mark.parametrize("target", ["../secret", "b", "/etc/passwd", "nowhere"])
def test_a_link_is_refused_and_named_with_its_target(folder: WorkingFolder, place: Path, target: str) -> None:
    (place / "b").write_text("b")
    (place / "a").symlink_to(target)
    message = f"`a` is a symbolic link to `{target}`, and links are not followed"
    with pytest.raises(Invalid, match=message):
        folder.read(A, max_bytes=9)
    with pytest.raises(Invalid, match=message):
        folder.read(WorkingPath("a/c"), max_bytes=9)
    with pytest.raises(Invalid, match=message):
        folder.list(A, max_entries=9)
    with pytest.raises(Invalid, match=message):
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
    ("create", "message"),
    [(pipe, "is a pipe"), (unix_socket, "is (a socket|neither a file nor a folder)"), (directory, "is a folder")],
    ids=["pipe", "socket", "folder"],
)
def test_special_files_are_refused_without_blocking(
    folder: WorkingFolder, place: Path, create: type, message: str
) -> None:
    with create(place / "a"):
        with pytest.raises(Invalid, match=message):
            folder.read(A, max_bytes=9)
        with pytest.raises(Invalid, match=message):
            write(folder, A, b"")
        assert not stat.S_ISREG((place / "a").stat().st_mode)


def test_a_file_is_not_a_folder(folder: WorkingFolder, place: Path) -> None:
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


def test_a_listing_is_limited(folder: WorkingFolder, place: Path) -> None:
    for name in "abc":
        (place / name).write_text("")
    assert len(folder.list(WORKING_ROOT, max_entries=3).entries) == 3
    short = folder.list(WORKING_ROOT, max_entries=2)
    assert (len(short.entries), short.complete) == (2, False)


def test_a_file_is_created_with_its_parent_folders(folder: WorkingFolder, place: Path) -> None:
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


def test_a_replaced_file_loses_its_setuid_bit(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    (place / "a").chmod(0o4755)
    write(folder, A, b"new", folder.read(A, max_bytes=9))
    assert stat.S_IMODE((place / "a").stat().st_mode) == 0o755


def test_open_handles_and_hard_links_keep_the_old_content(folder: WorkingFolder, place: Path) -> None:
    """The old file is also hard-linked from outside the folder."""
    os.link(place.parent / "secret", place / "a")
    with open(place / "a") as file:
        write(folder, A, b"new", folder.read(A, max_bytes=9))
        assert file.read() == "secret"
    assert (place.parent / "secret").read_text() == "secret"
    assert (place / "a").read_text() == "new"


def test_a_file_that_changed_is_not_replaced(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    found = folder.read(A, max_bytes=9)
    (place / "a").write_text("newer")
    with pytest.raises(Conflict, match="has changed since it was read"):
        write(folder, A, b"new", found)
    (place / "a").unlink()
    with pytest.raises(Conflict, match="was deleted since it was read"):
        write(folder, A, b"new", found)
    (place / "a").write_text("another")
    with pytest.raises(Conflict, match="has changed"):
        write(folder, A, b"new", None)
    assert names(place) == ["a"]
    assert (place / "a").read_text() == "another"


def test_an_exception_before_the_rename_leaves_nothing_behind(folder: WorkingFolder, place: Path) -> None:
    def refuse() -> None:
        assert len(names(place)) == 1, "only the rename is missing"
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        folder.write(A, b"new", replacing=None, mark="m", before_rename=refuse)
    assert names(place) == []


def test_a_read_only_file_is_not_replaced(folder: WorkingFolder, place: Path) -> None:
    (place / "a").write_text("old")
    (place / "a").chmod(0o444)
    with pytest.raises(Conflict, match="`a` is read-only"):
        write(folder, A, b"new", folder.read(A, max_bytes=9))
    assert (place / "a").read_text() == "old"


def test_the_folder_itself_is_not_a_file(folder: WorkingFolder) -> None:
    with pytest.raises(Invalid, match="is not a file"):
        write(folder, WORKING_ROOT, b"")


def test_leftovers_of_a_killed_writer_are_hidden_and_then_removed(folder: WorkingFolder, place: Path) -> None:
    for mark in ("m", "other"):
        (place / f"{TEMPORARY_PREFIX}{mark}-1").write_text("half")
    assert folder.list(WORKING_ROOT, max_entries=9).entries == []
    write(folder, A, b"whole", mark="m")
    assert names(place) == [f"{TEMPORARY_PREFIX}other-1", "a"]


def test_a_name_that_is_too_long_is_invalid(folder: WorkingFolder) -> None:
    with pytest.raises(Invalid, match="has a name that is too long for this file system"):
        folder.read(WorkingPath("x" * 300), max_bytes=9)


def test_running_out_of_handles_is_a_temporary_error(folder: WorkingFolder, place: Path) -> None:
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


def test_a_working_folder_is_created_on_first_use(tmp_path: Path, opener: Opener) -> None:
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


def test_a_missing_workspace_is_unavailable(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="the workspace cannot be opened"),
        WorkspaceFolders(tmp_path / "gone").open("files"),
    ):
        pass


def test_a_free_path_is_reserved_once_and_released(place: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(place.parent, opener=opener)
    assert [folders.reserve("files", A), folders.reserve("files", A)] == [True, False]
    assert (place / "a").is_dir()
    folders.release("files", A)
    folders.release("files", A)
    assert names(place) == []


def test_a_file_or_a_folder_in_use_is_not_removed_by_release(place: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(place.parent, opener=opener)
    folders.reserve("files", A)
    (place / "a" / "note").touch()
    (place / "b").touch()
    folders.release("files", A)
    folders.release("files", WorkingPath("b"))
    assert names(place) == ["a", "b"]


@pytest.mark.parametrize(("path", "kind"), [("gone/x", NotFound), ("link/x", Invalid), ("file/x", Invalid)])
def test_nothing_is_reserved_beneath_a_missing_folder_a_link_or_a_file(
    place: Path, opener: Opener, path: str, kind: type[Exception]
) -> None:
    (place / "link").symlink_to(place.parent / "outside")
    (place / "file").touch()
    folders = WorkspaceFolders(place.parent, opener=opener)
    with pytest.raises(kind):
        folders.reserve("files", WorkingPath(path))
    folders.release("files", WorkingPath(path))
    assert names(place.parent / "outside") == ["key"]


def test_a_discarded_folder_is_deleted_with_everything_in_it(tmp_path: Path, opener: Opener) -> None:
    folders = WorkspaceFolders(tmp_path, opener=opener)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    for name in ("spaces/one/threads/a", "spaces/two"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "spaces/one/threads/link").symlink_to(outside)
    for _ in range(2):
        folders.discard("spaces/one")
    assert [path.name for path in (tmp_path / "spaces").iterdir()] == ["two"]
    assert (outside / "kept").exists()
    folders.discard("nothing/here")


def test_a_folder_that_is_put_aside_keeps_its_files_and_the_log_says_where(
    tmp_path: Path, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    folders = WorkspaceFolders(tmp_path, opener=opener)
    (tmp_path / "spaces/one").mkdir(parents=True)
    (tmp_path / "spaces/one/file").write_text("work")
    for _ in range(2):
        folders.put_aside("spaces/one", content="files of another space of that id")
    (aside,) = (tmp_path / "spaces").iterdir()
    assert aside.name.startswith(".aside-") and (aside / "file").read_text() == "work"
    (message,) = caplog.messages
    assert message == (
        f"`spaces/one` had files of another space of that id, which are now in `spaces/{aside.name}`: "
        "delete them if nobody needs them"
    )


def test_a_discarded_folder_that_cannot_be_deleted_is_out_of_reach(
    tmp_path: Path, opener: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spaces/one").mkdir(parents=True)
    (tmp_path / "spaces/one/file").touch()

    def refuse(*path: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)
    WorkspaceFolders(tmp_path, opener=opener).discard("spaces/one")
    assert not (tmp_path / "spaces/one").exists()
    assert "cannot be deleted" in caplog.text


def test_a_folder_outside_the_workspace_is_opened_by_its_absolute_path(tmp_path: Path, opener: Opener) -> None:
    project, workspace = tmp_path.resolve() / "project", tmp_path / "workspace"
    project.mkdir()
    workspace.mkdir()
    (project / "a").write_text("1")
    folders = WorkspaceFolders(workspace, opener=opener)
    with folders.open(str(project)) as folder:
        assert folder.read(A, max_bytes=9).content == b"1"
    assert folders.reserve(str(project), WorkingPath("ci"))
    assert not folders.reserve(str(project), WorkingPath("ci"))
    assert (project / "ci").is_dir()
    folders.release(str(project), WorkingPath("ci"))
    assert not (project / "ci").exists()
    assert [*workspace.iterdir()] == []


def test_a_folder_outside_the_workspace_is_neither_created_nor_behind_a_link(tmp_path: Path, opener: Opener) -> None:
    folders, real = WorkspaceFolders(tmp_path, opener=opener), tmp_path.resolve() / "real"
    with pytest.raises(Conflict, match=f"`{real}` does not exist: create it"), folders.open(str(real)):
        pass
    real.mkdir()
    (real / "inner").mkdir()
    link = real.with_name("link")
    link.symlink_to(real)
    for name in (str(link), f"{link}/inner"):
        expected = str(Path(name).resolve())
        message = f"symbolic link: list and name its real path `{expected}`"
        with pytest.raises(Conflict, match=message), folders.open(name):
            pass
    assert not (tmp_path / "files").exists()
