"""One process owns the file: a lock that it holds for life, and that dies with it."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from holdfast.domain.errors import StoreOwned, StoreReadOnly, Unavailable


class Ownership:
    """The right to write to a database file."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(f"{database.name}.owner")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError as exc:
            raise Unavailable(f"there is no folder `{database.parent}` for the database") from exc
        except OSError as exc:
            raise StoreReadOnly(f"the folder of the database cannot be written to: {exc.strerror}") from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            owner = os.pread(self._file, 32, 0).decode() or "unknown"
            os.close(self._file)
            raise StoreOwned(
                f"process {owner} writes to `{database.name}`: stop it, or open the file to read only"
            ) from exc
        with suppress(OSError):  # a full disk: the lock holds without the name of its owner
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def give_up(self) -> None:
        """Let another process own the file."""
        os.close(self._file)


def owner_of(database: Path) -> str | None:
    """Return the process that owns a file, if one does. Who begins to own it in this very moment may be refused."""
    try:
        file = os.open(database.with_name(f"{database.name}.owner"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # nobody has owned it yet
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(file, 32, 0).decode() or "unknown"
    finally:
        os.close(file)
    return None
