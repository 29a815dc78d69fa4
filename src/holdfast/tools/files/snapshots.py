"""Working folders of a worker without a shared disk: each is restored before a run uses it, and saved when it lets go.

    first call of a file tool ──► open: held here in this version? else restore from the snapshot
    the run lets go           ──► scan, upload new contents, save the changes

What a crash left behind is not mixed into a newer snapshot: it is put aside.
"""

import asyncio
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound, TooLarge
from holdfast.domain.events.custom import FolderNotice
from holdfast.domain.folder_snapshot import (
    CONFLICTS_FOLDER,
    MAX_SNAPSHOT_FILE_BYTES,
    FolderChanges,
    FolderState,
    SnapshotEntry,
    SnapshotKind,
    check_tree,
    is_inner_link,
)
from holdfast.domain.idempotency import derived_id
from holdfast.domain.working_path import (
    MAX_PATH_DEPTH,
    WORKING_ROOT,
    WorkingPath,
    child_path,
    is_outside_workspace,
    is_valid_name,
    parse_working_path,
)
from holdfast.ports.folders import FolderSnapshots, RestorableFolder, RestorableFolders, ScannedEntry
from holdfast.ports.tools import EntryKind
from holdfast.tools.files.walk import IGNORE_FILE, IgnoreRules, ignore_rules, is_ignored
from holdfast.tools.thread_pool import run_in_thread

