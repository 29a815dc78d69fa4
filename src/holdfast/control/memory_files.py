"""Memory files in the folder `memory` of a workspace, and in a folder of its own for each other space."""

import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import log
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from holdfast.domain.errors import Conflict, Invalid, MemoryFileChanged, NotFound, TooLarge
from holdfast.domain.ids import SpaceId
from holdfast.domain.memory_file import (
    MAX_FILE_HITS,
    MAX_MEMORY_FILE_BYTES,
    MAX_MEMORY_FILES,
    MAX_MEMORY_PATH_PARTS,
    MemoryFile,
    MemoryFileChange,
    MemoryFileHit,
    MemoryFileInfo,
    MemoryPath,
    WriteMode,
    apply_change,
    check_etag,
    memory_path,
    owner_of,
    to_memory_file,
)
from holdfast.domain.recall import RecallQuery, check_recall_query
from holdfast.domain.working_folder import memory_folder
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path, is_valid_name
from holdfast.memory.analyser import terms
from holdfast.ports.memory import MemoryFiles, Recall
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import Spaces
from holdfast.ports.tools import EntryKind, FileSnapshot, WorkingFolder, WorkingFolders
from holdfast.tools.thread_pool import run_in_thread

MAX_WRITE_TRIES: Final = 20
"""Tries of a change while others change the same file."""
_WRITE_MARK: Final = f"memory-{os.getpid()}"
MAX_KEPT_FILES: Final = 256
"""Files whose text stays in memory for the next run."""
MIN_KEPT_AGE_MS: Final = 1_000
"""A file that was changed later than this may change again within the same time of change: it is read again."""
_write_lock: Final = Lock()
"""Held while this process writes a memory file: an earlier attempt with the same mark is thought to be lost."""
_Result = TypeVar("_Result")


class _KeptFile(NamedTuple):
    """A file as it was read, with its stamp; without one it must be read again."""

    file: MemoryFile
    stamp: tuple[int, ...] | None


