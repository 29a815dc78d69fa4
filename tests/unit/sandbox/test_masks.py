"""What is denied is mounted from the top down, and cannot be reached by another way."""

from pathlib import Path

from holdfast.ports.sandbox import SandboxCommand
from holdfast.sandbox.bubblewrap import root_mounts


def mounted(root: Path, *, hidden: list[str] | None = None, kept: list[str] | None = None) -> list[str]:
    """Return what is mounted, in order, with paths relative to the root."""
    command = SandboxCommand(
        argv=["true"],
        root=root,
        folder=root,
        hidden=[root / name for name in hidden or ()],
        read_only=[root / name for name in kept or ()],
        timeout=1.0,
    )
    return [word.replace(str(root), "ROOT") for word in root_mounts(command)]


def test_a_folder_without_denials_is_mounted_as_it_is(tmp_path: Path) -> None:
    assert mounted(tmp_path) == ["--bind", "ROOT", "ROOT"]


def test_the_way_to_what_is_hidden_is_held_in_place(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert mounted(tmp_path, hidden=["a/b/.env"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--bind", "ROOT/a", "ROOT/a"),
        *("--bind", "ROOT/a/b", "ROOT/a/b"),
        *("--ro-bind", "/dev/null", "ROOT/a/b/.env"),
    ]


def test_what_is_beneath_something_kept_stays_so(tmp_path: Path) -> None:
    (tmp_path / "ci" / "deep").mkdir(parents=True)
    assert mounted(tmp_path, kept=["ci"], hidden=["ci/deep/key"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--ro-bind", "ROOT/ci", "ROOT/ci"),
        *("--ro-bind", "ROOT/ci/deep", "ROOT/ci/deep"),
        *("--ro-bind", "/dev/null", "ROOT/ci/deep/key"),
    ]


def test_a_hidden_folder_is_empty_and_nothing_beneath_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "vault" / "deep").mkdir(parents=True)
    assert mounted(tmp_path, hidden=["vault"], kept=["vault/deep"]) == [
        *("--bind", "ROOT", "ROOT"),
        *("--tmpfs", "ROOT/vault", "--remount-ro", "ROOT/vault"),
    ]


def test_all_of_it_may_be_hidden_or_kept(tmp_path: Path) -> None:
    assert mounted(tmp_path, hidden=["."]) == ["--tmpfs", "ROOT", "--remount-ro", "ROOT"]
    assert mounted(tmp_path, kept=["."]) == ["--ro-bind", "ROOT", "ROOT"]
