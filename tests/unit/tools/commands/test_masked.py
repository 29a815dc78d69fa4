"""Patterns that are denied become the paths that are there."""

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


def found(root: Path, **denied: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Return what is hidden and what is kept, relative to the root."""
    now = path_masks(root, DeniedPaths(**denied), Event())
    hidden, kept = ({str(path.relative_to(root)) for path in paths} for paths in (now.hidden, now.read_only))
    return hidden, kept


def test_nothing_denied_is_nothing_masked(root: Path) -> None:
    assert path_masks(root, DeniedPaths(), Event()) == PathMasks()


def test_a_pattern_is_looked_up_at_any_depth_and_links_are_left_out(root: Path) -> None:
    assert found(root, hidden=("*.env",)) == ({"src/.env", "ci/.env"}, set())


def test_a_folder_stands_for_all_that_is_in_it(root: Path) -> None:
    assert found(root, hidden=("vault/**",)) == ({"vault"}, set())


def test_what_is_hidden_within_something_kept_is_both(root: Path) -> None:
    assert found(root, read_only=("ci/**",), hidden=("*.env",)) == ({"src/.env", "ci/.env"}, {"ci"})


def test_everything_is_the_folder_itself(root: Path) -> None:
    assert found(root, hidden=("**",)) == ({"."}, set())
    assert found(root, read_only=("**",), hidden=("ci/run",)) == ({"ci/run"}, {"."})


def test_paths_of_the_machine_are_masked_too_but_none_that_the_folder_is_in(root: Path) -> None:
    inside = root / "vault"
    denied = DeniedPaths(hidden=(f"{root}/src/*.py", f"{root}/ci/**", f"{root}/none", f"{root}/**"))
    assert {*path_masks(inside, denied, Event()).hidden} == {root / "src" / "main.py", root / "ci"}


def test_too_many_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_masks_module, "MAX_MASKED_PATHS", 1)
    with pytest.raises(Invalid, match="deny folders"):
        found(root, hidden=("*.env",))
    monkeypatch.setattr(path_masks_module, "MAX_SCANNED_ENTRIES", 3)
    with pytest.raises(Invalid, match="work in a smaller one"):
        found(root, hidden=("none",))
