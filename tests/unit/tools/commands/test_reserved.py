"""What a rule names in full and denies to be written is reserved while a command runs, and left as it was."""

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


def hold(reserved: ReservedPaths, *paths: WorkingPath) -> list[WorkingPath]:
    held: list[WorkingPath] = []
    reserved.reserve("files", paths, held)
    return held


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
def test_only_what_is_named_in_full_can_be_reserved(pattern: str, paths: list[str]) -> None:
    assert paths_to_reserve(DeniedPaths(read_only=(pattern, pattern))) == paths
    assert paths_to_reserve(DeniedPaths(hidden=(pattern,))) == []


def test_what_is_reserved_is_there_until_the_last_one_lets_go(reserved: ReservedPaths, files: Path) -> None:
    first, second = hold(reserved, DEEP), hold(reserved, DEEP)
    assert first == second == ["a", "a/b", "a/b/c"]
    reserved.release("files", first)
    assert (files / DEEP).is_dir()
    reserved.release("files", second)
    assert os.listdir(files) == []


def test_what_was_there_before_is_left_alone(reserved: ReservedPaths, files: Path) -> None:
    (files / DEEP).mkdir(parents=True)
    assert hold(reserved, DEEP) == []
    assert (files / DEEP).is_dir()


def test_what_somebody_puts_into_it_meanwhile_stays(reserved: ReservedPaths, files: Path) -> None:
    held = hold(reserved, DEEP)
    (files / "a" / "note").write_text("kept")
    reserved.release("files", held)
    assert sorted(str(path.relative_to(files)) for path in files.rglob("*")) == ["a", "a/note"]


def test_what_is_gone_by_then_is_no_error(reserved: ReservedPaths, files: Path) -> None:
    held = hold(reserved, DEEP)
    for path in reversed(held):
        (files / path).rmdir()
    reserved.release("files", held)
    assert os.listdir(files) == []


@pytest.mark.parametrize("kind", ["link", "file"])
def test_nothing_is_made_by_way_of_a_link_or_beneath_a_file(reserved: ReservedPaths, files: Path, kind: str) -> None:
    outside = files.parent / "outside"
    outside.mkdir()
    if kind == "link":
        (files / "a").symlink_to(outside)
    else:
        (files / "a").touch()
    assert hold(reserved, DEEP, WorkingPath("ci")) == ["ci"]
    assert os.listdir(outside) == []
