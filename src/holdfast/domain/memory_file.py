"""Memory files: notes in Markdown that a space and its agents keep, and the changes that may be made to them.

    MEMORY.md                    notes of the space, for all of its agents
    agents/<agent>/MEMORY.md     notes of one agent

Each change can be repeated: one that has been made already changes nothing, so that a call that was lost in a crash is
made again.
"""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Final, NewType

import msgspec

from holdfast.domain.agent import check_agent_name
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, MemoryFileChanged, NotFound, TooLarge
from holdfast.domain.validation import check_text
from holdfast.domain.working_path import parse_working_path

MemoryPath = NewType("MemoryPath", str)

MEMORY_FILE: Final = "MEMORY.md"
AGENTS_FOLDER: Final = "agents"
MAX_MEMORY_FILE_BYTES: Final = 64 * 1024
MAX_MEMORY_FILES: Final = 200
"""Files of a space, with those of its agents."""
MAX_MEMORY_PATH_PARTS: Final = 4
"""Parts of a path within its scope."""
MAX_FILE_HITS: Final = 100
_EXTENSION: Final = ".md"


class MemoryScope(StrEnum):
    """Owner of a memory file."""

    SPACE = "space"
    AGENT = "agent"


class WriteMode(StrEnum):
    """Kind of a change to a memory file."""

    APPEND = "append"
    """Add the text at the end, unless the file has it already."""
    REPLACE = "replace"
    """Replace the whole file."""
    EDIT = "edit"
    """Replace one passage."""


class MemoryFileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file without its text."""

    path: MemoryPath
    size: int
    etag: str


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file; `etag` names this content."""

    path: MemoryPath
    text: str
    lines: int
    etag: str


class MemoryFileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change to a memory file. With an `etag` it applies only to that content."""

    text: str
    mode: WriteMode = WriteMode.APPEND
    old: str | None = None
    """The passage that an edit replaces."""
    etag: str | None = None


class MemoryFileHit(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a memory file that a search found."""

    path: MemoryPath
    line: int
    text: str
    score: float


def check_etag(file: MemoryFile | None, tags: Sequence[str]) -> None:
    """Raise `MemoryFileChanged` unless a file has one of these tags; `*` is any file, and without tags all will do."""
    etag = None if file is None else file.etag
    if tags and etag not in tags and not ("*" in tags and file is not None):
        raise MemoryFileChanged("the file has changed since it was read, or is gone: read it again", etag=etag)


def memory_path(path: str, *, agent: str | None = None) -> MemoryPath:
    """Return the path of a memory file of the space, or of an agent, or raise `Invalid`."""
    parts = parse_working_path(path).split("/")
    if agent is None and parts[0].casefold() == AGENTS_FOLDER:
        if len(parts) < 3 or parts[0] != AGENTS_FOLDER:
            raise Invalid(
                f"`{AGENTS_FOLDER}/` holds the files of agents: name `agents/<agent>/{MEMORY_FILE}`", field="path"
            )
        agent, parts = parts[1], parts[2:]
    if any(part.startswith(".") for part in parts) or not parts[-1].endswith(_EXTENSION):
        raise Invalid(
            f"a memory file is a Markdown file such as `{MEMORY_FILE}`, and no part begins with `.`", field="path"
        )
    if len(parts) > MAX_MEMORY_PATH_PARTS:
        raise Invalid(f"the path of a memory file may have at most {MAX_MEMORY_PATH_PARTS} parts", field="path")
    relative = "/".join(parts)
    return MemoryPath(relative if agent is None else f"{AGENTS_FOLDER}/{check_agent_name(agent)}/{relative}")


def owner_of(path: MemoryPath) -> str | None:
    """Return the agent that a memory file belongs to; null for the space."""
    parts = path.split("/")
    return parts[1] if parts[0] == AGENTS_FOLDER else None


def memory_etag(content: bytes) -> str:
    """Return the name of a content."""
    return sha256(content).hexdigest()[:32]


def to_memory_file(path: MemoryPath, content: bytes) -> MemoryFile:
    """Return a file from its bytes; those that are not UTF-8 are replaced."""
    text = content.decode("utf-8", "replace")
    return MemoryFile(path=path, text=text, lines=len(text.splitlines()), etag=memory_etag(content))


def apply_change(path: MemoryPath, current: MemoryFile | None, change: MemoryFileChange) -> str:
    """Return the new text of a file, which is the current text if the change has been made already."""
    check_text(change.text, field="text", max_chars=MAX_MEMORY_FILE_BYTES)
    before = "" if current is None else current.text
    after, problem = _changed_text(path, before, change)
    if after == before and current is not None and problem is None:
        return after  # an earlier attempt made it, whatever etag it was given
    if change.etag is not None and change.etag != (None if current is None else current.etag):
        raise MemoryFileChanged(f"`{path}` has changed since it was read: read it again", path=path)
    if problem is not None:
        raise problem
    if len(after.encode()) > MAX_MEMORY_FILE_BYTES:
        raise TooLarge(f"`{path}` may have at most {MAX_MEMORY_FILE_BYTES} bytes: shorten it first", path=path)
    return after


def _changed_text(path: MemoryPath, before: str, change: MemoryFileChange) -> tuple[str, HoldfastError | None]:
    """Return the text after a change, or the reason why there is none."""
    match change.mode:
        case WriteMode.REPLACE:
            return change.text, None
        case WriteMode.APPEND:
            added = change.text.strip("\n")
            if not added.strip():
                return before, Invalid("`text` is empty: give the lines to append", field="text")
            if _has_block(before.splitlines(), added.splitlines()):
                return before, None
            return f"{before.rstrip()}\n{added}\n".lstrip("\n"), None
        case WriteMode.EDIT:
            if not change.old:
                return before, Invalid("`old` is missing: give the passage to replace", field="old")
            count = before.count(change.old)
            if count == 1:
                return before.replace(change.old, change.text), None
            if count == 0 and change.text and change.text in before:
                return before, None
            if count == 0:
                return before, NotFound(f"`old` is not in `{path}`: give it exactly as the file has it", path=path)
            return before, Conflict(f"`old` is in `{path}` {count} times: give more of the text around it", path=path)


def _has_block(lines: Sequence[str], block: Sequence[str]) -> bool:
    """Return whether `block` is in a file as whole lines."""
    wanted = [line.strip() for line in block]
    stripped = [line.strip() for line in lines]
    starts = range(len(stripped) - len(wanted) + 1)
    return any(stripped[start : start + len(wanted)] == wanted for start in starts)
