"""Victims do what they are told, die when they are told, and never fail in silence."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support import fork_server as kills
from tests.support.fork_server import ForkServer, Say


def work(task: Any, say: Say) -> None:
    """What the victims here do."""
    say({"told": task})
    if task == "fail":
        raise ValueError("as told")
    if task == "hang":
        time.sleep(60)


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[ForkServer]:
    async with ForkServer(f"{__name__}:work") as server:
        yield server


async def test_a_victim_that_comes_to_its_end_has_said_everything(server: ForkServer) -> None:
    for task in ("one", "two"):
        death = await server.send(task)
        assert death.said == [{"told": task}]
        assert not death.killed


async def test_a_victim_is_killed_when_its_time_is_over(server: ForkServer) -> None:
    death = await server.send("hang", seconds=0.2)
    assert death.said == [{"told": "hang"}]
    assert death.killed


async def test_a_victim_that_fails_says_why(server: ForkServer) -> None:
    with pytest.raises(AssertionError, match="ValueError: as told"):
        await server.send("fail")


async def test_a_victim_that_hangs_is_not_waited_for(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "HANG_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(AssertionError, match="hung"):
        await server.send("hang")
