"""A database file that is owned, damaged or invalid: a typed error, and recovery once the fault is fixed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.commit import Lease
from holdfast.domain.errors import StoreCorrupt, StoreOwned, StoreReadOnly, Unavailable
from holdfast.domain.ids import SpaceId
from tests.scenario.load import SPACE, check_commits, create_leased_runs, numbered_commit

PAGE_BYTES: Final = 4096
OWNER: Final = """
import asyncio, sys
from holdfast.bootstrap import open_store
from holdfast.domain.ids import SpaceId
async def own():
    async with open_store(sys.argv[1]) as store:
        await store.spaces.create(SpaceId("acme"), name="Acme")
        print("ready", flush=True)
        sys.stdin.readline()
asyncio.run(own())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
async def leases(path: Path) -> list[Lease]:
    """Return leases of runs with messages, in a closed file."""
    async with open_store(path, bus=LocalBus()) as store:
        leases = await create_leased_runs(store, 2)
        for number in range(20):
            for lease in leases:
                await store.journal.commit(numbered_commit(lease, number, padding=3_000))
    return leases


@pytest.fixture
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield another process that has the file open for writing."""
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


async def test_a_file_that_another_process_owns_may_only_be_read(path: Path, owner: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreOwned, match=f"process {owner.pid} "):
        await _open(path)
    async with open_store(path, bus=LocalBus(), read_only=True) as reader:
        assert (await reader.spaces.get(SPACE)).name == "Acme"
        with pytest.raises(StoreReadOnly):
            await reader.spaces.create(SpaceId("other"), name="Other")
        owner.kill()
        owner.wait()
        async with open_store(path, bus=LocalBus()) as store:
            await store.spaces.create(SpaceId("other"), name="Other")
        assert (await reader.spaces.get(SpaceId("other"))).name == "Other"


@pytest.mark.parametrize("link", [Path.hardlink_to, Path.symlink_to])
async def test_a_file_that_another_process_owns_is_refused_by_any_name(
    path: Path, owner: subprocess.Popen[str], link: Callable[[Path, Path], None]
) -> None:
    other = path.with_name("other") / "linked.db"
    other.parent.mkdir()
    link(other, path)
    with pytest.raises(StoreOwned, match="by another name"):
        await _open(other)
    owner.kill()
    owner.wait()
    await _open(path)


async def test_a_process_owns_a_file_once(path: Path) -> None:
    async with open_store(path, bus=LocalBus()):
        with pytest.raises(StoreOwned, match=f"process {os.getpid()} "):
            await _open(path)
    await _open(path)


def _garbage_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage " * 12)


def _garbage_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(b"\xa5" * (path.stat().st_size - PAGE_BYTES))


def _zeroes(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(bytes(path.stat().st_size - PAGE_BYTES))


def _cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _something_else(path: Path) -> None:
    path.write_text("this is not a database\n" * 200)


@pytest.mark.parametrize("damage", [_garbage_header, _garbage_pages, _zeroes, _cut_off, _something_else])
async def test_a_damaged_file_is_refused_until_it_is_restored(
    path: Path, leases: list[Lease], damage: Callable[[Path], None]
) -> None:
    backup = shutil.copy(path, path.with_suffix(".backup"))
    damage(path)
    for read_only in (False, True):
        with pytest.raises(StoreCorrupt):
            await _open(path, read_only=read_only)
    for left in ("-wal", "-shm"):
        path.with_name(f"{path.name}{left}").unlink(missing_ok=True)
    shutil.copy(backup, path)
    async with open_store(path, bus=LocalBus()) as store:
        for lease in leases:
            await check_commits(store, lease, acknowledged=range(20), attempted=range(20))


async def test_a_damaged_page_fails_only_the_reads_that_need_it(path: Path, leases: list[Lease]) -> None:
    async with open_store(path, bus=LocalBus(), read_only=True) as store:
        last = (await store.messages.of_run(SPACE, leases[0].run_id))[-1]
    _damage_page_with(path, f'"{last.content}"')
    async with open_store(path, bus=LocalBus()) as store:
        with pytest.raises(StoreCorrupt):
            await store.messages.of_run(SPACE, leases[0].run_id)
        await check_commits(store, leases[1], acknowledged=range(20), attempted=range(20))
        await store.spaces.create(SpaceId("other"), name="Other")


async def test_a_removed_file_accepts_no_writes_until_it_is_restored(path: Path, leases: list[Lease]) -> None:
    async with open_store(path, bus=LocalBus()) as store:
        aside = path.with_suffix(".aside")
        os.rename(path, aside)
        with pytest.raises(Unavailable, match="moved or deleted"):
            await store.spaces.create(SpaceId("other"), name="Other")
        shutil.copy(aside, path)
        with pytest.raises(Unavailable, match="moved or deleted"):
            await store.spaces.create(SpaceId("other"), name="Other")
        os.rename(aside, path)
        await store.spaces.create(SpaceId("other"), name="Other")
        for lease in leases:
            await check_commits(store, lease, acknowledged=range(20), attempted=range(20))


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    with pytest.raises(Unavailable, match="missing"):
        await _open(folder / "holdfast.db")
    os.mkdir(folder)
    await _open(folder / "holdfast.db")


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await _open(tmp_path)


async def test_a_missing_file_cannot_be_read(path: Path) -> None:
    with pytest.raises(Unavailable):
        await _open(path, read_only=True)
    assert os.listdir(path.parent) == []


async def _open(path: Path, *, read_only: bool = False) -> None:
    async with open_store(path, bus=LocalBus(), read_only=read_only):
        pass


def _damage_page_with(path: Path, text: str) -> None:
    """Overwrite the page of the message with `text`; its event is on another page."""
    content = path.read_bytes()
    (offset,) = [found.start() for found in re.finditer(f'(?<!"delta":){text}'.encode(), content)]
    with path.open("r+b") as file:
        file.seek(offset // PAGE_BYTES * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)
