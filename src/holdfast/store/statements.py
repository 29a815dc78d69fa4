"""SQL statements and schema migrations, loaded by name from `.sql` files.

A `.sql` file holds statements under `-- name:` lines. `store/sql` has the statements that every database shares; the
folder of each database has the rest, and its `migrations`. Parameters are written `:name`; a statement takes them in
the order in which they first appear.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from holdfast.domain.errors import StoreCorrupt, StoreTooNew

_NAME_LINE: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"--[^\n]*")
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")

Placeholder = Callable[[int], str]


class Statement(msgspec.Struct, frozen=True):
    """A named statement in the dialect of a database."""

    name: str
    sql: str
    parameters: tuple[str, ...]


def load_statements(dialect: str, placeholder: Placeholder) -> dict[str, Statement]:
    """Return every statement of a database, including the shared ones."""
    found: dict[str, Statement] = {}
    for entry in [*_sql_files("sql"), *_sql_files(dialect)]:
        _, *parts = _NAME_LINE.split(entry.read_text())
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"the statement `{name}` is defined twice for {dialect}")
            found[name] = _parse_statement(name, text, placeholder)
    return found


def migrations(dialect: str) -> list[tuple[str, str]]:
    """Return the name and text of each migration of a database, in order."""
    return [(entry.name.removesuffix(".sql"), entry.read_text()) for entry in _sql_files(dialect, "migrations")]


def _sql_files(*path: str) -> list[Traversable]:
    entries = files("holdfast.store").joinpath(*path).iterdir()
    return sorted((entry for entry in entries if entry.name.endswith(".sql")), key=lambda entry: entry.name)


def _parse_statement(name: str, text: str, placeholder: Placeholder) -> Statement:
    sql = " ".join(_COMMENT.sub("", text).split()).removesuffix(";")
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    position = {parameter: placeholder(index) for index, parameter in enumerate(parameters, start=1)}
    sql = _PARAMETER.sub(lambda match: position[match[1]], sql)
    return Statement(name, sql, parameters)


class Migration(msgspec.Struct, frozen=True):
    """A schema migration. Its text, comments included, never changes once released: databases store its checksum."""

    name: str
    sql: str
    checksum: str


def known_migrations(dialect: str) -> list[Migration]:
    """Return the migrations of a database, in order."""
    return [Migration(name, sql, sha256(sql.encode()).hexdigest()) for name, sql in migrations(dialect)]


def missing_migrations(applied: Mapping[str, str], migrations: list[Migration]) -> list[Migration]:
    """Return the migrations still to be applied; `applied` maps names to checksums."""
    checksums = {migration.name: migration.checksum for migration in migrations}
    for name, checksum in applied.items():
        if name not in checksums:
            message = f"the database was created by a later version of Holdfast (it has `{name}`): upgrade Holdfast"
            raise StoreTooNew(message)
        if checksum != checksums[name]:
            raise StoreCorrupt(f"migration `{name}` of the database is not the one of this version of Holdfast")
    return [migration for migration in migrations if migration.name not in applied]
