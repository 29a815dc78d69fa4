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
MAX_PATH_PART_BYTES: Final = 255
MAX_PATH_DEPTH: Final = 64

_RELATIVE_HINT: Final = "use a path relative to your working folder, such as `src/main.py`"


def parse_working_path(text: str) -> WorkingPath:
    """Return the normal form of a path written by a model, or raise `Invalid`."""
    _check_characters(text)
    if text.startswith("/"):
        raise Invalid(f"`{text[:MAX_PATH_PART_BYTES]}` is absolute: {_RELATIVE_HINT}", field="path")
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                message = f"`{text[:MAX_PATH_PART_BYTES]}` is outside your working folder: {_RELATIVE_HINT}"
                raise Invalid(message, field="path")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if len("/".join(parts).encode()) > MAX_PATH_BYTES:
        raise Invalid(f"the path is longer than {MAX_PATH_BYTES} bytes: choose a shorter one", field="path")
    if len(parts) > MAX_PATH_DEPTH:
        raise Invalid(f"the path is more than {MAX_PATH_DEPTH} folders deep: choose a shorter one", field="path")
    if any(len(part.encode()) > MAX_PATH_PART_BYTES for part in parts):
        raise Invalid(f"a part of the path is longer than {MAX_PATH_PART_BYTES} bytes: shorten it", field="path")
    return WorkingPath("/".join(parts)) if parts else WORKING_ROOT


def child_path(folder: WorkingPath, name: str) -> WorkingPath:
    """Return the path of the entry `name` of `folder`."""
    return WorkingPath(name if folder == WORKING_ROOT else f"{folder}/{name}")


def split_path(path: WorkingPath) -> tuple[WorkingPath, str]:
    """Return the parent folder of `path`, and its name there."""
    folder, _, name = path.rpartition("/")
    return WorkingPath(folder or WORKING_ROOT), name


def is_valid_name(name: str) -> bool:
    """Return whether the name of a folder entry is valid in a path."""
    try:
        _check_characters(name)
    except Invalid:
        return False
    return True


def _check_characters(text: str) -> None:
    if not text:
        raise Invalid(f"the path is empty: {_RELATIVE_HINT}", field="path")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Invalid("the path has a control character: copy it from a listing", field="path")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise Invalid("the path is not valid Unicode: copy it from a listing", field="path") from exc


# No part begins with a dot, so none is `..` or `.holdfast`. The names of the workspace itself are rejected in any case,
# because some file systems are case-insensitive.
_RESERVED_NAMES: Final = "|".join(
    "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else rf"\{letter}" for letter in name)
    for name in ("agents", "memory", "tools", "skills", "settings.json")
)
_NAME_PART: Final = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"
_FOLDER_NAME: Final = rf"(?!({_RESERVED_NAMES})(/|\Z)){_NAME_PART}(/{_NAME_PART}){{0,7}}"
# A path with `*`, `?` or `[` could not be written in a rule.
_ABSOLUTE_PATH: Final = r"(/(?!\.{1,2}(/|\Z))[^/*?\[\x00-\x1f\x7f]{1,255}){1,32}"
_FOLDER_EXPECTED: Final = (
    "a folder of the workspace such as `files` or `projects/site`: relative, of letters, digits, `.`, `_` and `-`, no "
    "part beginning with `.`, and not in `agents`, `memory`, `tools` or `skills`"
)
FolderName: TypeAlias = Annotated[str, Meta(pattern=rf"^{_FOLDER_NAME}\Z", extra={"expected": _FOLDER_EXPECTED})]
ProjectPath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^{_ABSOLUTE_PATH}\Z",
        extra={"expected": "the absolute path of a folder, such as `/srv/site`, without `..`, `*`, `?` and `[`"},
    ),
]
WorkingFolderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^({_FOLDER_NAME}|{_ABSOLUTE_PATH})\Z",
        extra={"expected": f"{_FOLDER_EXPECTED}; or an absolute path that settings.json lists"},
    ),
]


def is_outside_workspace(folder: str) -> bool:
    """Return whether a working folder is an absolute path."""
    return folder.startswith("/")
