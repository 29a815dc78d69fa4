"""Snapshots of working folders: what a worker without a shared disk leaves behind, so that another one can go on.

    files, links, empty folders ──► entries with digests ──► stored once per digest and space ──► restored elsewhere

An entry never leads out of its folder: its path has the one normal form of `working_path`, and a link names, relative
to itself, a place inside. Both sides check that, because either may be hostile.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.instant import Instant
from holdfast.domain.working_path import WORKING_ROOT, parse_working_path, split_path

MAX_SNAPSHOT_ENTRIES: Final = 10_000
MAX_SNAPSHOT_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_SNAPSHOT_BYTES: Final = 256 * 1024 * 1024
MAX_LINK_CHARS: Final = 1_024
CONFLICTS_FOLDER: Final = "conflicts"
"""Where the later of two versions of a file is kept, in a folder with the id of its run."""

_DIGEST_CHARS: Final = frozenset("0123456789abcdef")


class SnapshotKind(StrEnum):
    """The kind of an entry."""

    FILE = "file"
    LINK = "link"
    """A symbolic link."""
    FOLDER = "folder"
    """A folder without entries; others exist by the paths of their entries."""


class SnapshotEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An entry of a working folder."""

    path: str
    kind: SnapshotKind = SnapshotKind.FILE
    digest: str = ""
    """SHA-256 of the content of a file, in hexadecimal digits."""
    size: int = 0
    executable: bool = False
    target: str = ""
    """Where a link leads, relative to its folder."""


class FolderState(msgspec.Struct, frozen=True, kw_only=True):
    """A working folder as the control plane knows it."""

    version: int
    """Increases with every change; 0 has no snapshot."""
    kept: bool
    """Whether the place that asks holds this version, and nobody has used the folder elsewhere since."""
    entries: Sequence[SnapshotEntry] = ()
    """All entries, unless the place keeps them."""
    saved_at: Instant | None = None
    unsaved: bool = False
    """Whether another place used the folder after the snapshot and has not saved it: its changes are not here."""


class FolderChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changed in a working folder since the version `base`."""

    base: int
    changed: Sequence[SnapshotEntry] = ()
    removed: Sequence[str] = ()


class SavedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The result of saving changes."""

    version: int
    current: bool
    """Whether the folder of the caller is that version: nobody else saved anything since its `base`."""
    conflicts: Sequence[str] = ()
    """Paths that were also changed elsewhere since `base`: the caller's version is in `conflicts/<run>/<path>`."""


def check_entry(entry: SnapshotEntry) -> None:
    """Raise `Invalid` unless the entry stays in its folder."""
    check_snapshot_path(entry.path)
    is_file = entry.kind is SnapshotKind.FILE
    if is_file != bool(entry.digest) or (is_file and not is_digest(entry.digest)):
        raise Invalid(f"`{entry.path}` needs a SHA-256 digest if and only if it is a file", field="digest")
    if entry.size < 0 or (entry.size and not is_file) or (entry.executable and not is_file):
        raise Invalid(f"`{entry.path}`: only a file has a size and may be executable", field="size")
    if entry.size > MAX_SNAPSHOT_FILE_BYTES:
        raise TooLarge(
            f"`{entry.path}` has {entry.size} bytes, and a snapshot takes {MAX_SNAPSHOT_FILE_BYTES} per file"
        )
    if (entry.kind is SnapshotKind.LINK) != bool(entry.target):
        raise Invalid(f"`{entry.path}` needs a target if and only if it is a link", field="target")
    if entry.target and not is_inner_link(entry.path, entry.target):
        raise Invalid(f"the link `{entry.path}` leads out of its folder", field="target")


def check_snapshot_path(path: str) -> None:
    """Raise `Invalid` unless the path has its normal form and is not the folder itself."""
    if parse_working_path(path) != path or path == WORKING_ROOT:
        raise Invalid(f"`{path[:255]}` is not the normal form of a path in a folder", field="path")


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 digest."""
    return len(text) == 64 and _DIGEST_CHARS.issuperset(text)


def is_inner_link(path: str, target: str) -> bool:
    """Return whether a link leads, by its words alone, to a place inside the folder."""
    if target.startswith("/") or len(target) > MAX_LINK_CHARS:
        return False
    depth = path.count("/")
    for part in target.split("/"):
        depth += 0 if part in ("", ".") else -1 if part == ".." else 1
        if depth < 0:
            return False
    try:
        parse_working_path(f"{path.rpartition('/')[0]}/{target}".lstrip("/"))
    except Invalid:
        return False
    return True


def check_tree(entries: Iterable[SnapshotEntry]) -> None:
    """Raise unless the entries fit together into one folder within the limits."""
    paths: set[str] = set()
    bytes_in_all = 0
    for entry in entries:
        check_entry(entry)
        if entry.path in paths:
            raise Invalid(f"`{entry.path}` is there twice", field="path")
        paths.add(entry.path)
        bytes_in_all += entry.size
    if len(paths) > MAX_SNAPSHOT_ENTRIES:
        raise TooLarge(f"the working folder has {len(paths)} entries, and a snapshot takes {MAX_SNAPSHOT_ENTRIES}")
    if bytes_in_all > MAX_SNAPSHOT_BYTES:
        raise TooLarge(f"the working folder has {bytes_in_all} bytes, and a snapshot takes {MAX_SNAPSHOT_BYTES}")
    for path in paths:
        blocking = next((each for each in parents(path) if each in paths), None)
        if blocking is not None:
            raise Invalid(f"`{path}` is in `{blocking}`, which is not a folder", field="path")


def parents(path: str) -> Iterable[str]:
    """Yield the folders that a path is in, the nearest first."""
    folder, _ = split_path(parse_working_path(path))
    while folder != WORKING_ROOT:
        yield folder
        folder, _ = split_path(folder)
