"""Snapshots of working folders in SQL: entries by path, each with the version that changed it last.

So changes since an older version merge without a history: what was changed later by somebody else is newer than the
base, and both are kept.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, LeaseLost, NotFound
from holdfast.domain.folder_snapshot import (
    CONFLICTS_FOLDER,
    FolderChanges,
    FolderState,
    SavedFolder,
    SnapshotEntry,
    SnapshotKind,
    check_entry,
    check_snapshot_path,
    check_tree,
    parents,
)
from holdfast.domain.instant import maybe_instant
from holdfast.store.transaction import Row, SqlPort, Transaction, reads, writes


class SqlFolders(SqlPort):
    """Implements `FolderSnapshots`."""

    @writes
    async def open(self, tx: Transaction, lease: Lease, folder: str, *, place: str, version: int) -> FolderState:
        """Note that a place uses the folder."""
        row = await _lock_folder(tx, lease, folder)
        await tx.run("use_folder", folder_key=row["folder_key"], place=place)
        await tx.run("prefer_owner", run_key=lease.run_key, lease_number=lease.number)
        elsewhere = row["place"] != place
        kept = not elsewhere and row["version"] == version
        entries = [] if kept else await tx.all("folder_entries", folder_key=row["folder_key"])
        return FolderState(
            version=row["version"],
            kept=kept,
            entries=list(map(_to_entry, entries)),
            saved_at=maybe_instant(row["saved_at"]),
            unsaved=bool(row["unsaved"]) and elsewhere,
        )

    @writes
    async def stage(self, tx: Transaction, lease: Lease, digests: Sequence[str]) -> list[str]:
        """Hold contents that are there, and return the digests of the others."""
        await _check_lease(tx, lease)
        missing = []
        for digest in dict.fromkeys(digests):
            row = await tx.one("held_blob", space_key=lease.space_key, digest=digest)
            if row is None:
                missing.append(digest)
            else:
                await tx.run("stage_blob", run_key=lease.run_key, blob_key=row["blob_key"])
        return missing

    @writes
    async def upload(self, tx: Transaction, lease: Lease, contents: Sequence[bytes]) -> None:
        """Store contents, and hold them."""
        await _check_lease(tx, lease)
        for content in contents:
            digest = sha256(content).hexdigest()
            blob = await tx.one(
                "add_blob", space_key=lease.space_key, digest=digest, size=len(content), content=content
            )
            assert blob is not None
            await tx.run("stage_blob", run_key=lease.run_key, blob_key=blob["blob_key"])

    @writes
    async def save(
        self, tx: Transaction, lease: Lease, folder: str, changes: FolderChanges, *, place: str, in_use: bool = False
    ) -> SavedFolder:
        """Apply changes to the snapshot."""
        row = await _lock_folder(tx, lease, folder)
        changed = bool(changes.changed or changes.removed)
        version = row["version"] + 1 if changed else row["version"]
        conflicts: list[str] = []
        if changed:
            merge = _Merge(lease, changes, await tx.all("folder_entries", folder_key=row["folder_key"]))
            conflicts = merge.conflicts
            await _store_changes(tx, lease, row["folder_key"], merge, version=version)
        await tx.run(
            "save_folder",
            folder_key=row["folder_key"],
            version=version,
            place=place,
            in_use=int(in_use),
            now=tx.now,
        )
        current = row["version"] == changes.base and not conflicts
        return SavedFolder(version=version, current=current, conflicts=conflicts)

    @reads
    async def download(self, tx: Transaction, lease: Lease, folder: str, digests: Sequence[str]) -> list[bytes]:
        """Return contents of the folder's files."""
        await _check_lease(tx, lease)
        row = await tx.one("folder", space_key=lease.space_key, name=folder)
        contents = []
        for digest in digests:
            found = row and await tx.one("folder_content", folder_key=row["folder_key"], digest=digest)
            if found is None:
                raise NotFound(f"the working folder has no content `{digest}` any more", digest=digest)
            contents.append(bytes(found["content"]))
        return contents


