"""The SQLite file: connect to it, lock, migrate and check it, and translate its errors.

One process owns the file for writing: it holds a lock that the system releases when the process ends.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from holdfast.domain.errors import (
    Conflict,
    Invalid,
    OutcomeUnknown,
    StoreCorrupt,
    StoreFull,
    StoreOwned,
    StoreReadOnly,
    Unavailable,
)
from holdfast.domain.instant import Millis
from holdfast.store.sqlite.transaction import STATEMENTS, PositionalSql
from holdfast.store.statements import known_migrations, missing_migrations

_PRIMARY_CODE_MASK: Final = 0xFF
_TRANSLATIONS: Final[dict[int, tuple[type[Exception], str]]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full, so nothing was written: free some space"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "the database file cannot be written to: make it and its folder writable"),
    sqlite3.SQLITE_PERM: (StoreReadOnly, "the database file cannot be written to: make it and its folder writable"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the database file is damaged: restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "the file is not a database: choose another one, or restore a backup"),
    sqlite3.SQLITE_CANTOPEN: (Unavailable, "the database file cannot be opened: check its path and permissions"),
    sqlite3.SQLITE_IOERR: (Unavailable, "the disk failed"),
    sqlite3.SQLITE_BUSY: (Unavailable, "another program locks the database file: close that program"),
    sqlite3.SQLITE_CONSTRAINT: (Conflict, "this name is already in use: choose another"),
    sqlite3.SQLITE_TOOBIG: (Invalid, "the value is too large to be stored"),
}


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a connection for one thread."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=1024)
    try:
        connection.row_factory = sqlite3.Row
        connection.create_function(
            "holdfast_contains", 2, lambda text, part: text is not None and part in text, deterministic=True
        )
        connection.create_function("holdfast_has", 2, lambda items, item: item in json.loads(items), deterministic=True)
        connection.create_function(
            "holdfast_has_all",
            2,
            lambda items, wanted: set(json.loads(wanted)) <= set(json.loads(items)),
            deterministic=True,
        )
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


def translate_error(exc: BaseException, *, committing: bool = False) -> BaseException:
    """Return the Holdfast error for `exc`, or `exc` itself if there is none."""
    if isinstance(exc, OverflowError):
        return Invalid("a number is too large to be stored")
    if isinstance(exc, UnicodeEncodeError):
        return Invalid("a text is not valid Unicode")
    if not isinstance(exc, sqlite3.DatabaseError):
        return exc
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE_MASK
    if code == sqlite3.SQLITE_IOERR and committing:
        return OutcomeUnknown("the disk failed during the commit: check the result before you retry")
    if code not in _TRANSLATIONS:
        return exc
    kind, message = _TRANSLATIONS[code]
    return kind(f"{message} ({exc})")


class FileOwnership:
    """The locks that make this process the only writer of a database file.

    One is on a file beside it, which holds the process id. The other is on the database itself, for a second process
    that opens the same file by another name, such as a hard link.
    """

    def __init__(self, database: Path) -> None:
        path = database.with_name(f"{database.name}.owner")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError as exc:
            raise Unavailable(f"there is no folder `{database.parent}` for the database: create it") from exc
        except OSError as exc:
            raise StoreReadOnly(f"the folder of the database cannot be written to: {exc.strerror}") from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            owner = os.pread(self._file, 32, 0).decode() or "unknown"
            os.close(self._file)
            message = f"process {owner} writes to `{database.name}`: use the server that it runs, or stop it"
            raise StoreOwned(message) from exc
        try:
            self._database = _lock_database(database)
        except BaseException:
            os.close(self._file)
            raise
        with suppress(OSError):  # on a full disk the lock works without the process id in the file
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Release the locks, after every connection is closed: closing the file would end SQLite's own locks."""
        if self._database is not None:
            os.close(self._database)
        os.close(self._file)


