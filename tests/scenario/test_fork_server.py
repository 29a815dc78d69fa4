"""`ForkServer`: victims execute their task, die on schedule, and never fail silently."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support import fork_server as kills
from tests.support.fork_server import ForkServer, SendMessage


def work(task: Any, send_message: SendMessage) -> None:
    """Execute the task of a victim."""
    send_message({"told": task})
    if task == "fail":
        raise ValueError("as told")
    if task == "hang":
        time.sleep(60)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[ForkServer]:
    async with ForkServer(f"{__name__}:work") as server:
        yield server


async def test_a_victim_that_finishes_has_sent_all_its_output(server: ForkServer) -> None:
    for task in ("one", "two"):
        death = await server.send(task)
        assert death.messages == [{"told": task}]
        assert not death.killed


async def test_a_victim_is_killed_after_its_seconds(server: ForkServer) -> None:
    death = await server.send("hang", seconds=0.2)
    assert death.messages == [{"told": "hang"}]
    assert death.killed


async def test_a_failing_victim_reports_the_reason(server: ForkServer) -> None:
    with pytest.raises(AssertionError, match="ValueError: as told"):
        await server.send("fail")


async def test_a_hanging_victim_is_killed(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "HANG_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(AssertionError, match="hung"):
        await server.send("hang")
