"""Writing files: never over content that the model has not read, and never twice.

    the file already has the new content       done: an earlier attempt finished, or somebody did the same
    it is as the run knows it, or absent        written
    anything else                               refused

A run knows the digests of the files it last read or wrote, in its value `files`. Whether an interrupted edit happened
is certain: it did if reverting it gives the content with the known digest.
"""

from collections.abc import Callable, Mapping
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
from holdfast.tools.files.text import decode_file
from holdfast.tools.thread_pool import CancelFlag
from holdfast.tools.tool import ToolContext, ToolResult, encode_value


def check_known(call: ToolContext, path: WorkingPath, existing: FileSnapshot) -> None:
    """Raise `Conflict` unless the run has read the file with its current content."""
    known = known_digest(call.values, call.working_folder, path)
    if known is None:
        raise Conflict(f"`{path}` exists, and you have not read it: read it with `read_file` first", path=path)
    if digest(existing.content) != known:
        raise Conflict(
            f"`{path}` has changed since you read it, perhaps by this very call, if it was interrupted: "
            "read it again and see what it says now",
            path=path,
        )


def write_for_call(
    folder: WorkingFolder,
    call: ToolContext,
    path: WorkingPath,
    content: bytes,
    *,
    existing: FileSnapshot | None,
    cancelled: CancelFlag,
) -> None:
    """Write a file for a call, unless the call has been cancelled."""

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise Conflict("the call was cancelled before anything was written")

    mark = sha256(call.key.encode()).hexdigest()[:16]
    folder.write(path, content, replacing=existing, mark=mark, before_rename=check_cancelled)


def written_result(
    call: ToolContext, path: WorkingPath, *, before: bytes | None, after: bytes, **details: Json
) -> ToolResult:
    """Return the result of a call that created a file, or changed it from `before`."""
    diff: str | UnsetType
    try:
        diff = unified_diff(decode_file(before or b"", path).text, decode_file(after, path).text, path=path)
    except Invalid:
        diff = UNSET  # one of them is not text
    action = FileAction.CREATED if before is None else FileAction.CHANGED
    digest_before = UNSET if before is None else digest(before)
    return _file_result(call, path, action, after, digest_before=digest_before, diff=diff, **details)


def unchanged_result(call: ToolContext, path: WorkingPath, content: bytes) -> ToolResult:
    """Return the result of a call that found the file with its new content already."""
    digest_before = known_digest(call.values, call.working_folder, path) or UNSET
    return _file_result(call, path, FileAction.FOUND, content, digest_before=digest_before)


def _file_result(
    call: ToolContext,
    path: WorkingPath,
    action: FileAction,
    content: bytes,
    *,
    digest_before: str | UnsetType,
    diff: str | UnsetType = UNSET,
    **details: Json,
) -> ToolResult:
    event = FileChanged(
        path=path,
        action=action,
        size=len(content),
        digest_before=digest_before,
        digest_after=digest(content),
        diff=diff,
        tool_call_id=call.id,
    )
    return ToolResult(
        content={"path": path, "action": str(action), "size": len(content), **details},
        events=[event],
        revisions=remember_digest(call.working_folder, path, event.digest_after),
    )


FILES_VALUE: Final = "files"
MAX_KNOWN_FILES: Final = 256
"""Files whose digest a run remembers; the least recently used ones are forgotten."""


class KnownFile(msgspec.Struct, frozen=True, kw_only=True):
    """The digest of a file when the run last read or wrote it."""

    path: str
    digest: str


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run knows in one working folder, the most recent one last."""

    folder: str
    files: tuple[KnownFile, ...] = ()


def known_digest(values: Mapping[str, Json], folder: str, path: WorkingPath) -> str | None:
    """Return the digest of a file when the run last read or wrote it."""
    known = _read_known_files(values.get(FILES_VALUE), folder)
    return next((file.digest for file in known.files if file.path == path), None)


def remember_digest(folder: str, path: WorkingPath, digest: str) -> dict[str, Callable[[Json], Json]]:
    """Return the revision of the run value that records the digest of a file."""

    def revise(value: Json) -> Json:
        others = [file for file in _read_known_files(value, folder).files if file.path != path]
        files = (*others, KnownFile(path=path, digest=digest))[-MAX_KNOWN_FILES:]
        return encode_value(KnownFiles(folder=folder, files=files))

    return {FILES_VALUE: revise}


def _read_known_files(value: Json, folder: str) -> KnownFiles:
    try:
        known = msgspec.convert(value, KnownFiles)
    except msgspec.ValidationError:
        return KnownFiles(folder=folder)  # not set, or not written by us: the files must be read again
    return known if known.folder == folder else KnownFiles(folder=folder)


MAX_HASHED_BYTES: Final = 256 * 1024 * 1024
"""Bytes that may be hashed to find the place of an edit."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return sha256(content).hexdigest()


def replace_passage(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """Return `text` with `old` replaced by `new`, and the count; unless `everywhere`, `old` must be unique."""
    if old == new:
        raise Invalid("`old` and `new` are the same: there is nothing to change", field="new")
    first = text.find(old)
    if first < 0:
        raise NotFound("`old` is not in the file: give it exactly as the file has it, without line numbers")
    if not everywhere and text.rfind(old) != first:
        raise Conflict("`old` is in the file more than once: give more of the text around it, or set `replace_all`")
    return text.replace(old, new), text.count(old)


def content_before_edit(content: bytes, old: bytes, new: bytes, *, everywhere: bool, known: str) -> bytes | None:
    """Return the content with the digest `known` that an edit turned into `content`, or null if there is none."""
    if everywhere:
        before = content.replace(new, old) if new else content
        return before if digest(before) == known else None
    budget = MAX_HASHED_BYTES
    index = content.find(new)
    while index >= 0:
        before = content[:index] + old + content[index + len(new) :]
        budget -= len(before)
        if budget < 0:
            return None
        if digest(before) == known:
            return before
        index = content.find(new, index + 1)
    return None
