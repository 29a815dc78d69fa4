"""A path in a working folder, in the one form in which it is opened, remembered, ruled on and shown.

It is relative, has no `.`, no `..` and no empty part, and `.` is the folder itself. Since links are never followed, one
thing has one such path (a hard link is a thing of its own).
"""

from typing import Final, NewType

from holdfast.domain.errors import Invalid

WorkingPath = NewType("WorkingPath", str)

HERE: Final = WorkingPath(".")
MAX_PATH: Final = 1_024
"""Bytes of a whole path."""
MAX_NAME: Final = 255
"""Bytes of one part of it."""
MAX_DEPTH: Final = 64
"""Parts."""

_RELATIVE: Final = "name it relative to your working folder, such as `src/main.py`"


def working_path(text: str) -> WorkingPath:
    """Return the path that a model has written, or raise `Invalid`."""
    _check_characters(text)
    if text.startswith("/"):
        raise Invalid(f"`{text[:MAX_NAME]}` is absolute: {_RELATIVE}", field="path")
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise Invalid(f"`{text[:MAX_NAME]}` leads out of your working folder: {_RELATIVE}", field="path")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    _check_lengths(parts)
    return WorkingPath("/".join(parts)) if parts else HERE


def beneath(folder: WorkingPath, name: str) -> WorkingPath:
    """Return the path of what `folder` has under `name`."""
    return WorkingPath(name if folder == HERE else f"{folder}/{name}")


def parted(path: WorkingPath) -> tuple[WorkingPath, str]:
    """Return the folder that something is in, and its name there."""
    folder, _, name = path.rpartition("/")
    return WorkingPath(folder or HERE), name


def nameable(name: str) -> bool:
    """Say whether what a folder has under `name` can be named by a path."""
    try:
        _check_characters(name)
    except Invalid:
        return False
    return True


def _check_characters(text: str) -> None:
    if not text:
        raise Invalid(f"the path is empty: {_RELATIVE}", field="path")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Invalid("the path has a control character in it: name it as it is listed", field="path")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Invalid("the path is not valid Unicode: name it as it is listed", field="path") from exc


def _check_lengths(parts: list[str]) -> None:
    if len("/".join(parts).encode()) > MAX_PATH:
        raise Invalid(f"the path is longer than {MAX_PATH} bytes: choose a shorter one", field="path")
    if len(parts) > MAX_DEPTH:
        raise Invalid(f"the path is more than {MAX_DEPTH} folders deep: choose a shorter one", field="path")
    if any(len(part.encode()) > MAX_NAME for part in parts):
        raise Invalid(f"a name in the path is longer than {MAX_NAME} bytes: choose a shorter one", field="path")
