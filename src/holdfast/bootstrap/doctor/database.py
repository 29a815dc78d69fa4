"""The database: it opens, its schema is ours, nothing in it is damaged, and who uses it."""

import asyncio
from pathlib import Path
from typing import Final

from holdfast.bootstrap.doctor.finding import Finding, failure, warning, well
from holdfast.bootstrap.server_options import check_database
from holdfast.bootstrap.store import is_postgres
from holdfast.domain.errors import HoldfastError, Invalid, StoreReadOnly

OLDEST_POSTGRES: Final = 14
"""Older ones get no corrections from their makers any more."""

_UPGRADE: Final = "nothing: the next `holdfast serve` brings it up to date"


async def look_at_database(where: str | Path, *, own: bool) -> list[Finding]:
    """Return what is found about the database at `where`; the workspace's own is made when it is first served."""
    try:
        check_database(str(where))
    except Invalid as refused:
        return [failure("database", refused.message, remedy="give another `--database`")]
    if is_postgres(where):
        return await _look_at_postgres(str(where))
    return await asyncio.to_thread(_look_at_file, Path(where), own=own)


def _look_at_file(path: Path, *, own: bool) -> list[Finding]:
    from holdfast.store.sqlite.file import owner_of

    if not own and not path.absolute().parent.is_dir():
        return [failure("database", f"there is no folder for `{path.name}`", remedy=f"make `{path.parent}`")]
    if not path.exists():
        return [well("database", f"there is no `{path.name}` yet: the first `holdfast serve` makes it")]
    owner = owner_of(path)
    found = [well("server", "no process writes to the database" if owner is None else f"process {owner} uses it now")]
    return [*found, _schema(path), *_damage(path)]


def _schema(path: Path) -> Finding:
    from holdfast.store.sqlite.file import schema_version

    try:
        version = schema_version(path)
    except StoreReadOnly as behind:
        return warning("database", behind.message, remedy=_UPGRADE)
    except HoldfastError as wrong:
        return failure("database", wrong.message, remedy=_remedy(path))
    return well("database", f"`{path.name}` opens, and its schema is that of this version (`{version}`)")


def _damage(path: Path) -> list[Finding]:
    from holdfast.store.sqlite.file import find_damage

    try:
        found = find_damage(path)
    except HoldfastError as wrong:
        return [failure("integrity", wrong.message, remedy=_remedy(path))]
    if found is None:
        return [well("integrity", "nothing wrong was found before the time was over: the file is large")]
    if found:
        return [failure("integrity", f"the file is damaged: {found[0]}", remedy=_remedy(path))]
    return [well("integrity", "nothing in the file is damaged")]


def _remedy(path: Path) -> str:
    return f"put back a copy of `{path.name}` from before, or see to it that this user may read it"


async def _look_at_postgres(url: str) -> list[Finding]:
    from holdfast.store.postgres.database import inspect_database

    try:
        seen = await inspect_database(url)
    except HoldfastError as wrong:
        return [failure("database", wrong.message, remedy="see to it that the server answers, and check the URL")]
    version = ".".join(map(str, seen.version))
    found = [well("database", f"PostgreSQL {version} answers, and its schema is that of this version")]
    if seen.missing:
        message = f"PostgreSQL {version} answers, and {seen.missing} migrations are still to be applied"
        found = [warning("database", message, remedy=_UPGRADE)]
    if seen.version[0] < OLDEST_POSTGRES:
        remedy = f"upgrade it to {OLDEST_POSTGRES} or later"
        found.append(warning("database", f"PostgreSQL {version} gets no corrections any more", remedy=remedy))
    return found
