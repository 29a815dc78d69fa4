"""Read-only access to a store's database that bypasses the store."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = Mapping[str, Any]


class Probe(Protocol):
    """Reads committed rows."""

    async def rows(self, sql: str) -> Sequence[Row]:
        """Return the rows of `sql`, which must be valid in both databases."""


def is_postgres(location: str | Path) -> bool:
    """Return whether `location` is a PostgreSQL URL rather than a file."""
    return str(location).startswith(("postgresql://", "postgres://"))


@asynccontextmanager
async def open_probe(location: str | Path) -> AsyncIterator[Probe]:
    """Open the database at `location`, a SQLite file or a `postgresql://` URL."""
    if is_postgres(location):
        import asyncpg

        connection = await asyncpg.connect(str(location), server_settings={"application_name": "probe"})
        try:
            yield _PostgresProbe(connection)
        finally:
            await connection.close()
    else:
        with closing(_connect(Path(location))) as file:
            yield _SqliteProbe(file)


def _connect(path: Path) -> sqlite3.Connection:
    """Open read-only, so that the WAL of a dead process is left for the next one to recover."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


class _SqliteProbe:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str) -> Sequence[Row]:
        return [dict(row) for row in self._connection.execute(sql)]


class _PostgresProbe:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str) -> Sequence[Row]:
        records: Sequence[Row] = await self._connection.fetch(sql)
        return records
