"""Text files of a workspace, edited by people: every error names the file."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Final, NoReturn

from holdfast.domain.errors import Invalid, TooLarge

MAX_FILE_BYTES: Final = 256 * 1024
"""Every model call contains the instructions of the agent, so longer files are rejected."""


def read_text(path: Path, *, root: Path) -> str:
    """Return the text of a file in the workspace at `root`, or raise `Invalid`."""
    file = file_name(path, root=root)
    try:
        real = Path(os.path.realpath(path, strict=True))
        if not real.is_relative_to(root):
            raise_invalid_file(file, "is a link out of the workspace: put the file itself here")
        if not stat.S_ISREG(real.stat().st_mode):  # opening a pipe would block
            raise_invalid_file(file, "is not a regular file")
        with real.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise_invalid_file(file, "missing")
    except OSError as exc:
        raise_invalid_file(file, f"cannot be read: {exc.strerror or exc}", cause=exc)
    if len(raw) > MAX_FILE_BYTES:
        raise TooLarge(f"{file}: has more than {MAX_FILE_BYTES} bytes", file=file)
    try:
        text = raw.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as exc:
        raise_invalid_file(file, f"is not UTF-8: byte {exc.start + 1} is invalid", cause=exc)
    if "\x00" in text:
        raise_invalid_file(file, "contains a NUL character")
    return text


def read_optional_text(path: Path, *, root: Path) -> str | None:
    """Return the text of a file, or null if it does not exist."""
    return read_text(path, root=root) if os.path.lexists(path) else None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file of the workspace atomically; its mode stays the same."""
    real = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            if real.exists():
                os.fchmod(opened.fileno(), stat.S_IMODE(real.stat().st_mode))
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(name, real)
    except OSError:
        os.unlink(name)
        raise


def file_name(path: Path, *, root: Path) -> str:
    """Return a path relative to `root`, for messages."""
    return printable(path.relative_to(root).as_posix())


def printable(name: str) -> str:
    """Return a file name in printable characters: names on disk may be any bytes."""
    return name.encode(errors="backslashreplace").decode()


def raise_invalid_file(file: str, reason: str, *, cause: Exception | None = None) -> NoReturn:
    """Raise `Invalid` with the file in its message."""
    raise Invalid(f"{file}: {reason}", file=file) from cause
