"""Mounts of hidden and read-only paths: parents first, and no renamed parent leads to them."""

from pathlib import Path

from holdfast.ports.sandbox import SandboxCommand
from holdfast.sandbox.bubblewrap import root_mounts


def mounted(root: Path, *, hidden: list[str] | None = None, read_only: list[str] | None = None) -> list[str]:
    """Return the mount options in order, with the root written as `ROOT`."""
    command = SandboxCommand(
        argv=["true"],
        root=root,
        folder=root,
        hidden=[root / name for name in hidden or ()],
        read_only=[root / name for name in read_only or ()],
        timeout=1.0,
    )
    return [word.replace(str(root), "ROOT") for word in root_mounts(command)]


def test_a_folder_without_rules_is_mounted_writable(tmp_path: Path) -> None:
    assert mounted(tmp_path) == ["--bind", "ROOT", "ROOT"]


def test_every_parent_of_a_hidden_path_is_mounted_on_itself(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert mounted(tmp_path, hidden=["a/b/.env"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--bind", "ROOT/a", "ROOT/a"),
        *("--bind", "ROOT/a/b", "ROOT/a/b"),
        *("--ro-bind", "/dev/null", "ROOT/a/b/.env"),
    ]


def test_paths_beneath_a_read_only_one_are_read_only(tmp_path: Path) -> None:
    (tmp_path / "ci" / "deep").mkdir(parents=True)
    assert mounted(tmp_path, read_only=["ci"], hidden=["ci/deep/key"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--ro-bind", "ROOT/ci", "ROOT/ci"),
        *("--ro-bind", "ROOT/ci/deep", "ROOT/ci/deep"),
        *("--ro-bind", "/dev/null", "ROOT/ci/deep/key"),
    ]


def test_a_hidden_folder_is_empty_and_needs_no_mounts_beneath_it(tmp_path: Path) -> None:
    (tmp_path / "vault" / "deep").mkdir(parents=True)
    assert mounted(tmp_path, hidden=["vault"], read_only=["vault/deep"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--tmpfs", "ROOT/vault", "--remount-ro", "ROOT/vault"),
    ]


def test_the_root_itself_may_be_hidden_or_read_only(tmp_path: Path) -> None:
    assert mounted(tmp_path, hidden=["."]) == ["--tmpfs", "ROOT", "--remount-ro", "ROOT"]
    assert mounted(tmp_path, read_only=["."]) == ["--ro-bind", "ROOT", "ROOT"]
