"""Which migrations a database needs."""

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from holdfast.domain.errors import StoreCorrupt, StoreTooNew
from holdfast.store import statements


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema, never changed once it is out."""

    name: str
    sql: str
    checksum: str


def known(dialect: str) -> list[Migration]:
    """Return the migrations of a database, in order."""
    return [Migration(name, sql, sha256(sql.encode()).hexdigest()) for name, sql in statements.migrations(dialect)]


def missing(applied: Mapping[str, str], migrations: list[Migration]) -> list[Migration]:
    """Return what is still to be applied; `applied` maps names to checksums."""
    ours = {migration.name: migration for migration in migrations}
    for name, checksum in applied.items():
        if name not in ours:
            raise StoreTooNew(
                f"the database was made by a later version of Holdfast (it has `{name}`): upgrade Holdfast"
            )
        if checksum != ours[name].checksum:
            raise StoreCorrupt(f"migration `{name}` of the database is not the one of this version of Holdfast")
    return [migration for migration in migrations if migration.name not in applied]
