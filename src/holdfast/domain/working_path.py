"""Paths in a working folder in their one normal form, and valid names of working folders.

A path is relative, has no `.`, `..` or empty part, and `.` is the folder itself. Links are never followed, so one file
has one path (a hard link is a file of its own).
"""

from typing import Annotated, Final, NewType, TypeAlias

from msgspec import Meta

from holdfast.domain.errors import Invalid

WorkingPath = NewType("WorkingPath", str)

WORKING_ROOT: Final = WorkingPath(".")
MAX_PATH_BYTES: Final = 1_024
"""Bytes of a whole path."""
MAX_PATH_PART_BYTES: Final = 255
"""Bytes of one part of it."""
MAX_PATH_DEPTH: Final = 64
"""Parts."""

_RELATIVE_HINT: Final = "name it relative to your working folder, such as `src/main.py`"


def parse_working_path(text: str) -> WorkingPath:
    """Return the path that a model has written, or raise `Invalid`."""
    _check_characters(text)
    if text.startswith("/"):
        raise Invalid(f"`{text[:MAX_PATH_PART_BYTES]}` is absolute: {_RELATIVE_HINT}", field="path")
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise Invalid(
                    f"`{text[:MAX_PATH_PART_BYTES]}` leads out of your working folder: {_RELATIVE_HINT}", field="path"
                )
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    _check_lengths(parts)
    return WorkingPath("/".join(parts)) if parts else WORKING_ROOT


def child_path(folder: WorkingPath, name: str) -> WorkingPath:
    """Return the path of what `folder` has under `name`."""
    return WorkingPath(name if folder == WORKING_ROOT else f"{folder}/{name}")


def split_path(path: WorkingPath) -> tuple[WorkingPath, str]:
    """Return the folder that something is in, and its name there."""
    folder, _, name = path.rpartition("/")
    return WorkingPath(folder or WORKING_ROOT), name


def is_valid_name(name: str) -> bool:
    """Say whether what a folder has under `name` can be named by a path."""
    try:
        _check_characters(name)
    except Invalid:
        return False
    return True


def _check_characters(text: str) -> None:
    if not text:
        raise Invalid(f"the path is empty: {_RELATIVE_HINT}", field="path")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Invalid("the path has a control character in it: name it as it is listed", field="path")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Invalid("the path is not valid Unicode: name it as it is listed", field="path") from exc


def _check_lengths(parts: list[str]) -> None:
    if len("/".join(parts).encode()) > MAX_PATH_BYTES:
        raise Invalid(f"the path is longer than {MAX_PATH_BYTES} bytes: choose a shorter one", field="path")
    if len(parts) > MAX_PATH_DEPTH:
        raise Invalid(f"the path is more than {MAX_PATH_DEPTH} folders deep: choose a shorter one", field="path")
    if any(len(part.encode()) > MAX_PATH_PART_BYTES for part in parts):
        raise Invalid(
            f"a name in the path is longer than {MAX_PATH_PART_BYTES} bytes: choose a shorter one", field="path"
        )


# No part begins with a dot, so none leads out or is `.holdfast`. The names of the workspace itself are refused however
# they are written, because some disks do not tell small letters from capitals.
_RESERVED_NAMES: Final = "|".join(
    "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else rf"\{letter}" for letter in name)
    for name in ("agents", "tools", "skills", "settings.json")
)
_NAME_PART: Final = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"
FolderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^(?!({_RESERVED_NAMES})(/|\Z)){_NAME_PART}(/{_NAME_PART}){{0,7}}\Z",
        extra={
            "expected": "a folder of the workspace such as `files` or `projects/site`: relative, of letters, digits, "
            "`.`, `_` and `-`, no part beginning with `.`, and not in `agents`, `tools` or `skills`"
        },
    ),
]
