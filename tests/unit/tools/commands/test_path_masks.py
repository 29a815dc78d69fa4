"""Denied patterns become masks for existing paths."""

from pathlib import Path
from threading import Event

import pytest

from holdfast.domain.errors import FolderChanged, Invalid
from holdfast.tools.commands import path_masks as path_masks_module
from holdfast.tools.commands.path_masks import PathMasks, path_masks, program_masks
from holdfast.tools.permissions.policy import DeniedPaths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("src/.env", "src/main.py", "vault/deep/key", "ci/run", "ci/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.env").symlink_to("src/main.py")
    return tmp_path


def masked(root: Path, **denied: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Return the hidden and the read-only paths, relative to the root."""
    masks = path_masks(root, DeniedPaths(**denied), Event())
    hidden, read_only = ({str(path.relative_to(root)) for path in paths} for paths in (masks.hidden, masks.read_only))
    return hidden, read_only


def test_without_denied_paths_nothing_is_masked(root: Path) -> None:
    assert path_masks(root, DeniedPaths(), Event()) == PathMasks()


def test_a_pattern_matches_at_any_depth_and_links_are_skipped(root: Path) -> None:
    assert masked(root, hidden=("*.env",)) == ({"src/.env", "ci/.env"}, set())


def test_a_masked_folder_covers_its_contents(root: Path) -> None:
    assert masked(root, hidden=("vault/**",)) == ({"vault"}, set())


def test_a_hidden_path_in_a_read_only_folder_is_masked_as_well(root: Path) -> None:
    assert masked(root, read_only=("ci/**",), hidden=("*.env",)) == ({"src/.env", "ci/.env"}, {"ci"})


def test_denying_everything_masks_the_folder_itself(root: Path) -> None:
    assert masked(root, hidden=("**",)) == ({"."}, set())
    assert masked(root, read_only=("**",), hidden=("ci/run",)) == ({"ci/run"}, {"."})


def test_absolute_paths_are_masked_except_ancestors_of_the_folder(root: Path) -> None:
    inside = root / "vault"
    denied = DeniedPaths(hidden=(f"{root}/src/*.py", f"{root}/ci/**", f"{root}/none", f"{root}/**"))
    assert {*path_masks(inside, denied, Event()).hidden} == {root / "src" / "main.py", root / "ci"}


def test_too_many_denied_paths_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_masks_module, "MAX_MASKED_PATHS", 1)
    with pytest.raises(Invalid, match="deny folders"):
        masked(root, hidden=("*.env",))
    monkeypatch.setattr(path_masks_module, "MAX_SCANNED_ENTRIES", 3)
    with pytest.raises(Invalid, match="work in a smaller one"):
        masked(root, hidden=("none",))


class Meddler(Event):
    """A flag that swaps two entries when it is asked for the n-th time, as another process could at any time."""

    def __init__(self, first: Path, second: Path, *, at: int) -> None:
        super().__init__()
        self._pair, self._left = (first, second), at

    def is_set(self) -> bool:
        self._left -= 1
        if self._left == 0:
            first, second = self._pair
            spare = first.with_name("spare")
            first.rename(spare)
            second.rename(first)
            spare.rename(second)
        return False


@pytest.mark.parametrize("other", ["a link", "a folder"])
@pytest.mark.parametrize("at", range(1, 8))
def test_no_denied_file_is_missed_while_folders_are_swapped(tmp_path: Path, other: str, at: int) -> None:
    """Either the scan notices, or the inode that it found shows that another file is at the path."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (outside, root / "one"):
        folder.mkdir(parents=True)
    (root / "one" / ".env").touch()
    inode = (root / "one" / ".env").stat().st_ino
    if other == "a link":
        (root / "two").symlink_to(outside)
    else:
        (root / "two").mkdir()
    try:
        masks = path_masks(root, DeniedPaths(hidden=("*.env",)), Meddler(root / "one", root / "two", at=at))
    except FolderChanged:
        return
    assert [masks.inodes[path][1] for path in masks.hidden] == [inode]
    assert masks.inodes[root] == (root.stat().st_dev, root.stat().st_ino)


def test_a_tree_that_is_too_deep_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_masks_module, "MAX_SCANNED_DEPTH", 2)
    with pytest.raises(Invalid, match="move it up"):
        masked(root, hidden=("none",))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("rm", "mawk", "perl", "busybox", "bash"):
        (folder / name).write_text(name)
    (folder / "awk").symlink_to("mawk")
    (folder / "perl5").hardlink_to(folder / "perl")
    for number in range(20):
        (folder / f"applet{number}").symlink_to("busybox")
    (folder / "gone").symlink_to("nowhere")
    monkeypatch.setattr(path_masks_module, "_PROGRAM_FOLDERS", (str(folder), str(tmp_path / "none")))
    return folder


@pytest.mark.parametrize(
    ("name", "masked"),
    [
        ("rm", {"rm"}),
        ("awk", {"mawk"}),
        ("perl", {"perl", "perl5"}),
        ("perl5", {"perl", "perl5"}),
        ("busybox", {"busybox"}),
        ("applet3", set()),
        ("bash", set()),
        ("gone", set()),
        ("unknown", set()),
    ],
)
def test_a_program_is_masked_with_its_other_names_but_not_a_file_of_many_programs(
    programs: Path, name: str, masked: set[str]
) -> None:
    assert {path.name for path in program_masks(frozenset({name}))} == masked


def test_a_program_that_is_installed_later_is_masked(programs: Path) -> None:
    assert program_masks(frozenset({"new"})) == ()
    (programs / "new").touch()
    assert program_masks(frozenset({"new"})) == (programs / "new",)
