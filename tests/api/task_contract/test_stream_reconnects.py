"""The stream of a task can be cut anywhere and resumed: what was seen is all that happened, each event once."""

import asyncio
from random import Random
from typing import Final, TypeAlias

from holdfast.domain.content import Json
from tests.api.streams.readers import SseReader
from tests.api.task_contract.manual_worker import claim_new_task
from tests.api.task_contract.task_client import TaskClient, read_frames

CUTS: Final = 30
"""Of each reader, on each backend."""
READERS: Final = 4

Wanted: TypeAlias = asyncio.Queue[int]
"""How much more is to be done, as readers wait for it; 0 once one of them has made its cuts."""


async def test_240_cuts_lose_and_double_nothing(idle_client: TaskClient) -> None:
    worker, wanted = await claim_new_task(idle_client), Wanted()
    seen: list[list[Json]] = [[] for _ in range(READERS)]
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        for number, mine in enumerate(seen):
            tasks.create_task(_read(idle_client, worker.task, wanted, mine, Random(number)))
        ready = 0
        while ready < READERS:
            deeds = await wanted.get()
            ready += deeds == 0
            await worker.call_tools(deeds)
        await worker.finish()
    events = await idle_client.events(worker.task, limit=10_000)
    assert len(events) == 2 + 2 * worker.tool_calls > CUTS
    for each in seen:
        assert each == events


async def _read(client: TaskClient, task: str, wanted: Wanted, seen: list[Json], random: Random) -> None:
    """Read a stream that is cut so often, and then to its end."""
    for _ in range(CUTS):
        async with client.stream(task, after=seen[-1]["id"] if seen else None) as stream:
            await _read_some(stream, wanted, seen, random)
    wanted.put_nowait(0)
    async with client.stream(task, after=seen[-1]["id"] if seen else None) as stream:
        *told, last = read_frames(await stream.rest())
        assert last["type"] == "task.status"
        seen += told


async def _read_some(stream: SseReader, wanted: Wanted, seen: list[Json], random: Random) -> None:
    """Read some events of the replay, or of those that come live."""
    most = random.choice((0, 1, 1, 2, 3, 5))
    async for frame in stream.events():
        for event in read_frames([frame]):
            assert frame.id == event["id"]
            seen.append(event)
            most -= 1
        if most <= 0 or (frame.event == "status" and random.random() < 0.6):
            return
        if frame.event == "status":
            wanted.put_nowait(most)
