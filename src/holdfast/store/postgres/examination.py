"""Looking at a PostgreSQL database without changing it."""

import asyncpg
import msgspec

from holdfast.store.migrations import known, missing
from holdfast.store.postgres.database import COMMAND_TIMEOUT, CONNECT_TIMEOUT
from holdfast.store.postgres.errors import DRIVER_ERRORS, translate
from holdfast.store.postgres.transaction import STATEMENTS


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is, and how far the schema of its database has come."""

    version: tuple[int, int]
    applied: int
    """Migrations that it has: 0 where nobody has opened it yet."""
    missing: int


async def examine(url: str) -> Examined:
    """Look at the database of a server; what is wrong with either is raised."""
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT, command_timeout=COMMAND_TIMEOUT)
        try:
            applied = await _applied(connection)
            version = connection.get_server_version()
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT)
    except DRIVER_ERRORS as exc:
        raise translate(exc) from exc
    behind = missing(applied, known("postgres"))
    return Examined(version=(version.major, version.minor), applied=len(applied), missing=len(behind))


async def _applied(connection: asyncpg.Connection) -> dict[str, str]:
    try:
        rows = await connection.fetch(STATEMENTS["migrations"].sql)
    except asyncpg.UndefinedTableError:
        return {}
    return {row["name"]: row["checksum"] for row in rows}
