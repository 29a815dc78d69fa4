"""The server dies by SIGKILL: who follows loses nothing, and what it has answered is there."""

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
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say
from tests.support.postgres import PostgresServer

RUNS: Final = 8
"""Each is followed over both transports."""
KILLS: Final = {"sqlite": 5, "postgres": 1}
LIVES: Final = 100
"""Of each of two servers; a life lasts until its first answer."""
TIMEOUT_SECONDS: Final = 300.0
"""Seconds after which something hangs."""

Seen = list[tuple[int, bytes]]


@pytest.mark.parametrize("backend", KILLS)
async def test_16_readers_of_a_server_that_is_killed_see_every_event_once(
    backend: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    where = tmp_path / "holdfast.db" if backend == "sqlite" else await postgres.create_database("mortal")
    workshop = _talkative(Workshop(tmp_path / "workspace", where))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async with serve_with_restarts(tmp_path, database=where, workers=RUNS, lease=2.0) as server:
            runs = [await _start(server, number) for number in range(RUNS)]
            seen: list[Seen] = [[] for _ in range(2 * RUNS)]
            async with asyncio.TaskGroup() as tasks:
                for run, by_sse, by_ws in zip(runs, seen[::2], seen[1::2], strict=True):
                    tasks.create_task(_follow_sse(server, run, by_sse))
                    tasks.create_task(_follow_ws(server, run, by_ws))
                await _kill_now_and_then(server, seen, KILLS[backend])
        async with serve(workshop, workers=0) as site:
            for run, by_sse, by_ws in zip(runs, seen[::2], seen[1::2], strict=True):
                assert by_sse == by_ws == await site.log(run)
                found = await site.store.runs.get(SPACE, run)
                assert found.status is RunStatus.COMPLETED, found.error


async def test_after_200_kills_all_that_was_answered_is_there(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            tasks.create_task(_live_and_answer(folder))


def _talkative(workshop: AgentWorkspace) -> AgentWorkspace:
    """Write an agent that says much, in many steps."""
    steps = [calling(call("log_write", message=f"{n}"), say="on I go " * 10, chunks=10, delay_ms=3) for n in range(10)]
    workshop.agent(*steps, say("done"), tools=["log_write"])
    return workshop


async def _start(server: RestartingServer, number: int) -> RunId:
    host, thread = await server.host(), f"thr_{number}"
    assert await post(host, "/api/threads", {"id": thread, "agent_type": "bot"}) == 201
    assert await post(host, f"/api/threads/{thread}/runs", {"id": f"run_{number}", "input": "go"}) == 201
    return RunId(f"run_{number}")


async def _kill_now_and_then(server: RestartingServer, seen: list[Seen], kills: int) -> None:
    """Kill the server each time that its readers have seen some more."""
    random = Random(kills)
    enough = 0
    for _ in range(kills):
        enough += random.randint(50, 300)
        while sum(map(len, seen)) < enough:  # noqa: ASYNC110 - readers tell nobody
            await asyncio.sleep(0.005)
        await server.restart()


async def _follow_sse(server: RestartingServer, run: RunId, seen: Seen) -> None:
    ended = False
    while not ended:
        with suppress(OSError, asyncio.IncompleteReadError):
            async with sse(await server.host(), f"/api/runs/{run}/sse", after=len(seen) or None) as stream:
                assert stream.status == 200
                async for frame in stream.events():
                    seen.append((frame.id or 0, frame.data or b""))
                ended = stream.ended
        await asyncio.sleep(0.01)


async def _follow_ws(server: RestartingServer, run: RunId, seen: Seen) -> None:
    ended = False
    while not ended:
        with suppress(OSError, ConnectionClosed, InvalidHandshake):
            async with ws(await server.host(), f"/api/runs/{run}/ws?last_event_id={len(seen)}") as socket:
                async for text in socket:
                    if text != PING:
                        seen.append(event_of(text))
                ended = socket.close_code == WebSocketCloseCode.ENDED
        await asyncio.sleep(0.01)


async def _live_and_answer(folder: Path) -> None:
    """Let servers live until they have answered, and look for what they have answered."""
    workshop = write_agents(Workshop(folder / "workspace", folder / "holdfast.db"))
    async with serve_with_restarts(folder, database=workshop.where, workers=0) as server:
        assert await post(await server.host(), "/api/threads", {"id": "thr_1", "agent_type": "bot"}) == 201
        for life in range(LIVES):
            assert await (_start_task if life % 2 else _start_run)(await server.host(), life) in (201, 202)
            await server.restart()
    async with serve(workshop) as site:
        for life in range(LIVES):
            await _check_task(site, life) if life % 2 else await _check_run(site, f"run_{life}")


async def _start_run(host: str, life: int) -> int:
    return await post(host, "/api/threads/thr_1/runs", {"id": f"run_{life}", "input": "go", "base_run_id": None})


async def _start_task(host: str, life: int) -> int:
    return await post(host, "/agents/bot/task", {"input": "go"}, f"Idempotency-Key: {life}\r\n")


async def _check_task(site: Site, life: int) -> None:
    response = await site.request(
        "POST", "/agents/bot/task", json={"input": "go"}, headers={"Idempotency-Key": str(life)}
    )
    assert response.headers["Idempotency-Replayed"] == "true"
    await _check_run(site, run_id_of(response.json()["taskId"]))


async def _check_run(site: Site, run: str) -> None:
    """Check that a run is there, and see it complete."""
    found = await site.store.runs.get(SPACE, RunId(run))
    assert (await site.floor.wait_until_ended(found)).status is RunStatus.COMPLETED
