"""Writing files: never over content the model has not read, and never twice.

    the file already has the new content       done: an earlier attempt finished, or somebody did the same
    it is as the run knows it, or absent        written
    anything else                               refused

A run knows the digests of the files it last read or wrote, in its value `files`. Whether an interrupted edit happened
is certain: it did if reverting it gives the content with the known digest.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.working_path import WorkingPath
from holdfast.ports.tools import FileSnapshot, WorkingFolder
from holdfast.tools.files.diff import unified_diff
from holdfast.tools.files.text import MAX_FILE_BYTES, decode_file
from holdfast.tools.thread_pool import CancelFlag
from holdfast.tools.tool import ToolContext, ToolResult, encode_value


def read_if_exists(folder: WorkingFolder, path: WorkingPath) -> FileSnapshot | None:
    """Return the file, or nothing if there is none."""
    try:
        return folder.read(path, max_bytes=MAX_FILE_BYTES)
    except NotFound:
        return None


def known_digest_for(call: ToolContext, path: WorkingPath) -> str | None:
    """Return the digest under which the run knows a file."""
    return known_digest(call.values, call.agent.working_folder, path)


def check_known(call: ToolContext, path: WorkingPath, found: FileSnapshot) -> None:
    """Raise `Conflict` unless the run has read the file as it is now."""
    known = known_digest_for(call, path)
    if known is None:
        raise Conflict(f"`{path}` is there, and you have not read it: read it with `read_file` first", path=path)
    if digest(found.content) != known:
        raise Conflict(
            f"`{path}` has changed since you read it, perhaps by this very call, if it was cut off: "
            "read it again and see what it says now",
            path=path,
        )


def write_for_call(
    folder: WorkingFolder,
    call: ToolContext,
    path: WorkingPath,
    content: bytes,
    *,
    found: FileSnapshot | None,
    halt: CancelFlag,
) -> None:
    """Write a file in the name of a call; once the call is cancelled, nothing is written any more."""
    mark = sha256(call.key.encode()).hexdigest()[:16]
    folder.write(path, content, replacing=found, mark=mark, before_rename=_fail_if_cancelled(halt))


def written_result(
    call: ToolContext, path: WorkingPath, *, before: bytes | None, after: bytes, **more: Json
) -> ToolResult:
    """Return the outcome of a call that made a file, or changed it from `before`."""
    action = FileAction.CREATED if before is None else FileAction.CHANGED
    was = UNSET if before is None else digest(before)
    return _file_result(call, path, action, after, was=was, diff=_diff_or_unset(before or b"", after, path), **more)


def unchanged_result(call: ToolContext, path: WorkingPath, content: bytes) -> ToolResult:
    """Return the outcome of a call that found a file as it would have made it."""
    return _file_result(call, path, FileAction.FOUND, content, was=known_digest_for(call, path) or UNSET)


def _file_result(
    call: ToolContext,
    path: WorkingPath,
    action: FileAction,
    content: bytes,
    *,
    was: str | UnsetType,
    diff: str | UnsetType = UNSET,
    **more: Json,
) -> ToolResult:
    event = FileChanged(
        path=path,
        action=action,
        size=len(content),
        digest_before=was,
        digest_after=digest(content),
        diff=diff,
        tool_call_id=call.id,
    )
    return ToolResult(
        content={"path": path, "action": str(action), "size": len(content), **more},
        events=[event],
        revisions=remember_digest(call.agent.working_folder, path, event.digest_after),
    )


def _diff_or_unset(before: bytes, after: bytes, path: WorkingPath) -> str | UnsetType:
    """Return what changed, unless one of them is no text."""
    try:
        return unified_diff(decode_file(before, path).text, decode_file(after, path).text, path=path)
    except Invalid:
        return UNSET


def _fail_if_cancelled(halt: CancelFlag) -> Callable[[], None]:
    def check() -> None:
        if halt.is_set():
            raise Conflict("the call was cancelled before anything was written")

    return check


FILES_VALUE: Final = "files"
MAX_KNOWN_FILES: Final = 256
"""Files; of more, those that were read or written last are known."""


class KnownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a run knows it."""

    path: str
    digest: str


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run knows, the latest last, and in which working folder."""

    folder: str
    files: tuple[KnownFile, ...] = ()


def known_digest(values: Mapping[str, Json], folder: str, path: WorkingPath) -> str | None:
    """Return the digest under which the run knows a file."""
    known = _read_known_files(values.get(FILES_VALUE), folder)
    return next((file.digest for file in known.files if file.path == path), None)


def remember_digest(folder: str, path: WorkingPath, digest: str) -> dict[str, Callable[[Json], Json]]:
    """Return the revision of a run's values by which it knows a file."""

    def revise(value: Json) -> Json:
        others = [file for file in _read_known_files(value, folder).files if file.path != path]
        files = (*others, KnownFile(path=path, digest=digest))[-MAX_KNOWN_FILES:]
        return encode_value(KnownFiles(folder=folder, files=files))

    return {FILES_VALUE: revise}


def _read_known_files(value: Json, folder: str) -> KnownFiles:
    try:
        found = msgspec.convert(value, KnownFiles)
    except msgspec.ValidationError:
        return KnownFiles(folder=folder)  # there is none yet, or nothing that we wrote: what is not known is read again
    return found if found.folder == folder else KnownFiles(folder=folder)


MAX_HASHED_BYTES: Final = 256 * 1024 * 1024
"""Bytes that may be hashed to find the place of an edit."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return sha256(content).hexdigest()


def replace_passage(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """Return `text` with `new` in the place of `old`, and how often; one place is meant unless it is `everywhere`."""
    if old == new:
        raise Invalid("`old` and `new` are the same: there is nothing to change", field="new")
    first = text.find(old)
    if first < 0:
        raise NotFound("`old` is not in the file: give it exactly as the file has it, without line numbers")
    if not everywhere and text.rfind(old) != first:
        raise Conflict("`old` is in the file more than once: give more of what is around it, or set `replace_all`")
    return text.replace(old, new), text.count(old)


def content_before_edit(content: bytes, old: bytes, new: bytes, *, everywhere: bool, known: str) -> bytes | None:
    """Return the content with the digest `was` in which an edit made `content`, or nothing if that cannot be found."""
    if everywhere:
        before = content.replace(new, old) if new else content
        return before if digest(before) == known else None
    budget = MAX_HASHED_BYTES
    for place in _occurrences(content, new):
        before = content[:place] + old + content[place + len(new) :]
        budget -= len(before)
        if budget < 0:
            return None
        if digest(before) == known:
            return before
    return None


def _occurrences(content: bytes, new: bytes) -> Iterator[int]:
    place = content.find(new)
    while place >= 0:
        yield place
        place = content.find(new, place + 1)