class FolderMemoryFiles:
    """`MemoryFiles` in folders."""

    def __init__(self, folders: WorkingFolders, clock: Clock) -> None:
        self._folders = folders
        self._clock = clock
        self._kept: OrderedDict[tuple[SpaceId, MemoryPath], _KeptFile] = OrderedDict()

    async def all(self, space: SpaceId) -> list[MemoryFileInfo]:
        """Return the files of the space and its agents, by path."""

        def read(folder: WorkingFolder) -> list[MemoryFileInfo]:
            return [
                MemoryFileInfo(path=file.path, size=len(file.text.encode()), etag=file.etag) for file in _files(folder)
            ]

        return await self._read_in_folder(space, read, missing=[])

    async def texts(self, space: SpaceId) -> list[MemoryFile]:
        """Return the files with their texts."""
        return await self._read_in_folder(space, lambda folder: list(_files(folder)), missing=[])

    async def get(self, space: SpaceId, path: MemoryPath) -> MemoryFile:
        """Return a file."""
        file = await self._read_in_folder(space, lambda folder: _read(folder, path)[1], missing=None)
        if file is None:
            raise NotFound(f"there is no memory file `{path}`", path=path)
        return file

    async def get_many(self, space: SpaceId, paths: Sequence[MemoryPath]) -> list[MemoryFile]:
        """Return the files that exist and can be read; those that have not changed since are not read again."""
        folder = memory_folder(space)
        stamps = {path: self._folders.stamp(folder, WorkingPath(path)) for path in paths}
        found: dict[MemoryPath, MemoryFile] = {}
        for path, stamp in stamps.items():
            kept = self._kept.pop((space, path), None)
            if kept is not None and stamp == kept.stamp:
                self._kept[space, path], found[path] = kept, kept.file
        changed = [path for path, stamp in stamps.items() if stamp is not None and path not in found]

        settled = 1_000_000 * (self._clock.now() - MIN_KEPT_AGE_MS)

        def read(folder: WorkingFolder) -> list[_KeptFile]:
            return [kept for path in changed if (kept := _read_to_keep(folder, path, settled=settled)) is not None]

        fresh: list[_KeptFile] = []
        if changed:
            fresh = await self._read_in_folder(space, read, missing=fresh)
        for kept in fresh:
            found[kept.file.path] = kept.file
            if kept.stamp is not None:
                self._kept[space, kept.file.path] = kept
        while len(self._kept) > MAX_KEPT_FILES:
            self._kept.popitem(last=False)
        return [found[path] for path in paths if path in found]

    async def change(self, space: SpaceId, path: MemoryPath, change: MemoryFileChange) -> MemoryFile:
        """Make a change, again if somebody else changes the file meanwhile."""

        def write(folder: WorkingFolder) -> MemoryFile:
            for _ in range(MAX_WRITE_TRIES):
                snapshot, current = _read(folder, path)
                text = apply_change(path, current, change)
                if current is not None and text == current.text:
                    return current
                if current is None and len(list(_paths(folder))) >= MAX_MEMORY_FILES:
                    raise TooLarge(f"a space may have at most {MAX_MEMORY_FILES} memory files: delete one first")
                content = text.encode()
                with suppress(Conflict), _write_lock:
                    folder.write(
                        WorkingPath(path), content, replacing=snapshot, mark=_WRITE_MARK, before_rename=lambda: None
                    )
                    return to_memory_file(path, content)
            raise MemoryFileChanged(f"`{path}` is being changed by others: try again", path=path)

        return await self._in_folder(space, write)

    async def delete(self, space: SpaceId, path: MemoryPath, *, etag: str | None = None) -> None:
        """Delete a file."""

        def delete(folder: WorkingFolder) -> None:
            snapshot, current = _read(folder, path)
            if snapshot is None or current is None:
                raise NotFound(f"there is no memory file `{path}`", path=path)
            if etag is not None and etag != current.etag:
                raise MemoryFileChanged(f"`{path}` has changed since it was read: read it again", path=path)
            folder.delete(WorkingPath(path), expected=snapshot)

        try:
            await self._in_folder(space, delete, create=False)
        except NotFound as exc:
            raise NotFound(f"there is no memory file `{path}`", path=path) from exc

    async def search(
        self, space: SpaceId, query: str, *, owners: Sequence[str | None] | None = None, limit: int = 10
    ) -> list[MemoryFileHit]:
        """Return the lines that share the rarest terms with the query."""
        check_recall_query(RecallQuery(text=query))
        if not 1 <= limit <= MAX_FILE_HITS:
            raise Invalid(f"`limit` must be between 1 and {MAX_FILE_HITS}", field="limit")

        def search(folder: WorkingFolder) -> list[MemoryFileHit]:
            return rank_lines(
                query, [file for file in _files(folder) if owners is None or owner_of(file.path) in owners]
            )

        hits: list[MemoryFileHit] = await self._read_in_folder(space, search, missing=[])
        return hits[:limit]

    async def _read_in_folder(
        self, space: SpaceId, work: Callable[[WorkingFolder], _Result], *, missing: _Result
    ) -> _Result:
        """Return the result of reading, or `missing` if the space has no memory files yet."""
        try:
            return await self._in_folder(space, work, create=False)
        except NotFound:
            return missing

    async def _in_folder(
        self, space: SpaceId, work: Callable[[WorkingFolder], _Result], *, create: bool = True
    ) -> _Result:
        def run(_: object) -> _Result:
            with self._folders.open(memory_folder(space), create=create) as folder:
                return work(folder)

        return await run_in_thread(run)


class MemoryFileIndex:
    """Lets recall find the memory files as they are on disk, whoever wrote them."""

    def __init__(self, files: FolderMemoryFiles, recall: Recall, clock: Clock) -> None:
        self._files = files
        self._recall = recall
        self._clock = clock
        self._etags: dict[tuple[SpaceId, str], str] = {}

    async def refresh(self, space: SpaceId) -> None:
        """Give recall the files that have changed since it got them, and take away those that are gone."""
        files = {file.path: file for file in await self._files.texts(space)}
        known = set(await self._recall.files(space))
        for path in known - files.keys():
            await self._recall.drop_file(space, path)
        for path, file in files.items():
            if path not in known or self._etags.get((space, path)) != file.etag:
                await self._recall.put_file(space, path, file.text, at=self._clock.now())
                self._etags[space, path] = file.etag


