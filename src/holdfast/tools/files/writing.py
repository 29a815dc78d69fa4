"""How a file is written: never over something that the model has not seen, and never twice.

the file is what it would become        done: an earlier try was cut off after it, or somebody did the same
it is what the run knows, or not there  written
anything else                           refused
"""

from collections.abc import Callable
from hashlib import sha256

from msgspec import UNSET, UnsetType

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.events.custom import FileAction, FileChanged
from holdfast.domain.working_path import WorkingPath
from holdfast.ports.tools import FileSnapshot, WorkingFolder
from holdfast.tools.files.diffs import unified
from holdfast.tools.files.editing import digest
from holdfast.tools.files.known import knowing, known_digest
from holdfast.tools.files.text import MAX_FILE, decoded
from holdfast.tools.files.threads import Halt
from holdfast.tools.tool import Call, Outcome


def find(folder: WorkingFolder, path: WorkingPath) -> FileSnapshot | None:
    """Return the file, or nothing if there is none."""
    try:
        return folder.read(path, most=MAX_FILE)
    except NotFound:
        return None


def known_as(call: Call, path: WorkingPath) -> str | None:
    """Return the digest under which the run knows a file."""
    return known_digest(call.values, call.agent.working_folder, path)


def check_known(call: Call, path: WorkingPath, found: FileSnapshot) -> None:
    """Raise `Conflict` unless the run has read the file as it is now."""
    known = known_as(call, path)
    if known is None:
        raise Conflict(f"`{path}` is there, and you have not read it: read it with `read_file` first", path=path)
    if digest(found.content) != known:
        raise Conflict(
            f"`{path}` has changed since you read it, perhaps by this very call, if it was cut off: "
            "read it again and see what it says now",
            path=path,
        )


def put(
    folder: WorkingFolder, call: Call, path: WorkingPath, content: bytes, *, found: FileSnapshot | None, halt: Halt
) -> None:
    """Write a file in the name of a call; once the call is cancelled, nothing is written any more."""
    mark = sha256(call.key.encode()).hexdigest()[:16]
    folder.write(path, content, instead_of=found, mark=mark, before=_unless(halt))


def wrote(call: Call, path: WorkingPath, *, before: bytes | None, after: bytes, **more: Json) -> Outcome:
    """Return the outcome of a call that made a file, or changed it from `before`."""
    action = FileAction.CREATED if before is None else FileAction.CHANGED
    was = UNSET if before is None else digest(before)
    return _outcome(call, path, action, after, was=was, diff=_diff(before or b"", after, path), **more)


def found_so(call: Call, path: WorkingPath, content: bytes) -> Outcome:
    """Return the outcome of a call that found a file as it would have made it."""
    return _outcome(call, path, FileAction.FOUND, content, was=known_as(call, path) or UNSET)


def _outcome(
    call: Call,
    path: WorkingPath,
    action: FileAction,
    content: bytes,
    *,
    was: str | UnsetType,
    diff: str | UnsetType = UNSET,
    **more: Json,
) -> Outcome:
    event = FileChanged(
        path=path,
        action=action,
        size=len(content),
        digest_before=was,
        digest_after=digest(content),
        diff=diff,
        tool_call_id=call.id,
    )
    return Outcome(
        content={"path": path, "action": str(action), "size": len(content), **more},
        events=[event],
        revisions=knowing(call.agent.working_folder, path, event.digest_after),
    )


def _diff(before: bytes, after: bytes, path: WorkingPath) -> str | UnsetType:
    """Return what changed, unless one of them is no text."""
    try:
        return unified(decoded(before, path).text, decoded(after, path).text, path=path)
    except Invalid:
        return UNSET


def _unless(halt: Halt) -> Callable[[], None]:
    def check() -> None:
        if halt.is_set():
            raise Conflict("the call was cancelled before anything was written")

    return check
