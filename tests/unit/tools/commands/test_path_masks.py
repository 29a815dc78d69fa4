"""Denied patterns become masks for existing paths."""

from pathlib import Path
from threading import Event

import pytest

from holdfast.domain.errors import Invalid
from holdfast.tools.commands import path_masks as path_masks_module
from holdfast.tools.commands.path_masks import PathMasks, path_masks
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
