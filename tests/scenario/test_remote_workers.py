"""Workers without a database: killed, cut off and answered twice, they lose nothing and do nothing twice."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import pytest

from holdfast.domain.content import Json
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.rpc_proxy import open_rpc_proxy
from tests.support.database_probe import open_probe
from tests.support.log_check import check_log

STEPS: Final = 4


@asynccontextmanager
async def run_worker(
    folder: Path, url: str, *options: str, inside: Sequence[str] = ()
) -> AsyncIterator[subprocess.Popen[str]]:
    """Run a worker in a process of its own while the block runs, with nothing of the server in its environment.

    `inside` is a command that runs the command after it.
    """
    command = [*inside, *HOLDFAST, "worker", "--url", url, "--folder", str(folder), "--json", *options]
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


@pytest.mark.slow  # `test_cluster_faults` has the same faults and more
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_kills_cuts_delays_and_duplicates_change_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with open_rpc_proxy([server.url], random, fault_rate=1 / 6) as proxy:
            runs = [server.start(agent) for agent in (*["planner"] * 6, *["parent"] * 2)]
            for number in range(3):
                async with run_worker(tmp_path / f"worker-{number}", proxy.url) as worker:
                    await asyncio.sleep(random.uniform(0.3, 0.8))
                    worker.send_signal(signal.SIGKILL)
            async with run_worker(tmp_path / "first", proxy.url), run_worker(tmp_path / "second", proxy.url):
                runs += [await asyncio.to_thread(server.start, "planner") for _ in range(4)]
                await check_runs(server, runs)
            assert proxy.fault_count > 3
        assert server.stop()[0] == 0
    async with open_probe(tmp_path / "workspace/.holdfast/holdfast.db") as probe:
        await check_log(probe)


async def test_a_short_run_takes_one_claim_and_one_commit(tmp_path: Path) -> None:
    AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db").agent(say("hello"), name="planner")
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with open_rpc_proxy([server.url], Random(1)) as proxy, run_worker(tmp_path / "worker", proxy.url):
            for _ in range(3):
                await wait_until_done(server, [await asyncio.to_thread(server.start, "planner")])
        calls = {path: count for path, count in proxy.calls.items() if "/leases/" not in path}
    first = {"/rpc/hints": 1, "/rpc/library/bundle": 1, "/rpc/library/bundle_files": 1}
    assert calls == {**first, "/rpc/journal/commit": 3}


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


async def test_a_server_shuts_down_without_waiting_for_the_hint_streams_of_workers(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with open_rpc_proxy([server.url], Random(1)) as proxy, run_worker(tmp_path / "worker", proxy.url):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not proxy.calls["/rpc/hints"]:  # noqa: ASYNC110 - in another process
                    await asyncio.sleep(0.01)
            await wait_until_done(server, [await asyncio.to_thread(server.start, "planner")])
            code, log = await asyncio.to_thread(server.stop)
    assert code == 0
    assert "Cancel" not in log, log


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
            (["--url", server.url], "takes it from HOLDFAST_WORKER_TOKEN"),
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
    of_space = {"model": "scripted:script.json", "tools": ["where", "bash"], **settings}
    clerk: Json = {"settings": of_space, "instructions": "x", "scripts": {"script.json": {"turns": list(turns)}}}
    folder.mkdir()
    (folder / "settings.json").write_text('{"sandbox": "off"}')
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with run_worker(folder, server.url):
            server.request("/api/agents", {"name": "clerk", **clerk})
            runs = await wait_until_done(server, [server.start("planner"), server.start("clerk")])
        messages = [server.request(f"/api/threads/{run['thread_id']}/messages")["items"] for run in runs]
    for run, said in zip(runs, messages, strict=True):
        assert run["status"] == "completed", run
        bundle = folder / ".holdfast/bundles" / run["agent_version"]
        assert run["output"] == f"{bundle}/tools/where mark"
        assert "3 kg" in str(said)
    assert runs[0]["agent_version"] != runs[1]["agent_version"]


async def test_an_agent_with_memory_remembers_on_a_worker(tmp_path: Path) -> None:
    """Its notes, proposals in the words of a person, and a distiller in a run of its own."""
    workshop = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    remember = call("remember", type="semantic", text="Ada lives in Oslo.")
    note = call("memory_write", text="- Ada: Oslo", scope="agent")
    memory: Json = {"recall": True, "distil": {"model": "scripted:distil.json"}}
    turns = [calling(remember, note), say("I see.")]
    workshop.agent(*turns, tools=["remember", "memory_write"], memory=memory, permissions={"allow": ["memory_write"]})
    stated: Json = {"text": "Ada moved to Oslo", "type": "semantic", "sources": ["m1"]}
    workshop.write("agents/bot/distil.json", {"turns": [say(json.dumps({"memories": [stated]}))]})
    said = {"id": "m1", "role": "user", "content": "Ada moved to Oslo. From now on always answer in one sentence."}
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with run_worker(tmp_path / "worker", server.url):
            run = server.request("/api/runs", {"agent_type": "bot", "messages": [said]})["id"]
            await wait_until_done(server, [run])
            ((distilling,),) = [server.request("/api/runs?tag=distillation")["items"]]
            ended = await wait_until_done(server, [run, distilling["id"]])
        kept = server.request("/api/memories")["items"]
        notes = server.request("/memory/agents/bot/MEMORY.md")
    assert [each["status"] for each in ended] == ["completed", "completed"], ended
    assert sorted((each["origin"], each["status"]) for each in kept) == [
        ("agent", "active"),
        ("distilled", "active"),
        ("person", "proposed"),
    ]
    assert notes["text"] == "- Ada: Oslo\n"
