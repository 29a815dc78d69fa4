"""Storage checks of `holdfast doctor`: the database and the disk that holds it.

A commit is on disk when the operating system says so. Only the disk knows whether that is true; a sync that is faster
than any disk reveals a write cache.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from holdfast.bootstrap.doctor.finding import Finding, failure, ok, warning
from holdfast.bootstrap.server_options import check_database
from holdfast.bootstrap.store import is_postgres
from holdfast.domain.errors import HoldfastError, Invalid, StoreReadOnly

MIN_POSTGRES_VERSION: Final = 14
"""Older ones get no corrections from their makers any more."""

_UPGRADE_REMEDY: Final = "nothing: the next `holdfast serve` brings it up to date"


async def diagnose_database(where: str | Path, *, own: bool) -> list[Finding]:
    """Return what is found about the database at `where`; the workspace's own is made when it is first served."""
    try:
        check_database(str(where))
    except Invalid as refused:
        return [failure("database", refused.message, remedy="give another `--database`")]
    if is_postgres(where):
        return await _diagnose_postgres(str(where))
    return await asyncio.to_thread(_diagnose_sqlite, Path(where), own=own)


def _diagnose_sqlite(path: Path, *, own: bool) -> list[Finding]:
    from holdfast.store.sqlite.file import owner_of

    if not own and not path.absolute().parent.is_dir():
        return [failure("database", f"there is no folder for `{path.name}`", remedy=f"make `{path.parent}`")]
    if not path.exists():
        return [ok("database", f"there is no `{path.name}` yet: the first `holdfast serve` makes it")]
    owner = owner_of(path)
    found = [ok("server", "no process writes to the database" if owner is None else f"process {owner} uses it now")]
    return [*found, _diagnose_schema(path), *_diagnose_integrity(path)]


def _diagnose_schema(path: Path) -> Finding:
    from holdfast.store.sqlite.file import schema_version

    try:
        version = schema_version(path)
    except StoreReadOnly as behind:
        return warning("database", behind.message, remedy=_UPGRADE_REMEDY)
    except HoldfastError as wrong:
        return failure("database", wrong.message, remedy=_restore_remedy(path))
    return ok("database", f"`{path.name}` opens, and its schema is that of this version (`{version}`)")


def _diagnose_integrity(path: Path) -> list[Finding]:
    from holdfast.store.sqlite.file import find_damage

    try:
        found = find_damage(path)
    except HoldfastError as wrong:
        return [failure("integrity", wrong.message, remedy=_restore_remedy(path))]
    if found is None:
        return [ok("integrity", "nothing wrong was found before the time was over: the file is large")]
    if found:
        return [failure("integrity", f"the file is damaged: {found[0]}", remedy=_restore_remedy(path))]
    return [ok("integrity", "nothing in the file is damaged")]


def _restore_remedy(path: Path) -> str:
    return f"put back a copy of `{path.name}` from before, or see to it that this user may read it"


async def _diagnose_postgres(url: str) -> list[Finding]:
    from holdfast.store.postgres.database import inspect_database

    try:
        seen = await inspect_database(url)
    except HoldfastError as wrong:
        return [failure("database", wrong.message, remedy="see to it that the server answers, and check the URL")]
    version = ".".join(map(str, seen.version))
    found = [ok("database", f"PostgreSQL {version} answers, and its schema is that of this version")]
    if seen.missing:
        message = f"PostgreSQL {version} answers, and {seen.missing} migrations are still to be applied"
        found = [warning("database", message, remedy=_UPGRADE_REMEDY)]
    if seen.version[0] < MIN_POSTGRES_VERSION:
        remedy = f"upgrade it to {MIN_POSTGRES_VERSION} or later"
        found.append(warning("database", f"PostgreSQL {version} gets no corrections any more", remedy=remedy))
    return found


SYNC_TRIES: Final = 20
SYNC_PAGE_BYTES: Final = 4096
MIN_SYNC_SECONDS: Final = 0.000_03
"""Seconds: no disk writes in less."""
SLOW_SYNC_SECONDS: Final = 0.02
LOW_SPACE_BYTES: Final = 1024**3
MIN_SPACE_BYTES: Final = 100 * 1024**2

_MEMORY_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
_NETWORK_FILE_SYSTEMS: Final = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "afs")
_LOCAL_DISK_REMEDY: Final = "use a disk of this machine, or PostgreSQL (`--database`)"


def diagnose_disk(folder: Path) -> list[Finding]:
    """Return what is found about a disk that the log is on, in `folder`."""
    return [*_diagnose_file_system(folder), _diagnose_sync(folder), diagnose_free_space(folder)]


def sync_finding(seconds: float) -> Finding:
    """Return what it means that a sync takes so long."""
    told = f"a sync takes {seconds * 1000:.2f} ms"
    if seconds < MIN_SYNC_SECONDS:
        return warning(
            "disk sync",
            f"{told}, less than a disk needs: something says that data is safe before it is. A process that is killed "
            "loses nothing, but a machine that loses its power may lose the last commits",
            remedy="turn off the write cache that is in between (of the virtual disk, the controller or the container)",
        )
    if seconds > SLOW_SYNC_SECONDS:
        message = f"{told}: about {1 / seconds:.0f} batches of commits a second, and words of models come late"
        return warning("disk sync", message, remedy="put the workspace on a faster disk, or use PostgreSQL")
    return ok("disk sync", f"{told}: what is committed is on disk, about {1 / seconds:.0f} batches a second")


def _diagnose_sync(folder: Path) -> Finding:
    try:
        return sync_finding(_median_sync_seconds(folder))
    except OSError as exc:
        message = f"cannot write to `{folder}`: {exc.strerror or exc}"
        return failure("disk sync", message, remedy="let the user of the server write there")


def _median_sync_seconds(folder: Path) -> float:
    """Return how long a sync usually takes, tried with a file that has no name and leaves nothing."""
    sync = getattr(os, "fdatasync", os.fsync)  # as SQLite does
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNC_TRIES):
            file.write(os.urandom(SYNC_PAGE_BYTES))
            begun = perf_counter()
            sync(file.fileno())
            taken.append(perf_counter() - begun)
    return median(taken)


def _diagnose_file_system(folder: Path) -> list[Finding]:
    kind = file_system_type(folder)
    if kind in _MEMORY_FILE_SYSTEMS:
        message = f"the log is on {kind}, which is memory: it is gone when the machine is"
        return [warning("file system", message, remedy=_LOCAL_DISK_REMEDY)]
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        message = f"the log is on {kind}, where the locks of SQLite cannot be relied on"
        return [warning("file system", message, remedy=_LOCAL_DISK_REMEDY)]
    return [ok("file system", kind)] if kind else []


def file_system_type(folder: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the kind of the file system that `folder` is on; nothing where the system does not tell."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    found = {_unescape_mount(line.split()[4]): line.partition(" - ")[2].split()[0] for line in lines}
    resolved = folder.resolve()
    return next((found[str(each)] for each in (resolved, *resolved.parents) if str(each) in found), "")


def _unescape_mount(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def diagnose_free_space(folder: Path) -> Finding:
    """Return how much room there is on a disk."""
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB are free"
    if free < MIN_SPACE_BYTES:
        return failure("disk space", told, remedy="make room: without it nothing is committed")
    if free < LOW_SPACE_BYTES:
        return warning("disk space", told, remedy="make room before it runs out: then nothing is committed any more")
    return ok("disk space", told)