class _Merge:
    """The entries to put and to drop, after changes were compared with what others saved since their base."""

    def __init__(self, lease: Lease, changes: FolderChanges, rows: Sequence[Row]) -> None:
        stored = {row["path"]: row for row in rows}
        tree = {path: _to_entry(row) for path, row in stored.items()}
        self.put: dict[str, SnapshotEntry] = {}
        self.conflicts: list[str] = []
        for path in changes.removed:
            check_snapshot_path(path)
        self.drop = [path for path in changes.removed if path in stored and stored[path]["version"] <= changes.base]
        for path in self.drop:
            del tree[path]
        others = {path for path, row in stored.items() if row["version"] > changes.base}
        folders_of_others = {folder for path in others for folder in parents(path)}
        for entry in changes.changed:
            check_entry(entry)
            path = entry.path
            if tree.get(path) == entry:
                continue
            if path in others or path in folders_of_others or others.intersection(parents(path)):
                if not (entry.kind is SnapshotKind.FOLDER and path in folders_of_others):
                    self.conflicts.append(path)
                    self._put(tree, _moved_aside(entry, lease))
                continue
            self._put(tree, entry)
        for path in [each for each, entry in tree.items() if entry.kind is SnapshotKind.FOLDER]:
            if any(path in parents(other) for other in self.put):  # it is not empty any more
                del tree[path]
                self.drop.append(path)
                self.put.pop(path, None)
        check_tree(tree.values())
        self.gone = {row["blob_key"] for path, row in stored.items() if path in self.drop or path in self.put}

    def _put(self, tree: dict[str, SnapshotEntry], entry: SnapshotEntry) -> None:
        tree[entry.path] = self.put[entry.path] = entry


def _moved_aside(entry: SnapshotEntry, lease: Lease) -> SnapshotEntry:
    path = f"{CONFLICTS_FOLDER}/{lease.run_id}/{entry.path}"
    if entry.kind is SnapshotKind.LINK:  # from there it would lead elsewhere, perhaps outside
        return SnapshotEntry(path=path, kind=SnapshotKind.FOLDER)
    return SnapshotEntry(path=path, kind=entry.kind, digest=entry.digest, size=entry.size, executable=entry.executable)


async def _store_changes(tx: Transaction, lease: Lease, folder_key: int, merge: _Merge, *, version: int) -> None:
    staged = {row["digest"]: row for row in await tx.all("staged_blobs", run_key=lease.run_key)}
    for path in merge.drop:
        await tx.run("drop_folder_entry", folder_key=folder_key, path=path)
    for entry in merge.put.values():
        await tx.run(
            "put_folder_entry",
            folder_key=folder_key,
            path=entry.path,
            version=version,
            kind=entry.kind.value,
            executable=int(entry.executable),
            target=entry.target,
            blob_key=_blob_of(entry, staged),
        )
    await tx.run("drop_staged_blobs", run_key=lease.run_key)
    unused = {row["blob_key"] for row in staged.values()} | merge.gone
    for blob in sorted(key for key in unused if key is not None):
        await tx.run("drop_unused_blob", blob_key=blob)


def _blob_of(entry: SnapshotEntry, staged: Mapping[str, Row]) -> int | None:
    if entry.kind is not SnapshotKind.FILE:
        return None
    blob = staged.get(entry.digest)
    if blob is None:
        raise Conflict(f"the content of `{entry.path}` was not uploaded", path=entry.path, digest=entry.digest)
    if blob["size"] != entry.size:
        raise Conflict(f"`{entry.path}` has {blob['size']} bytes, not {entry.size}", path=entry.path)
    return int(blob["blob_key"])


async def _lock_folder(tx: Transaction, lease: Lease, name: str) -> Row:
    await _check_lease(tx, lease)
    row = await tx.one("add_folder", space_key=lease.space_key, name=name)
    assert row is not None
    return row


async def _check_lease(tx: Transaction, lease: Lease) -> None:
    head = await tx.one("folder_head", run_key=lease.run_key)
    if head is None or (head["lease_number"], head["space_key"]) != (lease.number, lease.space_key):
        raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)


def _to_entry(row: Row) -> SnapshotEntry:
    return SnapshotEntry(
        path=row["path"],
        kind=SnapshotKind(row["kind"]),
        digest=row["digest"] or "",
        size=row["size"] or 0,
        executable=bool(row["executable"]),
        target=row["target"],
    )
