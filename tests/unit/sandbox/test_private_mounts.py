"""Private mounts of a command: parents first, and no moved parent gives a masked path another name."""

from pathlib import Path

from holdfast.ports.sandbox import SandboxCommand
from holdfast.sandbox.bubblewrap import bubblewrap_arguments, private_mounts
from holdfast.sandbox.private_mounts import PrivateMount, trees

ROOT = Path("/ws/files")


def planned(
    *,
    hidden: list[str] | None = None,
    read_only: list[str] | None = None,
    readable: list[str] | None = None,
    home: str | None = None,
) -> list[str]:
    """Return the mounts in order; paths are relative to the workspace `/ws`."""
    command = SandboxCommand(
        argv=["true"],
        root=ROOT,
        folder=ROOT,
        home=None if home is None else Path("/ws", home),
        hidden=[Path("/ws", name) for name in hidden or ()],
        read_only=[Path("/ws", name) for name in read_only or ()],
        readable=[Path("/ws", name) for name in readable or ()],
        timeout=1.0,
    )
    mounts = private_mounts(command, workspace=Path("/ws"))
    return [f"{mount.kind} {mount.path.removeprefix('/ws/')}" for mount in mounts]


def test_a_folder_without_rules_is_mounted_writable() -> None:
    assert planned() == ["writable files"]


def test_every_parent_of_a_hidden_path_is_pinned() -> None:
    assert planned(hidden=["files/a/b/.env"]) == [
        *("writable files", "pinned files/a", "pinned files/a/b", "hidden files/a/b/.env")
    ]


def test_a_hidden_path_in_a_read_only_folder_is_mounted_after_it() -> None:
    assert planned(read_only=["files/ci"], hidden=["files/ci/deep/key"]) == [
        *("writable files", "read_only files/ci", "pinned files/ci/deep", "hidden files/ci/deep/key")
    ]


def test_a_hidden_folder_needs_no_mounts_beneath_it() -> None:
    assert planned(hidden=["files/vault"], read_only=["files/vault/deep"]) == ["writable files", "hidden files/vault"]


def test_the_root_itself_may_be_hidden_or_read_only() -> None:
    assert planned(hidden=["files"]) == ["hidden files"]
    assert planned(read_only=["files"]) == ["read_only files"]


def test_links_are_followed_only_outside_of_the_workspace() -> None:
    assert planned(readable=["server", "/opt/tool"]) == ["linked /opt/tool", "writable files", "readable server"]


def test_a_path_that_is_visible_anyway_is_not_mounted_again() -> None:
    assert planned(readable=["files/a", "/opt", "/opt/tool"], home="files/home") == ["linked /opt", "writable files"]
    assert planned(home="files") == ["writable files"]


def test_a_root_in_a_readable_folder_is_a_part_of_its_tree() -> None:
    mounts = [PrivateMount("linked", "/ws"), PrivateMount("writable", "/ws/files"), PrivateMount("linked", "/ws2")]
    assert trees(mounts) == {0: "/ws", 2: "/ws2"}


def test_bubblewrap_gets_no_path_in_a_private_mount(tmp_path: Path) -> None:
    hidden = [ROOT / "vault" / "key", tmp_path]
    command = SandboxCommand(argv=["true"], root=ROOT, folder=ROOT, hidden=hidden, timeout=1.0)
    words = bubblewrap_arguments(command, private_mounts(command))
    assert [word for word in words if word.startswith("/ws/")] == ["/ws/files", "/ws/files"]  # its place, and `--chdir`
    assert words[words.index(str(tmp_path)) - 1] == "--tmpfs"


def test_a_mount_survives_a_round_trip() -> None:
    mount = PrivateMount("hidden", "/a b/\udcff", (7, 9))
    assert PrivateMount.decode(mount.encode().encode(errors="surrogateescape")) == mount
