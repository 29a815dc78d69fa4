"""The schema of the PostgreSQL database, brought up to date by one process at a time."""

import asyncpg

from holdfast.domain.instant import Millis
from holdfast.store.migrations import known, missing
from holdfast.store.postgres.transaction import STATEMENTS


async def migrate(connection: asyncpg.Connection, *, now: Millis) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    await connection.execute(STATEMENTS["lock_migrations"].sql)
    try:
        await connection.execute(STATEMENTS["make_migrations_table"].sql)
        rows = await connection.fetch(STATEMENTS["migrations"].sql)
        for migration in missing({row["name"]: row["checksum"] for row in rows}, known("postgres")):
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(STATEMENTS["add_migration"].sql, migration.name, migration.checksum, now)
    finally:
        await connection.execute(STATEMENTS["unlock_migrations"].sql)
