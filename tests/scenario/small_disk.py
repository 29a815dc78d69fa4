"""Scenes on a full or read-only disk, played by a process with its own mount.

    unshare --mount python -m tests.scenario.small_disk NAME FOLDER

The disk is a small tmpfs, mounted on FOLDER where nobody else sees it, and gone with the process.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.control.monitoring import WRITE_CHECK_INTERVAL_SECONDS, HealthControl
from holdfast.domain.commit import Lease
from holdfast.domain.errors import OutcomeUnknown, StoreFull, StoreReadOnly, Unavailable
from holdfast.store.store import Store
from tests.scenario.load import HANG_TIMEOUT_SECONDS, check_commits, create_leased_runs, numbered_commit
from tests.support.database_probe import open_probe
from tests.support.log_check import check_rows
from tests.support.postgres import PostgresServer

SMALL: Final = "size=3m"
LARGE: Final = "size=64m"


async def full(folder: Path) -> None:
    """A full disk refuses writes, keeps its data, and accepts writes again when there is space."""
    path = folder / "holdfast.db"
    async with open_store(path, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 4)
        acknowledged = await _fill(store, leases)
        for lease in leases:
            await check_commits(store, lease, acknowledged=acknowledged, attempted=range(1, len(acknowledged) + 2))
        with pytest.raises(StoreFull):  # larger than the commit that did not fit
            await store.journal.commit(numbered_commit(leases[0], 1_000, padding=300_000))
        _remount(LARGE, folder)
        await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 2_000)) for lease in leases))
        for lease in leases:
            committed = await check_commits(store, lease, acknowledged=[*acknowledged, 2_000], attempted=range(2_001))
            assert 1_000 not in committed
    async with open_probe(path) as probe:
        await check_rows(probe)
        assert [tuple(row.values()) for row in await probe.rows("PRAGMA integrity_check")] == [("ok",)]


async def full_and_ready(folder: Path) -> None:
    """A server with a full disk is not ready and names the remedy; with space it is ready again."""
    ballast = folder / "ballast"
    now = 0.0
    async with open_store(folder / "holdfast.db", bus=LocalBus()) as store:
        health = HealthControl(store.health, version="1", monotonic=lambda: now)
        await health.ready()
        _stuff(ballast)
        now += WRITE_CHECK_INTERVAL_SECONDS
        with pytest.raises(StoreFull, match="the disk is full, so nothing was written: free some space"):
            await health.ready()
        ballast.unlink()
        now += WRITE_CHECK_INTERVAL_SECONDS
        await health.ready()


async def no_larger_file_and_ready(folder: Path) -> None:
    """A server whose disk fails every write is not ready; once writes succeed it is ready again."""
    now = 0.0
    async with open_store(folder / "holdfast.db", bus=LocalBus()) as store:
        health = HealthControl(store.health, version="1", monotonic=lambda: now)
        await health.ready()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        now += WRITE_CHECK_INTERVAL_SECONDS
        with pytest.raises(Unavailable, match="the disk fails") as refused:
            await health.ready()
        assert refused.value.code == "UNAVAILABLE"
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        now += WRITE_CHECK_INTERVAL_SECONDS
        await health.ready()


async def full_at_once(folder: Path) -> None:
    """A store cannot be opened on a full disk, and can once there is space."""
    path = folder / "holdfast.db"
    ballast = folder / "ballast"
    _stuff(ballast)
    with pytest.raises(StoreFull):
        async with open_store(path, bus=LocalBus()):
            pass
    ballast.unlink()
    async with open_store(path, bus=LocalBus()) as store:
        (lease,) = await create_leased_runs(store, 1)
        await store.journal.commit(numbered_commit(lease, 1))
    _stuff(ballast)
    with pytest.raises(Unavailable):  # even a reader needs space for the index of the WAL
        async with open_store(path, bus=LocalBus(), read_only=True):
            pass
    ballast.unlink()
    await _check_recovery_data(path, lease)


async def no_larger_file(folder: Path) -> None:
    """A disk error during a commit leaves the outcome unknown, and the commit complete or absent."""
    path = folder / "holdfast.db"
    async with open_store(path, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 4)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
        acknowledged = await _fill(store, leases, error=OutcomeUnknown)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for lease in leases:
            await check_commits(store, lease, acknowledged=acknowledged, attempted=range(1, len(acknowledged) + 2))
        await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 2_000)) for lease in leases))
        for lease in leases:
            await check_commits(store, lease, acknowledged=[*acknowledged, 2_000], attempted=range(2_001))


async def read_only_folder(folder: Path) -> None:
    """A store on a read-only disk is refused, and works once the disk is writable."""
    path = folder / "holdfast.db"
    lease = await _write_recovery_data(path)
    _remount("ro", folder)
    with pytest.raises(StoreReadOnly):
        async with open_store(path, bus=LocalBus()):
            pass
    _remount("rw", folder)
    await _check_recovery_data(path, lease)


async def read_only_file(folder: Path) -> None:
    """A read-only database file is refused, and works once it is writable."""
    path = folder / "holdfast.db"
    lease = await _write_recovery_data(path)
    _run("mount", "-o", "bind", path, path)
    _run("mount", "-o", "remount,bind,ro", path)
    with pytest.raises(StoreReadOnly):
        async with open_store(path, bus=LocalBus()):
            pass
    async with open_store(path, bus=LocalBus(), read_only=True) as store:
        await check_commits(store, lease, acknowledged=[1], attempted=[1])
    _run("umount", path)
    await _check_recovery_data(path, lease)


async def full_postgres(folder: Path) -> None:
    """A PostgreSQL with a full disk refuses writes, keeps its data, and accepts writes again when there is space."""
    async with PostgresServer() as server:
        url = await _database_on(server, folder)
        async with open_store(url, bus=LocalBus()) as store:
            leases = await create_leased_runs(store, 4)
            acknowledged = await _fill(store, leases)
            for lease in leases:
                await check_commits(store, lease, acknowledged=acknowledged, attempted=range(1, len(acknowledged) + 2))
            _remount(LARGE, folder)
            await asyncio.gather(*(store.journal.commit(numbered_commit(lease, 2_000)) for lease in leases))
            for lease in leases:
                await check_commits(store, lease, acknowledged=[*acknowledged, 2_000], attempted=range(2_001))
        async with open_probe(url) as probe:
            await check_rows(probe)


Scene: TypeAlias = Callable[[Path], Awaitable[None]]
ON_ANY_DISK: Final[Mapping[str, Scene]] = {
    "no_larger_file": no_larger_file,
    "no_larger_file_and_ready": no_larger_file_and_ready,
}
ON_A_SMALL_DISK: Final[Mapping[str, Scene]] = {
    "full": full,
    "full_and_ready": full_and_ready,
    "full_at_once": full_at_once,
    "read_only_folder": read_only_folder,
    "read_only_file": read_only_file,
    "full_postgres": full_postgres,
}


async def _fill(store: Store, leases: list[Lease], *, error: type[Exception] = StoreFull) -> list[int]:
    """Commit to all runs concurrently until the disk is full; return the acknowledged numbers of each run."""
    for number in range(1, 1_000):
        commits = (store.journal.commit(numbered_commit(lease, number, padding=50_000)) for lease in leases)
        results = await asyncio.gather(*commits, return_exceptions=True)
        failed = [type(result) for result in results if isinstance(result, BaseException)]
        if failed:
            assert failed == [error] * len(failed)
            return list(range(1, number))
    raise AssertionError("the disk was never full")


async def _write_recovery_data(path: Path) -> Lease:
    async with open_store(path, bus=LocalBus()) as store:
        (lease,) = await create_leased_runs(store, 1)
        await store.journal.commit(numbered_commit(lease, 1))
    return lease


async def _check_recovery_data(path: Path, lease: Lease) -> None:
    async with open_store(path, bus=LocalBus()) as store:
        await check_commits(store, lease, acknowledged=[1], attempted=[1])
        await store.runs.end(lease.space_id, lease.run_id)


def _stuff(ballast: Path) -> None:
    """Write until the disk is full."""
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(512))


async def _database_on(server: PostgresServer, folder: Path) -> str:
    _remount("size=24m", folder)
    os.chown(folder, 65534, 65534)
    async with open_probe(server.url()) as probe:
        await probe.rows(f"CREATE TABLESPACE small LOCATION '{folder}'")
        await probe.rows("CREATE DATABASE small TABLESPACE small")
    return server.url("small")


def _remount(options: str, folder: Path) -> None:
    _run("mount", "-t", "tmpfs", "-o", f"remount,{options}", "tmpfs", folder)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


async def _main(name: str, folder: Path) -> None:
    if name in ON_A_SMALL_DISK:
        _run("mount", "-t", "tmpfs", "-o", SMALL, "tmpfs", folder)
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        await {**ON_ANY_DISK, **ON_A_SMALL_DISK}[name](folder)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
