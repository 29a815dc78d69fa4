"""Workers without a database: killed, cut off and answered twice, they lose nothing and do nothing twice."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.concurrency import cancel_and_wait
from holdfast.domain.content import Json
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log

STEPS: Final = 4


@asynccontextmanager
async def run_worker(folder: Path, url: str, *options: str) -> AsyncIterator[subprocess.Popen[str]]:
    """Run a worker in a process of its own while the block runs, with nothing of the server in its environment."""
    command = [*HOLDFAST, "worker", "--url", url, "--folder", str(folder), "--json", *options]
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=folder.parent
    )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline), "the worker did not start"
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        await asyncio.to_thread(process.communicate, None, TIMEOUT_SECONDS)


class FaultyProxy:
    """Forwards HTTP/1.1 requests, and sometimes cuts, delays or duplicates one."""

    def __init__(self, url: str, random: Random) -> None:
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self._random = random
        self.faults = 0
        self.wrong = True
        """Whether faults are made."""

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the requests of one connection, one after the other."""
        upstream_reader, upstream = await asyncio.open_connection(self._host, int(self._port))
        with suppress(OSError, asyncio.IncompleteReadError), closing(upstream), closing(writer):
            while request := await _read_message(reader):
                fault = self._random.choices(["none", "lost", "unanswered", "late", "twice"], [20, 1, 1, 1, 1])[0]
                if not self.wrong or b"/rpc/hints" in request or b"/rpc/leases/claim" in request:
                    fault = "none"
                self.faults += fault != "none"
                if fault == "lost":
                    return
                if fault == "late":
                    await asyncio.sleep(0.3)
                if fault == "twice":
                    await self._send_alone(request)
                upstream.write(request)
                await upstream.drain()
                if fault == "unanswered":
                    await _read_message(upstream_reader)
                    return
                if b"/rpc/hints" in request:
                    await self._stream(upstream_reader, writer)
                    return
                writer.write(await _read_message(upstream_reader))
                await writer.drain()

    async def _send_alone(self, request: bytes) -> None:
        """Send a request on a connection of its own, and drop the response."""
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        with closing(writer):
            writer.write(request)
            await _read_message(reader)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """Return one request or response with its body; empty at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    sizes = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head + (await reader.readexactly(int(sizes[0])) if sizes else b"")


@asynccontextmanager
async def faulty_proxy(url: str, random: Random) -> AsyncIterator[tuple[FaultyProxy, str]]:
    proxy, clients = FaultyProxy(url, random), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        await proxy.serve_client(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    async with server:
        try:
            yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            await cancel_and_wait(clients)


def write_agents(folder: Path) -> None:
    """Write an agent that makes a plan item in each of some steps, one that waits for it, and one that never ends."""
    workshop = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    steps = [calling(call("plan_create", title=f"step {number}")) for number in range(STEPS)]
    workshop.agent(*steps, say("all done"), name="planner", tools=["plan_create"])
    spawn = call("agent_spawn", agent="planner", input="go")
    workshop.agent(calling(spawn), say("helped"), name="parent", tools=["agent_spawn"])
    workshop.agent(say("one moment", stall=True), name="slow")


def is_done(server: Server, runs: list[str]) -> bool:
    return all(server.request(f"/api/runs/{run}")["status"] in ("completed", "failed") for run in runs)


async def wait_until_done(server: Server, runs: list[str]) -> list[Json]:
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(is_done, server, runs):  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.1)
    return [server.request(f"/api/runs/{run}") for run in runs]


async def check_runs(server: Server, runs: list[str]) -> None:
    """Fail unless every run completed with each of its steps done once."""
    for run in await wait_until_done(server, runs):
        assert run["status"] == "completed", run
        if run["agent_type"] != "planner":
            continue
        assert run["output"] == "all done"
        items = server.request(f"/api/threads/{run['thread_id']}/tasks")["items"]
        assert sorted(item["title"] for item in items) == [f"step {number}" for number in range(STEPS)]
        calls = [each for each in server.request(f"/api/runs/{run['id']}/steps")["items"] if each["state"] == "done"]
        assert len(calls) == 2 * STEPS + 1


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
async def test_kills_cuts_delays_and_duplicates_change_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with faulty_proxy(server.url, random) as (proxy, url):
            runs = [server.start(agent) for agent in (*["planner"] * 6, *["parent"] * 2)]
            for number in range(3):
                async with run_worker(tmp_path / f"worker-{number}", url) as worker:
                    await asyncio.sleep(random.uniform(0.3, 0.8))
                    worker.send_signal(signal.SIGKILL)
            async with run_worker(tmp_path / "first", url), run_worker(tmp_path / "second", url):
                runs += [await asyncio.to_thread(server.start, "planner") for _ in range(4)]
                await check_runs(server, runs)
            assert proxy.faults > 3
        assert server.stop()[0] == 0
    async with open_probe(tmp_path / "workspace/.holdfast/holdfast.db") as probe:
        await check_log(probe)


async def test_a_worker_that_is_stopped_gives_its_runs_back_at_once(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        run = server.start("slow")
        async with run_worker(tmp_path / "worker", server.url) as worker:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(await asyncio.to_thread(server.log, run)) < 3:  # noqa: ASYNC110 - in another process
                    await asyncio.sleep(0.05)
            while worker.poll() is None:
                worker.send_signal(signal.SIGTERM)  # the second one cancels at once
                await asyncio.sleep(0.1)
        assert server.request(f"/api/runs/{run}")["status"] == "queued"


async def test_a_revoked_key_stops_its_worker(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        admin = server.request("/api/keys", {"name": "a", "scope": "admin", "every_space": True})["secret"]
        headers = {"Authorization": f"Bearer {admin}"}
        key = server.request("/api/keys", {"name": "w", "scope": "worker", "every_space": True}, headers=headers)
        async with run_worker(tmp_path / "worker", server.url, "--token", key["secret"]) as worker:
            server.request(f"/api/keys/{key['id']}", method="DELETE", headers=headers)
            assert await asyncio.to_thread(worker.wait, TIMEOUT_SECONDS) != 0


def test_a_worker_that_cannot_work_says_why(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        server.request("/api/keys", {"name": "a", "scope": "admin", "every_space": True})
        for options, reason in (
            (["--url", "http://127.0.0.1:1"], "does not respond"),
            (["--url", server.url, "--token", "hf_wrong"], "this key is not valid"),
            (["--url", server.url], "needs a key"),
        ):
            command = [*HOLDFAST, "worker", "--folder", str(tmp_path / "w"), *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            assert done.returncode == 1
            assert reason in done.stderr
            assert "Traceback" not in done.stderr


async def test_a_worker_receives_tools_and_scripts_of_skills_and_needs_no_copies(tmp_path: Path) -> None:
    workshop, folder = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"), tmp_path / "worker"
    tool: dict[str, Json] = {"name": "where", "description": "x", "parameters": {"type": "object"}}
    workshop.write("tools/where/tool.json", {**tool, "command": ["./where.sh"]})
    workshop.write("tools/where/where.sh", '#!/bin/sh\nsed s,^,\\"$HOLDFAST_TOOL_FOLDER, ${0%/*}/mark\n')
    workshop.write("tools/where/mark", ' mark"')
    (workshop.folder / "tools/where/where.sh").chmod(0o755)
    workshop.write("skills/weigh/SKILL.md", "---\nname: weigh\ndescription: Weigh.\n---\nWeigh it.\n")
    workshop.write("skills/weigh/scripts/run.sh", "echo 3 kg")
    script = f"sh {folder}/.holdfast/bundles/*/skills/weigh/scripts/run.sh"
    turns = [calling(call("bash", command=script)), calling(call("where")), say("{$last_tool}")]
    settings: dict[str, Json] = {"permissions": {"allow": ["bash"]}, "tainted": "allow", "skills": ["weigh"]}
    workshop.agent(*turns, name="planner", tools=["where", "bash"], **settings)
    folder.mkdir()
    (folder / "settings.json").write_text('{"sandbox": "off"}')
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with run_worker(folder, server.url):
            (run,) = await wait_until_done(server, [server.start("planner")])
        messages = server.request(f"/api/threads/{run['thread_id']}/messages")["items"]
    assert run["status"] == "completed", run
    bundle = folder / ".holdfast/bundles" / run["agent_version"]
    assert run["output"] == f"{bundle}/tools/where mark"
    assert "3 kg" in str(messages)
