"""Text files of a workspace, edited by people: every error names the file."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Final, NoReturn

from holdfast.domain.errors import Invalid, TooLarge

MAX_FILE_BYTES: Final = 256 * 1024
"""The instructions of an agent are in every call of its model: what is longer is no instruction."""


def read_text(path: Path, *, root: Path) -> str:
    """Return what a file of the workspace at `root` says."""
    file = file_name(path, root=root)
    try:
        raw = _read(path, root=root)
    except FileNotFoundError:
        raise_invalid_file(file, "missing")
    except OSError as exc:
        raise_invalid_file(file, f"cannot be read: {exc.strerror or exc}", cause=exc)
    if len(raw) > MAX_FILE_BYTES:
        raise TooLarge(f"{file}: has more than {MAX_FILE_BYTES} bytes", file=file)
    try:
        text = raw.decode("utf-8-sig")  # some editors begin a file with a mark, which is no text
    except UnicodeDecodeError as exc:
        raise_invalid_file(file, f"is not UTF-8: byte {exc.start + 1} cannot be read", cause=exc)
    if "\x00" in text:
        raise_invalid_file(file, "has a NUL character in it")
    return text


def read_optional_text(path: Path, *, root: Path) -> str | None:
    """Return what a file says, or null if there is none."""
    return read_text(path, root=root) if os.path.lexists(path) else None


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of the workspace, all of it or not at all; who may read it stays as it is."""
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
    """Return a path as people write it."""
    return printable(path.relative_to(root).as_posix())


def printable(name: str) -> str:
    """Return the name of a file in characters that can be shown: names on disk may be any bytes."""
    return name.encode(errors="backslashreplace").decode()


def raise_invalid_file(file: str, reason: str, *, cause: Exception | None = None) -> NoReturn:
    """Raise `Invalid` about a file."""
    raise Invalid(f"{file}: {reason}", file=file) from cause


def _read(path: Path, *, root: Path) -> bytes:
    real = Path(os.path.realpath(path, strict=True))
    if not real.is_relative_to(root):
        raise_invalid_file(file_name(path, root=root), "leads out of the workspace: put the file itself here")
    if not stat.S_ISREG(real.stat().st_mode):  # to open a pipe would wait for a writer
        raise_invalid_file(file_name(path, root=root), "is not a file")
    with real.open("rb") as opened:
        return opened.read(MAX_FILE_BYTES + 1)