SAVE_INTERVAL_SECONDS: Final = 10.0
"""A run that goes on for longer is saved between its tool calls."""
MAX_TRANSFER_BYTES: Final = 16 * 1024 * 1024
MAX_TRANSFER_FILES: Final = 500
MAX_SAVE_ATTEMPTS: Final = 3
MAX_NAMED_PATHS: Final = 5
NOT_RESTORED: Final = -1
"""The version of a folder that is no snapshot: its restoring was interrupted, or others changed the snapshot."""
_FOLDER_TOOLS: Final = frozenset(
    {"read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "bash", "create_artifact"}
)


class HeldEntry(msgspec.Struct, frozen=True):
    """An entry on disk, and what tells whether it has changed since."""

    entry: SnapshotEntry
    stamp: tuple[int, ...]


class HeldFolder(msgspec.Struct, frozen=True):
    """What a worker's disk holds of a folder: the version, and its entries when they were last the same."""

    version: int = 0
    entries: dict[str, HeldEntry] = {}


class WorkerFolders:
    """The working folders on the disk of a worker."""

    def __init__(self, folders: RestorableFolders, snapshots: FolderSnapshots, *, data_folder: Path) -> None:
        self._folders = folders
        self._snapshots = snapshots
        self._records = data_folder / "snapshots"
        self._records.mkdir(parents=True, exist_ok=True)
        self.place: Final = _place(data_folder / "place")
        self._shared: dict[str, _SharedFolder] = {}

    def of_run(self, lease: Lease) -> "RunFolder":
        """Return the working folder of a run; nothing is done before a tool uses it."""
        return RunFolder(self, self._snapshots, lease)

    def shared(self, name: str) -> "_SharedFolder":
        """Return a folder that runs of this worker share."""
        if name not in self._shared:
            record = self._records / f"{derived_id('folder', key=name)}.json"
            self._shared[name] = _SharedFolder(name, self._folders, record)
        return self._shared[name]


class _SharedFolder:
    """A folder on disk, whichever runs use it."""

    def __init__(self, name: str, folders: RestorableFolders, record: Path) -> None:
        self.name = name
        self.lock = asyncio.Lock()
        self.users = 0
        self._folders = folders
        self._record = record
        self.held = HeldFolder()
        with suppress(OSError, msgspec.DecodeError):
            self.held = msgspec.json.decode(record.read_bytes(), type=HeldFolder)

    async def scan(self) -> "Scan":
        """Return the present entries; contents are read only where something has changed."""

        def scan() -> "Scan":
            with self._folders.restorable(self.name) as folder:
                return Scan(folder, self.held.entries)

        return await run_in_thread(lambda _: scan())

    async def read(self, paths: Sequence[str]) -> list[bytes]:
        """Return the contents of files."""

        def read() -> list[bytes]:
            with self._folders.restorable(self.name) as folder:
                return [folder.content(WorkingPath(path), max_bytes=MAX_SNAPSHOT_FILE_BYTES) for path in paths]

        return await run_in_thread(lambda _: read())

    async def put(self, entries: Sequence[SnapshotEntry], contents: Sequence[bytes]) -> None:
        """Create or replace entries; `contents` are those of the files, in order."""

        def put() -> None:
            files = iter(contents)
            with self._folders.restorable(self.name) as folder:
                for entry in entries:
                    _put(folder, entry, files)

        await run_in_thread(lambda _: put())

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove entries."""

        def remove() -> None:
            with self._folders.restorable(self.name) as folder:
                for path in paths:
                    folder.remove(WorkingPath(path))

        await run_in_thread(lambda _: remove())

    async def put_aside(self) -> None:
        """Move everything away, to where people find it."""
        await run_in_thread(lambda _: self._folders.put_aside(self.name, content="changes that a crash left behind"))
        await self.keep(HeldFolder(NOT_RESTORED))

    async def keep(self, held: HeldFolder) -> None:
        """Record what the disk holds."""

        def write() -> None:
            new = self._record.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(held))
            new.replace(self._record)

        self.held = held
        await run_in_thread(lambda _: write())


class RunFolder:
    """The working folder of one run, under its lease."""

    def __init__(self, worker: WorkerFolders, snapshots: FolderSnapshots, lease: Lease) -> None:
        self._worker = worker
        self._snapshots = snapshots
        self._lease = lease
        self._folder: _SharedFolder | None = None
        self._saved_at = 0.0
        self._opened = asyncio.Lock()

    async def use(self, tool: str, name: str, *, is_command: bool) -> list[FolderNotice]:
        """Prepare the folder `name` for a tool that uses it, and return what the run has to know about it."""
        if self._folder is not None or is_outside_workspace(name) or not (is_command or tool in _FOLDER_TOOLS):
            return []
        async with self._opened:
            if self._folder is not None:
                return []
            folder = self._worker.shared(name)
            async with folder.lock:
                notices = await self._open(folder)
                folder.users += 1
            self._folder, self._saved_at = folder, asyncio.get_running_loop().time()
            return notices

    async def save_sometimes(self) -> list[FolderNotice]:
        """Save the folder if that was not done for a while."""
        due = self._saved_at + SAVE_INTERVAL_SECONDS
        if self._folder is None or asyncio.get_running_loop().time() < due:
            return []
        return await self.save()

    def close(self) -> None:
        """Stop using the folder, without saving it."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.users -= 1

    async def save(self, *, let_go: bool = False) -> list[FolderNotice]:
        """Save what changed, and return what people have to know about it."""
        folder = self._folder
        if folder is None:
            return []
        async with folder.lock:
            notices = await self._save(folder, in_use=not let_go or folder.users > 1)
        self._saved_at = asyncio.get_running_loop().time()
        if let_go:
            self.close()
        return notices

    async def _open(self, folder: _SharedFolder) -> list[FolderNotice]:
        held = folder.held
        state = await self._snapshots.open(self._lease, folder.name, place=self._worker.place, version=held.version)
        notices = list(_missing_changes(state, self._lease))
        if state.kept or folder.users or not (state.version or held.version):
            return notices
        if _entries(folder.held) != _entries(await folder.scan()):
            await folder.put_aside()
        await self._restore(folder, state)
        return notices

    async def _restore(self, folder: _SharedFolder, state: FolderState) -> None:
        """Make the folder what the snapshot says; entries that are the same already stay."""
        try:
            check_tree(state.entries)
        except HoldfastError as error:
            raise Invalid(f"the snapshot of the working folder is refused: {error.message}") from error
        await folder.keep(HeldFolder(NOT_RESTORED, folder.held.entries))
        wanted = {entry.path: entry for entry in state.entries}
        present = _entries(folder.held)
        await folder.remove([path for path, entry in present.items() if wanted.get(path) != entry])
        missing = [entry for path, entry in wanted.items() if present.get(path) != entry]
        for batch in _batches(missing):
            digests = [entry.digest for entry in batch if entry.kind is SnapshotKind.FILE]
            contents = await self._snapshots.download(self._lease, folder.name, digests) if digests else []
            if [sha256(content).hexdigest() for content in contents] != digests:
                raise Invalid("the snapshot of the working folder has other contents than it says")
            await folder.put(batch, contents)
        restored = await folder.scan()
        await folder.keep(HeldFolder(state.version, restored.entries))

    async def _save(self, folder: _SharedFolder, *, in_use: bool) -> list[FolderNotice]:
        for attempt in range(MAX_SAVE_ATTEMPTS):
            scan = await folder.scan()
            try:
                check_tree(held.entry for held in scan.entries.values())
            except TooLarge as error:
                remedy = "list what can be made again in `.gitignore`"
                text = f"{error.message}, so that it was not saved and stays on this worker: {remedy}"
                return [FolderNotice(state="not_saved", message=text)]
            changes = _changes(folder.held, scan)
            try:
                await self._upload(folder, changes.changed)
                saved = await self._snapshots.save(
                    self._lease, folder.name, changes, place=self._worker.place, in_use=in_use
                )
            except (Conflict, NotFound):  # a file changed while it was read: look again
                if attempt + 1 == MAX_SAVE_ATTEMPTS:
                    raise
                continue
            await folder.keep(HeldFolder(saved.version if saved.current else NOT_RESTORED, scan.entries))
            return [*_left_out(scan), *_conflicts(saved.conflicts, self._lease)]
        raise AssertionError("unreachable")

    async def _upload(self, folder: _SharedFolder, changed: Sequence[SnapshotEntry]) -> None:
        files = {entry.digest: entry for entry in changed if entry.kind is SnapshotKind.FILE}
        missing = set(await self._snapshots.stage(self._lease, list(files))) if files else set()
        for batch in _batches([entry for digest, entry in files.items() if digest in missing]):
            contents = await folder.read([entry.path for entry in batch])
            await self._snapshots.upload(self._lease, contents)


class Scan:
    """The present entries of a folder, and what a snapshot cannot take, with the reason."""

    def __init__(self, folder: RestorableFolder, known: Mapping[str, HeldEntry]) -> None:
        """Scan a folder without what `.gitignore` excludes; files that are as `known` says are not read."""
        self._folder = folder
        self._known = known
        self.entries: dict[str, HeldEntry] = {}
        self.left_out: dict[str, list[str]] = {}
        self._scan(WORKING_ROOT, [])

    def _scan(self, path: WorkingPath, rules: Sequence[IgnoreRules]) -> None:
        entries = sorted(self._folder.scan(path), key=lambda entry: entry.name)
        if any(entry.name == IGNORE_FILE for entry in entries):
            rules = [*rules, *ignore_rules(self._folder, path)]
        for entry in entries:
            child = child_path(path, entry.name)
            if not is_valid_name(entry.name):
                self._leave_out(ascii(child), "their names are not UTF-8 or have control characters")
            elif not is_ignored(child, rules, folder=entry.kind is EntryKind.FOLDER):
                self._add(child, entry, rules)

    def _add(self, path: WorkingPath, entry: ScannedEntry, rules: Sequence[IgnoreRules]) -> None:
        if entry.kind is EntryKind.FOLDER:
            self._add_folder(path, rules)
        elif entry.kind is EntryKind.FILE:
            self._add_file(path, entry)
        elif entry.kind is not EntryKind.LINK:
            self._leave_out(path, "they are neither files, folders nor links")
        elif not is_inner_link(path, entry.target):
            self._leave_out(path, "they are links that lead out of the folder")
        else:
            self.entries[path] = HeldEntry(SnapshotEntry(path=path, kind=SnapshotKind.LINK, target=entry.target), ())

    def _add_folder(self, path: WorkingPath, rules: Sequence[IgnoreRules]) -> None:
        if path.count("/") + 2 > MAX_PATH_DEPTH:
            return self._leave_out(path, f"they are more than {MAX_PATH_DEPTH} folders deep")
        before = len(self.entries)
        self._scan(path, rules)
        if len(self.entries) == before:
            self.entries[path] = HeldEntry(SnapshotEntry(path=path, kind=SnapshotKind.FOLDER), ())

    def _add_file(self, path: WorkingPath, entry: ScannedEntry) -> None:
        held = self._known.get(path)
        if held is not None and held.stamp == entry.stamp:
            self.entries[path] = held
        elif entry.size > MAX_SNAPSHOT_FILE_BYTES:
            self._leave_out(path, f"they have more than {MAX_SNAPSHOT_FILE_BYTES} bytes")
        else:
            with suppress(NotFound, TooLarge):  # it changes at this moment
                content = self._folder.content(path, max_bytes=MAX_SNAPSHOT_FILE_BYTES)
                digest = sha256(content).hexdigest()
                file = SnapshotEntry(path=path, digest=digest, size=len(content), executable=entry.executable)
                self.entries[path] = HeldEntry(file, entry.stamp)

    def _leave_out(self, path: str, reason: str) -> None:
        self.left_out.setdefault(reason, []).append(path)


def _entries(held: HeldFolder | Scan) -> dict[str, SnapshotEntry]:
    return {path: each.entry for path, each in held.entries.items()}


def _changes(held: HeldFolder, scan: Scan) -> FolderChanges:
    before, present = _entries(held), _entries(scan)
    return FolderChanges(
        base=max(held.version, 0),
        changed=[entry for path, entry in present.items() if before.get(path) != entry],
        removed=[path for path in before if path not in present],
    )


def _put(folder: RestorableFolder, entry: SnapshotEntry, files: Iterator[bytes]) -> None:
    path = parse_working_path(entry.path)
    if entry.kind is SnapshotKind.FILE:
        folder.put_file(path, next(files), executable=entry.executable)
    elif entry.kind is SnapshotKind.LINK:
        folder.put_link(path, entry.target)
    else:
        folder.put_folder(path)


def _batches(entries: Sequence[SnapshotEntry]) -> Iterator[list[SnapshotEntry]]:
    """Yield entries that are transferred together."""
    batch: list[SnapshotEntry] = []
    size = 0
    for entry in entries:
        if batch and (size + entry.size > MAX_TRANSFER_BYTES or len(batch) == MAX_TRANSFER_FILES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def _missing_changes(state: FolderState, lease: Lease) -> Iterator[FolderNotice]:
    if state.unsaved:
        since = "since its start" if state.saved_at is None else f"after {state.saved_at}"
        text = f"another worker used the working folder and could not save it: changes of files {since} may be missing"
        yield FolderNotice(state="unsaved", message=text)
    elif not (state.version or state.kept) and lease.run.base_run_id is not None:
        yield FolderNotice(
            state="missing", message="the working folder has no snapshot, so files of earlier runs may be missing"
        )


def _left_out(scan: Scan) -> Iterator[FolderNotice]:
    for reason, paths in scan.left_out.items():
        yield FolderNotice(
            state="left_out", message=f"not in the snapshot of the working folder: {_names(paths)}: {reason}"
        )


def _conflicts(paths: Sequence[str], lease: Lease) -> Iterator[FolderNotice]:
    if paths:
        where = f"{CONFLICTS_FOLDER}/{lease.run_id}"
        text = f"another run changed the same files, so this run's versions are in `{where}`: {_names(paths)}"
        yield FolderNotice(state="conflict", message=text)


def _names(paths: Sequence[str]) -> str:
    more = len(paths) - MAX_NAMED_PATHS
    return ", ".join(f"`{path}`" for path in paths[:MAX_NAMED_PATHS]) + (f" and {more} more" if more > 0 else "")


def _place(file: Path) -> str:
    """Return the name of this disk, which is made once."""
    with suppress(FileExistsError), file.open("x") as new:
        new.write(f"place-{secrets.token_hex(8)}")
    return file.read_text().strip()
