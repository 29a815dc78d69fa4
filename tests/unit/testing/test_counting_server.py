"""The counting server records every call, even if its caller dies."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.counting_server import CountedCall, CountingServer, calling


@pytest.fixture
async def server() -> AsyncIterator[CountingServer]:
    async with CountingServer() as server:
        yield server


async def test_a_call_is_counted_before_it_ends(server: CountingServer) -> None:
    async with calling(server.path, tool="charge", key="k1", name="fuel") as finish:
        assert await server.calls() == [CountedCall(tool="charge", key="k1", name="fuel")]
        await finish()
    assert len(await server.calls()) == 1


async def test_an_abandoned_call_stays_counted(server: CountingServer) -> None:
    async with calling(server.path, tool="charge", key="k1", name="fuel"):
        pass
    async with calling(server.path, tool="charge", key="k1", name="fuel") as finish:
        await finish()
    assert [call.key for call in await server.calls()] == ["k1", "k1"]


async def test_calls_are_listed_by_name_prefix(server: CountingServer) -> None:
    for name in ("one/a", "two/a", "one/b"):
        async with calling(server.path, tool="look", key=name, name=name) as finish:
            await finish()
    assert [call.name for call in await server.calls("one/")] == ["one/a", "one/b"]


async def test_a_call_that_is_held_ends_when_it_is_released(server: CountingServer) -> None:
    await server.hold("fuel")
    async with calling(server.path, tool="charge", key="k1", name="fuel") as finish, asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(_wait(finish()))
        await server.wait_until_held("fuel")
        assert not ending.done()
        await server.release("fuel")


async def test_waiting_for_a_name_that_is_not_held_returns_at_once(server: CountingServer) -> None:
    await server.wait_until_held("fuel")
    await server.release("fuel")


async def _wait(ending: object) -> None:
    await ending  # type: ignore[misc]
