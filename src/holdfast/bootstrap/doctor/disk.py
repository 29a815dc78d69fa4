"""The disk that the log is on: what a sync costs there, what it is worth, and how much room there is.

A commit is on disk when the operating system says so. Whether that is true is known to nobody but the disk; what gives
it away is a sync that takes less time than any disk needs.
"""

import os
import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from holdfast.bootstrap.doctor.finding import Finding, failure, warning, well

TRIES: Final = 20
PAGE: Final = 4096
TOO_FAST: Final = 0.000_03
"""Seconds: no disk writes in less."""
SLOW: Final = 0.02
LITTLE_ROOM: Final = 1024**3
NO_ROOM: Final = 100 * 1024**2

_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_NETWORK: Final = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "afs")
_POSTGRES: Final = "use a disk of this machine, or PostgreSQL (`--database`)"


def look_at_disk(folder: Path) -> list[Finding]:
    """Return what is found about a disk that the log is on, in `folder`."""
    return [*_file_system(folder), _sync(folder), room(folder)]


def judged(seconds: float) -> Finding:
    """Return what it means that a sync takes so long."""
    told = f"a sync takes {seconds * 1000:.2f} ms"
    if seconds < TOO_FAST:
        return warning(
            "disk sync",
            f"{told}, less than a disk needs: something says that data is safe before it is. A process that is killed "
            "loses nothing, but a machine that loses its power may lose the last commits",
            remedy="turn off the write cache that is in between (of the virtual disk, the controller or the container)",
        )
    if seconds > SLOW:
        message = f"{told}: about {1 / seconds:.0f} batches of commits a second, and words of models come late"
        return warning("disk sync", message, remedy="put the workspace on a faster disk, or use PostgreSQL")
    return well("disk sync", f"{told}: what is committed is on disk, about {1 / seconds:.0f} batches a second")


def _sync(folder: Path) -> Finding:
    try:
        return judged(_seconds(folder))
    except OSError as exc:
        message = f"cannot write to `{folder}`: {exc.strerror or exc}"
        return failure("disk sync", message, remedy="let the user of the server write there")


def _seconds(folder: Path) -> float:
    """Return how long a sync usually takes, tried with a file that has no name and leaves nothing."""
    sync = getattr(os, "fdatasync", os.fsync)  # as SQLite does
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(TRIES):
            file.write(os.urandom(PAGE))
            begun = perf_counter()
            sync(file.fileno())
            taken.append(perf_counter() - begun)
    return median(taken)


def _file_system(folder: Path) -> list[Finding]:
    kind = file_system_of(folder)
    if kind in _MEMORY:
        message = f"the log is on {kind}, which is memory: it is gone when the machine is"
        return [warning("file system", message, remedy=_POSTGRES)]
    if kind.startswith(_NETWORK):
        message = f"the log is on {kind}, where the locks of SQLite cannot be relied on"
        return [warning("file system", message, remedy=_POSTGRES)]
    return [well("file system", kind)] if kind else []


def file_system_of(folder: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the kind of the file system that `folder` is on; nothing where the system does not tell."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    found = {_unescaped(line.split()[4]): line.partition(" - ")[2].split()[0] for line in lines}
    resolved = folder.resolve()
    return next((found[str(each)] for each in (resolved, *resolved.parents) if str(each) in found), "")


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def room(folder: Path) -> Finding:
    """Return how much room there is on a disk."""
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB are free"
    if free < NO_ROOM:
        return failure("disk space", told, remedy="make room: without it nothing is committed")
    if free < LITTLE_ROOM:
        return warning("disk space", told, remedy="make room before it runs out: then nothing is committed any more")
    return well("disk space", told)
