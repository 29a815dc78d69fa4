"""A server killed with SIGKILL: readers lose no event, and everything it acknowledged exists."""

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from holdfast.api.streams.sse import PING
from holdfast.api.streams.websocket import WebSocketCloseCode
from holdfast.domain.ids import RunId
from holdfast.domain.run import RunStatus
from holdfast.domain.task_ids import run_id_of
from tests.api.conftest import write_agents
from tests.api.site import Site, serve
from tests.api.streams.readers import event_of, post, sse, ws
from tests.api.streams.restarting_server import RestartingServer, serve_with_restarts
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.support.postgres import PostgresServer

RUNS: Final = 8
"""Each run is followed over both transports."""
KILLS: Final = {"sqlite": 5, "postgres": 1}
KILLS_PER_SERVER: Final = 100
"""There are two servers; each is killed after every response."""
KILLS_TIMEOUT_SECONDS: Final = 300.0
"""Seconds after which a test counts as hanging."""

Events = list[tuple[int, bytes]]


@pytest.mark.parametrize("backend", KILLS)
async def test_16_readers_of_a_killed_server_see_every_event_once(
    backend: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    database = tmp_path / "holdfast.db" if backend == "sqlite" else await postgres.create_database("restarts")
    workshop = _write_long_agent(AgentWorkspace(tmp_path / "workspace", database))
    async with asyncio.timeout(KILLS_TIMEOUT_SECONDS):
        async with serve_with_restarts(tmp_path, database=database, workers=RUNS, lease=2.0) as server:
            runs = [await _start(server, number) for number in range(RUNS)]
            events: list[Events] = [[] for _ in range(2 * RUNS)]
            async with asyncio.TaskGroup() as tasks:
                for run, by_sse, by_ws in zip(runs, events[::2], events[1::2], strict=True):
                    tasks.create_task(_follow_sse(server, run, by_sse))
                    tasks.create_task(_follow_ws(server, run, by_ws))
                await _kill_repeatedly(server, events, KILLS[backend])
        async with serve(workshop, workers=0) as site:
            for run, by_sse, by_ws in zip(runs, events[::2], events[1::2], strict=True):
                assert by_sse == by_ws == await site.log(run)
                run_row = await site.store.runs.get(SPACE, run)
                assert run_row.status is RunStatus.COMPLETED, run_row.error


async def test_after_200_kills_everything_acknowledged_exists(tmp_path: Path) -> None:
    async with asyncio.timeout(KILLS_TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            tasks.create_task(_kill_after_each_response(folder))


def _write_long_agent(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write an agent that sends much text in many steps."""
    steps = [calling(call("log_write", message=f"{n}"), say="on I go " * 10, chunks=10, delay_ms=3) for n in range(10)]
    workshop.agent(*steps, say("done"), tools=["log_write"])
    return workshop


async def _start(server: RestartingServer, number: int) -> RunId:
    host, thread = await server.host(), f"thr_{number}"
    assert await post(host, "/api/threads", {"id": thread, "agent_type": "bot"}) == 201
    assert await post(host, f"/api/threads/{thread}/runs", {"id": f"run_{number}", "input": "go"}) == 201
    return RunId(f"run_{number}")


async def _kill_repeatedly(server: RestartingServer, events: list[Events], kills: int) -> None:
    """Kill the server repeatedly, each time after its readers have received more events."""
    random = Random(kills)
    target = 0
    for _ in range(kills):
        target += random.randint(50, 300)
        while sum(map(len, events)) < target:  # noqa: ASYNC110 - readers set no event
            await asyncio.sleep(0.005)
        await server.restart()


async def _follow_sse(server: RestartingServer, run: RunId, events: Events) -> None:
    ended = False
    while not ended:
        with suppress(OSError, asyncio.IncompleteReadError):
            async with sse(await server.host(), f"/api/runs/{run}/sse", after=len(events) or None) as stream:
                assert stream.status == 200
                async for frame in stream.events():
                    events.append((frame.id or 0, frame.data or b""))
                ended = stream.ended
        await asyncio.sleep(0.01)


async def _follow_ws(server: RestartingServer, run: RunId, events: Events) -> None:
    ended = False
    while not ended:
        with suppress(OSError, ConnectionClosed, InvalidHandshake):
            async with ws(await server.host(), f"/api/runs/{run}/ws?last_event_id={len(events)}") as socket:
                async for text in socket:
                    if text != PING:
                        events.append(event_of(text))
                ended = socket.close_code == WebSocketCloseCode.ENDED
        await asyncio.sleep(0.01)


async def _kill_after_each_response(folder: Path) -> None:
    """Kill a server after each response, and check that everything it acknowledged exists."""
    workshop = write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db"))
    async with serve_with_restarts(folder, database=workshop.database, workers=0) as server:
        assert await post(await server.host(), "/api/threads", {"id": "thr_1", "agent_type": "bot"}) == 201
        for number in range(KILLS_PER_SERVER):
            assert await (_start_task if number % 2 else _start_run)(await server.host(), number) in (201, 202)
            await server.restart()
    async with serve(workshop) as site:
        for number in range(KILLS_PER_SERVER):
            await _check_task(site, number) if number % 2 else await _check_run(site, f"run_{number}")


async def _start_run(host: str, number: int) -> int:
    return await post(host, "/api/threads/thr_1/runs", {"id": f"run_{number}", "input": "go", "base_run_id": None})


async def _start_task(host: str, number: int) -> int:
    return await post(host, "/agents/bot/task", {"input": "go"}, f"Idempotency-Key: {number}\r\n")


async def _check_task(site: Site, number: int) -> None:
    response = await site.request(
        "POST", "/agents/bot/task", json={"input": "go"}, headers={"Idempotency-Key": str(number)}
    )
    assert response.headers["Idempotency-Replayed"] == "true"
    await _check_run(site, run_id_of(response.json()["taskId"]))


async def _check_run(site: Site, run: str) -> None:
    """Check that a run exists and completes."""
    run_row = await site.store.runs.get(SPACE, RunId(run))
    assert (await site.floor.wait_until_ended(run_row)).status is RunStatus.COMPLETED
