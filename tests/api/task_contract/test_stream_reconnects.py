"""The stream of a task can be disconnected anywhere and resumed: each event is received once."""

import asyncio
from random import Random
from typing import Final, TypeAlias

from holdfast.domain.content import Json
from tests.api.streams.readers import SseReader
from tests.api.task_contract.manual_worker import claim_new_task
from tests.api.task_contract.task_client import TaskClient, read_frames

DISCONNECTS: Final = 30
"""Per reader and backend."""
READERS: Final = 4

Requests: TypeAlias = asyncio.Queue[int]
"""Numbers of tool calls that readers wait for; 0 once a reader has made its disconnects."""


async def test_240_disconnects_lose_and_duplicate_nothing(idle_client: TaskClient) -> None:
    worker, requests = await claim_new_task(idle_client), Requests()
    seen: list[list[Json]] = [[] for _ in range(READERS)]
    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        for number, events in enumerate(seen):
            tasks.create_task(_read(idle_client, worker.task, requests, events, Random(number)))
        ready = 0
        while ready < READERS:
            count = await requests.get()
            ready += count == 0
            await worker.call_tools(count)
        await worker.finish()
    events = await idle_client.events(worker.task, limit=10_000)
    assert len(events) == 2 + 2 * worker.tool_calls > DISCONNECTS
    for each in seen:
        assert each == events


async def _read(client: TaskClient, task: str, requests: Requests, seen: list[Json], random: Random) -> None:
    """Disconnect from a stream repeatedly, then read it to its end."""
    for _ in range(DISCONNECTS):
        async with client.stream(task, after=seen[-1]["id"] if seen else None) as stream:
            await _read_some(stream, requests, seen, random)
    requests.put_nowait(0)
    async with client.stream(task, after=seen[-1]["id"] if seen else None) as stream:
        *events, last = read_frames(await stream.rest())
        assert last["type"] == "task.status"
        seen += events


async def _read_some(stream: SseReader, requests: Requests, seen: list[Json], random: Random) -> None:
    """Read some replayed or live events."""
    remaining = random.choice((0, 1, 1, 2, 3, 5))
    async for frame in stream.events():
        for event in read_frames([frame]):
            assert frame.id == event["id"]
            seen.append(event)
            remaining -= 1
        if remaining <= 0 or (frame.event == "status" and random.random() < 0.6):
            return
        if frame.event == "status":
            requests.put_nowait(remaining)
