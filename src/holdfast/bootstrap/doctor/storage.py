"""Storage checks of `holdfast doctor`: the database and the disk that holds it.

A commit is durable when the operating system reports a completed sync. A sync that is faster than any disk reveals a
volatile write cache.
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
from holdfast.domain.errors import HoldfastError, Invalid, StoreReadOnly, StoreTooNew

MIN_POSTGRES_VERSION: Final = 14
"""Older versions receive no fixes any more."""

_UPGRADE_REMEDY: Final = "back it up; the next `holdfast serve` migrates it"


async def diagnose_database(where: str | Path, *, is_default: bool) -> list[Finding]:
    """Check the database at `where`; the default one of a workspace may not exist yet."""
    try:
        check_database(str(where))
    except Invalid as exc:
        return [failure("database", exc.message, remedy="use another `--database`")]
    if is_postgres(where):
        return await _diagnose_postgres(str(where))
    return await asyncio.to_thread(_diagnose_sqlite, Path(where), is_default=is_default)


def _diagnose_sqlite(path: Path, *, is_default: bool) -> list[Finding]:
    from holdfast.store.sqlite.file import find_damage, owner_of, schema_version

    if not is_default and not path.absolute().parent.is_dir():
        return [failure("database", f"the folder of `{path.name}` does not exist", remedy=f"create `{path.parent}`")]
    if not path.exists():
        return [ok("database", f"`{path.name}` does not exist yet: the first `holdfast serve` creates it")]
    owner = owner_of(path)
    message = "no process writes to the database" if owner is None else f"process {owner} uses it now"
    findings = [ok("server", message)]
    restore = f"restore `{path.name}` from a backup, or give this user read access"
    try:
        findings.append(ok("database", f"`{path.name}` opens, and its schema is current (`{schema_version(path)}`)"))
    except StoreReadOnly as exc:
        findings.append(warning("database", exc.message, remedy=_UPGRADE_REMEDY))
    except StoreTooNew as exc:
        newer = "install that version, or restore the backup from before the upgrade"
        findings.append(failure("database", exc.message, remedy=newer))
    except HoldfastError as exc:
        findings.append(failure("database", exc.message, remedy=restore))
    try:
        damage = find_damage(path)
    except HoldfastError as exc:
        return [*findings, failure("integrity", exc.message, remedy=restore)]
    if damage:
        return [*findings, failure("integrity", f"the file is damaged: {damage[0]}", remedy=restore)]
    is_large = "no damage found within the time limit: the file is large"
    return [*findings, ok("integrity", is_large if damage is None else "the file is not damaged")]


async def _diagnose_postgres(url: str) -> list[Finding]:
    from holdfast.store.postgres.database import inspect_database

    try:
        database = await inspect_database(url)
    except HoldfastError as exc:
        return [failure("database", exc.message, remedy="check the URL, and that the server is running")]
    version = ".".join(map(str, database.version))
    findings = [ok("database", f"PostgreSQL {version} responds, and its schema is current")]
    if database.missing:
        message = f"PostgreSQL {version} responds, and migrations are pending: {database.missing}"
        findings = [warning("database", message, remedy=_UPGRADE_REMEDY)]
    if database.version[0] < MIN_POSTGRES_VERSION:
        remedy = f"upgrade it to {MIN_POSTGRES_VERSION} or later"
        findings.append(warning("database", f"PostgreSQL {version} receives no fixes any more", remedy=remedy))
    return findings


SYNC_TRIES: Final = 20
SYNC_PAGE_BYTES: Final = 4096
MIN_SYNC_SECONDS: Final = 0.000_03
"""No disk completes a sync in less."""
SLOW_SYNC_SECONDS: Final = 0.02
LOW_SPACE_BYTES: Final = 1024**3
MIN_SPACE_BYTES: Final = 100 * 1024**2

_MEMORY_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs"})
_NETWORK_FILE_SYSTEMS: Final = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "afs")
_LOCAL_DISK_REMEDY: Final = "use a local disk, or PostgreSQL (`--database`)"


def diagnose_disk(folder: Path) -> list[Finding]:
    """Check the disk of `folder`, which holds the database."""
    findings = [_diagnose_sync(folder), diagnose_free_space(folder)]
    kind = file_system_type(folder)
    if kind in _MEMORY_FILE_SYSTEMS:
        message = f"the database is on {kind}, which is memory: it is lost when the machine stops"
        return [warning("file system", message, remedy=_LOCAL_DISK_REMEDY), *findings]
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        message = f"the database is on {kind}, where SQLite locks are not reliable"
        return [warning("file system", message, remedy=_LOCAL_DISK_REMEDY), *findings]
    return [ok("file system", kind), *findings] if kind else findings


def sync_finding(seconds: float) -> Finding:
    """Return the finding for a sync that takes this long."""
    message = f"a sync takes {seconds * 1000:.2f} ms"
    if seconds < MIN_SYNC_SECONDS:
        return warning(
            "disk sync",
            f"{message}, less than a disk needs: a write cache reports data as safe too early. A killed process loses "
            "nothing, but after a power failure the last commits may be lost",
            remedy="turn off the write cache (of the virtual disk, the controller or the container)",
        )
    if seconds > SLOW_SYNC_SECONDS:
        message = f"{message}: about {1 / seconds:.0f} commit batches per second, and streamed text is delayed"
        return warning("disk sync", message, remedy="put the workspace on a faster disk, or use PostgreSQL")
    return ok("disk sync", f"{message}: about {1 / seconds:.0f} commit batches per second")


def _diagnose_sync(folder: Path) -> Finding:
    sync = getattr(os, "fdatasync", os.fsync)  # as in SQLite
    durations = []
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(SYNC_TRIES):
                file.write(os.urandom(SYNC_PAGE_BYTES))
                started = perf_counter()
                sync(file.fileno())
                durations.append(perf_counter() - started)
    except OSError as exc:
        message = f"cannot write to `{folder}`: {exc.strerror or exc}"
        return failure("disk sync", message, remedy="give the user of the server write access")
    return sync_finding(median(durations))


def file_system_type(folder: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the file system type of `folder`; empty if it is unknown."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    types = {}
    for line in lines:
        mount = line.split()[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        types[mount] = line.partition(" - ")[2].split()[0]
    resolved = folder.resolve()
    return next((types[str(each)] for each in (resolved, *resolved.parents) if str(each) in types), "")


def diagnose_free_space(folder: Path) -> Finding:
    """Check the free space on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    message = f"{free / 1024**3:.1f} GiB are free"
    if free < MIN_SPACE_BYTES:
        return failure("disk space", message, remedy="free disk space: on a full disk every commit fails")
    if free < LOW_SPACE_BYTES:
        return warning("disk space", message, remedy="free disk space soon: on a full disk every commit fails")
    return ok("disk space", message)