def _lock_database(database: Path) -> int | None:
    """Return a locked handle of the database, which is created if it does not exist; null if it cannot be opened."""
    try:
        handle = os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return None  # SQLite fails too, and tells why
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(handle)
        message = f"another process writes to `{database.name}` by another name, such as a hard link: stop it first"
        raise StoreOwned(message) from exc
    return handle


def owner_of(database: Path) -> str | None:
    """Return the id of the process that owns a file, if any. A process that takes the lock meanwhile may be refused."""
    try:
        file = os.open(database.with_name(f"{database.name}.owner"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no process has owned it yet
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(file, 32, 0).decode() or "unknown"
    finally:
        os.close(file)
    return None


def migrate(connection: sqlite3.Connection, *, now: Millis) -> None:
    """Apply missing migrations, each in a transaction of its own."""
    connection.execute(STATEMENTS["make_migrations_table"].sql)
    for migration in missing_migrations(_applied_migrations(connection), known_migrations("sqlite")):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _split_statements(migration.sql):
                connection.execute(statement)
            added = PositionalSql.of(STATEMENTS["add_migration"].sql)
            added.execute(connection, (migration.name, migration.checksum, now))
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.execute("ROLLBACK")
            raise


def check_migrated(connection: sqlite3.Connection) -> None:
    """Raise unless the schema is up to date: a read-only store cannot migrate it."""
    try:
        missing = missing_migrations(_applied_migrations(connection), known_migrations("sqlite"))
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise StoreReadOnly(f"the database has no Holdfast schema: open it for writing once ({exc})") from exc
    if missing:
        raise StoreReadOnly(f"the database is older than `{missing[0].name}`: open it for writing once")


def _applied_migrations(connection: sqlite3.Connection) -> dict[str, str]:
    return {row["name"]: row["checksum"] for row in connection.execute(STATEMENTS["migrations"].sql)}


def _split_statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


SCRUB_ATTEMPTS: Final = 200
SCRUB_RETRY_SECONDS: Final = 0.05
"""A reader that is in the middle of the log delays the end of a scrub by at most these attempts."""


def scrub_file(connection: sqlite3.Connection) -> None:
    """Rewrite the whole file, so that it holds nothing but its rows, and truncate its log."""
    try:
        connection.execute("VACUUM")
        for _ in range(SCRUB_ATTEMPTS):
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return
            sleep(SCRUB_RETRY_SECONDS)
    finally:
        connection.execute("PRAGMA secure_delete = OFF")
    raise sqlite3.OperationalError("the log of the database could not be emptied: a reader holds it open")


DAMAGE_CHECK_TIMEOUT_SECONDS: Final = 20.0
"""Time after which the check of a large file is stopped."""

_MAX_PROBLEMS: Final = 3
_INSTRUCTIONS_PER_CLOCK_CHECK: Final = 10_000
"""SQLite virtual machine instructions between two timeout checks."""


def schema_version(path: Path) -> str:
    """Return the schema version, or raise the error that the file has."""
    try:
        with closing(connect(path, read_only=True)) as connection:
            check_migrated(connection)
    except sqlite3.Error as exc:
        raise translate_error(exc) from exc
    return known_migrations("sqlite")[-1].name


def find_damage(path: Path, *, timeout_seconds: float = DAMAGE_CHECK_TIMEOUT_SECONDS) -> list[str] | None:
    """Return the damage found in a file, empty if it is intact; `None` if the check timed out."""
    deadline = monotonic() + timeout_seconds
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.set_progress_handler(lambda: monotonic() > deadline, _INSTRUCTIONS_PER_CLOCK_CHECK)
            rows = connection.execute(f"PRAGMA quick_check({_MAX_PROBLEMS})").fetchall()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None
        raise translate_error(exc) from exc
    except sqlite3.Error as exc:
        raise translate_error(exc) from exc
    found = [str(row[0]) for row in rows]
    return [] if found == ["ok"] else found