class MemoryFileControl:
    """Commands and queries for memory files, for people. A space that does not exist has none (`NotFound`)."""

    def __init__(self, files: MemoryFiles, spaces: Spaces) -> None:
        self._files = files
        self._spaces = spaces

    async def all(self, space: SpaceId) -> list[MemoryFileInfo]:
        """Return the files of the space and its agents, by path."""
        await self._spaces.get(space)
        return await self._files.all(space)

    async def get(self, space: SpaceId, path: MemoryPath) -> MemoryFile:
        """Return a file."""
        await self._spaces.get(space)
        return await self._files.get(space, path)

    async def search(self, space: SpaceId, query: str, *, limit: int) -> list[MemoryFileHit]:
        """Return the lines that match best."""
        await self._spaces.get(space)
        return await self._files.search(space, query, limit=limit)

    async def replace(self, space: SpaceId, path: MemoryPath, text: str, *, tags: Sequence[str] = ()) -> MemoryFile:
        """Create a file, or replace its text, if it is one of those with these tags."""
        etag = await self._current_tag(space, path, tags)
        return await self._files.change(space, path, MemoryFileChange(text=text, mode=WriteMode.REPLACE, etag=etag))

    async def delete(self, space: SpaceId, path: MemoryPath, *, tags: Sequence[str] = ()) -> None:
        """Delete a file, if it is one of those with these tags."""
        await self._files.delete(space, path, etag=await self._current_tag(space, path, tags))

    async def _current_tag(self, space: SpaceId, path: MemoryPath, tags: Sequence[str]) -> str | None:
        """Return the tag that the file must still have when it is written; null if any will do."""
        await self._spaces.get(space)
        if not tags:
            return None
        current = None
        with suppress(NotFound):
            current = await self._files.get(space, path)
        check_etag(current, tags)
        return None if current is None else current.etag


def rank_lines(query: str, files: Iterable[MemoryFile]) -> list[MemoryFileHit]:
    """Return the lines that share a term with the query; the score is their share of the query, rare terms first."""
    wanted = set(terms(query))
    lines = [
        (file.path, number, line.strip(), wanted.intersection(terms(line)))
        for file in files
        for number, line in enumerate(file.text.splitlines(), start=1)
        if line.strip()
    ]
    found = Counter(term for *_, shared in lines for term in shared)
    weights = {term: log(1 + len(lines) / (1 + found[term])) for term in wanted}
    whole = sum(weights.values()) or 1.0
    hits = [
        MemoryFileHit(path=path, line=number, text=text, score=round(sum(weights[term] for term in shared) / whole, 4))
        for path, number, text, shared in lines
        if shared
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.path, hit.line))


def _paths(folder: WorkingFolder) -> Iterator[MemoryPath]:
    """Yield the paths of all memory files; other files, and links, are none."""
    pending = [WORKING_ROOT]
    while pending:
        current = pending.pop(0)
        listing = folder.list(current, max_entries=MAX_MEMORY_FILES * 2)
        for entry in listing.entries:
            path = child_path(current, entry.name)
            if entry.kind is EntryKind.FOLDER and path.count("/") < MAX_MEMORY_PATH_PARTS + 1:
                pending.append(path)
            elif entry.kind is EntryKind.FILE and is_valid_name(entry.name):
                with suppress(Invalid):
                    yield memory_path(path)


def _files(folder: WorkingFolder) -> Iterator[MemoryFile]:
    """Yield all memory files that can be read."""
    for path in _paths(folder):
        with suppress(TooLarge, Invalid):
            file = _read(folder, path)[1]
            if file is not None:
                yield file


def _read_to_keep(folder: WorkingFolder, path: MemoryPath, *, settled: int) -> _KeptFile | None:
    """Return a file that can be read: a person may have written anything."""
    with suppress(TooLarge, Invalid):
        snapshot, file = _read(folder, path)
        if snapshot is not None and file is not None:
            *_, modified, changed = snapshot.stamp
            return _KeptFile(file, snapshot.stamp if max(modified, changed) < settled else None)
    return None


def _read(folder: WorkingFolder, path: MemoryPath) -> tuple[FileSnapshot | None, MemoryFile | None]:
    try:
        snapshot = folder.read(WorkingPath(path), max_bytes=MAX_MEMORY_FILE_BYTES)
    except NotFound:
        return None, None
    return snapshot, to_memory_file(path, snapshot.content)
