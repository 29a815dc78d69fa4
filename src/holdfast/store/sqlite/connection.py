"""Connections to the file, and what their errors mean."""

import json
import sqlite3
from pathlib import Path
from typing import Final

from holdfast.domain.errors import (
    Conflict,
    Invalid,
    OutcomeUnknown,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)

_PRIMARY: Final = 0xFF
_MEANING: Final[dict[int, tuple[type[Exception], str]]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full: nothing of this was written"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "the database file cannot be written to"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "the database file cannot be written to"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the database file is damaged: restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "the file is not a database"),
    sqlite3.SQLITE_CANTOPEN: (Unavailable, "the database file cannot be opened"),
    sqlite3.SQLITE_IOERR: (Unavailable, "the disk failed"),
    sqlite3.SQLITE_BUSY: (Unavailable, "another program holds the database file"),
    sqlite3.SQLITE_CONSTRAINT: (Conflict, "something with this name is there already"),
    sqlite3.SQLITE_TOOBIG: (Invalid, "this is too large to be stored"),
}


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open the file for one thread."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=1024)
    try:
        connection.row_factory = sqlite3.Row
        connection.create_function("holdfast_contains", 2, _contains, deterministic=True)
        connection.create_function("holdfast_has", 2, _has, deterministic=True)
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA cache_size = -16000")
        connection.execute("PRAGMA temp_store = MEMORY")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def translate(exc: BaseException, *, committing: bool = False) -> BaseException:
    """Return what `exc` means to a caller; what means nothing to it stays as it is."""
    if isinstance(exc, OverflowError):
        return Invalid("a number is too large to be stored")
    if isinstance(exc, UnicodeEncodeError):
        return Invalid("a text is not valid Unicode")
    if not isinstance(exc, sqlite3.DatabaseError):
        return exc
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
    if code == sqlite3.SQLITE_IOERR and committing:
        return OutcomeUnknown("the disk failed while this was written: read before you repeat it")
    if code not in _MEANING:
        return exc
    kind, message = _MEANING[code]
    return kind(f"{message} ({exc})")


def _contains(text: str | None, part: str) -> bool:
    return text is not None and part in text


def _has(items: str, item: str) -> bool:
    return item in json.loads(items)
