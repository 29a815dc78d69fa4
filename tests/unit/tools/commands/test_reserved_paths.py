"""Read-only paths that do not exist are reserved while a command runs, and removed afterwards."""

import os
from pathlib import Path

import pytest

from holdfast.domain.working_path import WorkingPath
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.tools.commands.path_masks import ReservedPaths, paths_to_reserve
from holdfast.tools.permissions.policy import DeniedPaths

DEEP = WorkingPath("a/b/c")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def reserved(files: Path) -> ReservedPaths:
    return ReservedPaths(WorkspaceFolders(files.parent))


def reserve(reserved: ReservedPaths, *paths: WorkingPath) -> list[WorkingPath]:
    reservation: list[WorkingPath] = []
    reserved.reserve("files", paths, reservation)
    return reservation


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("ci/**", ["ci"]),
        (".git/hooks/", [".git/hooks"]),
        ("a/b/c", ["a/b/c"]),
        ("*.pem", []),
        ("ci/*.yml", []),
        ("package.json", []),
        ("/etc/**", []),
        ("**", []),
    ],
)
def test_only_literal_paths_are_reserved(pattern: str, paths: list[str]) -> None:
    assert paths_to_reserve(DeniedPaths(read_only=(pattern, pattern))) == paths
    assert paths_to_reserve(DeniedPaths(hidden=(pattern,))) == []


def test_a_reserved_path_exists_until_its_last_release(reserved: ReservedPaths, files: Path) -> None:
    first, second = reserve(reserved, DEEP), reserve(reserved, DEEP)
    assert first == second == ["a", "a/b", "a/b/c"]
    reserved.release("files", first)
    assert (files / DEEP).is_dir()
    reserved.release("files", second)
    assert os.listdir(files) == []


def test_an_existing_path_is_left_alone(reserved: ReservedPaths, files: Path) -> None:
    (files / DEEP).mkdir(parents=True)
    assert reserve(reserved, DEEP) == []
    assert (files / DEEP).is_dir()


def test_files_created_in_a_reserved_folder_stay(reserved: ReservedPaths, files: Path) -> None:
    reservation = reserve(reserved, DEEP)
    (files / "a" / "note").write_text("kept")
    reserved.release("files", reservation)
    assert sorted(str(path.relative_to(files)) for path in files.rglob("*")) == ["a", "a/note"]


def test_releasing_a_removed_path_is_not_an_error(reserved: ReservedPaths, files: Path) -> None:
    reservation = reserve(reserved, DEEP)
    for path in reversed(reservation):
        (files / path).rmdir()
    reserved.release("files", reservation)
    assert os.listdir(files) == []


@pytest.mark.parametrize("kind", ["link", "file"])
def test_nothing_is_reserved_through_a_link_or_beneath_a_file(reserved: ReservedPaths, files: Path, kind: str) -> None:
    outside = files.parent / "outside"
    outside.mkdir()
    if kind == "link":
        (files / "a").symlink_to(outside)
    else:
        (files / "a").touch()
    assert reserve(reserved, DEEP, WorkingPath("ci")) == ["ci"]
    assert os.listdir(outside) == []
