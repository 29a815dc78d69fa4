"""Opening a store and closing it, or failing to open it, leaves no thread, no file and no connection behind.

Each time in a process of its own, where nobody else opens and closes anything.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from holdfast.bootstrap import open_bus, open_store
from holdfast.bus.local import LocalBus
from holdfast.domain.errors import HoldfastError
from tests.scenario.conftest import NewLocation
from tests.scenario.load import HANG_TIMEOUT_SECONDS
from tests.support.fork_server import ForkServer, SendMessage

TIMES: Final = 20


class Task(msgspec.Struct, frozen=True):
    """The location of a store, and locations that cannot be opened meanwhile."""

    location: str
    closed: list[str] = []


def work(raw: Any, send_message: SendMessage) -> None:
    """Open and close, report the errors, and fail if a resource is left."""
    task = msgspec.convert(raw, Task)
    asyncio.run(_fail_to_open(task, send_message) if task.closed else _open_and_close(task.location))


async def _open_and_close(location: str) -> None:
    await _open_once(location)
    before = _resources()
    async with asyncio.timeout(HANG_TIMEOUT_SECONDS):
        for _ in range(TIMES):
            await _open_once(location)
    await _wait_for_resources(before)


async def _open_once(location: str) -> None:
    async with open_bus(location) as bus, open_store(location, bus=bus) as store:
        await store.spaces.page()


async def _fail_to_open(task: Task, send_message: SendMessage) -> None:
    async with open_store(task.location, bus=LocalBus()) as store:
        await store.spaces.page()
        before = _resources()
        for where in task.closed * TIMES:
            try:
                async with open_store(where, bus=LocalBus()):
                    send_message("opened")
            except HoldfastError as error:
                send_message(type(error).__name__)
        await _wait_for_resources(before)


@pytest.fixture(scope="module")
async def openers() -> AsyncIterator[ForkServer]:
    async with ForkServer(f"{__name__}:work") as server:
        yield server


async def test_opening_and_closing_leaves_nothing_behind(openers: ForkServer, new_location: NewLocation) -> None:
    await openers.send(Task(str(await new_location())))


async def test_a_failed_open_leaves_nothing_behind(
    openers: ForkServer, backend: str, new_location: NewLocation, tmp_path: Path
) -> None:
    location = str(await new_location())
    (tmp_path / "text.db").write_bytes(b"this is no database" * 100)
    closed = {
        location: "StoreOwned",
        str(tmp_path / "text.db"): "StoreCorrupt",
        str(tmp_path / "missing" / "holdfast.db"): "Unavailable",
    }
    if backend == "postgres":
        closed = {location.replace("scenario_", "missing_"): "Unavailable"}
    death = await openers.send(Task(location, [*closed]))
    assert death.messages == [*closed.values()] * TIMES


async def _wait_for_resources(before: Counter[str]) -> None:
    """Raise unless the open resources are the same as before; the loop closes sockets in its next iterations."""
    for _ in range(100):
        if _resources() == before:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"left: {_resources() - before}, gone: {before - _resources()}")


def _resources() -> Counter[str]:
    """Return the threads of the store, and the open files of this process."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast")]
    return Counter([*threads, *_open_files()])


def _open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            # The name of each socket and pipe contains its own number.
            yield os.readlink(f"/proc/self/fd/{number}").partition(":[")[0]
