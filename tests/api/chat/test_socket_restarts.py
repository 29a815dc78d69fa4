"""A server killed during a remote method call: the run continues as the class of the method says."""

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.workspace.folder import Workspace
from tests.api.chat.socket_client import LOOK, PUSH, connect
from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import call, calling, say

FINAL_TURN: Final = say("so: {$last_tool}")


def write_agent(folder: Path, tool: str, **arguments: Json) -> None:
    """Write an agent that calls a method and has its name."""
    agent = folder / "workspace" / "agents" / tool
    agent.mkdir()
    (agent / "AGENT.md").write_text("Do as you are told.")
    settings = {"model": "scripted:script.json", "tools": [tool], "permissions": {"allow": [tool]}}
    (agent / "agent.json").write_bytes(msgspec.json.encode(settings))
    turns = [calling(call(tool, **arguments)), FINAL_TURN]
    (agent / "script.json").write_bytes(msgspec.json.encode({"turns": turns}))


def ended(server: Server, run: str) -> Any:
    """Wait for the end of a run, and return it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (found := server.request(f"/api/runs/{run}"))["status"] not in ("completed", "failed", "cancelled"):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def settled(server: Server, run: str) -> list[str]:
    """Return how the calls of a run settled."""
    items = server.request(f"/api/runs/{run}/steps")["items"]
    return [each["state"] for each in items if each["kind"] == "tool"]


async def test_a_killed_server_repeats_idempotent_calls_and_marks_effectful_ones_unknown(tmp_path: Path) -> None:
    Workspace.create(tmp_path / "workspace")
    write_agent(tmp_path, "remote__look")
    write_agent(tmp_path, "remote__push", button=1)
    with run_server(tmp_path) as server:
        async with connect(server.url.removeprefix("http://")) as client:
            await client.offer(LOOK, PUSH)
            runs = [server.start(name) for name in ("remote__look", "remote__push")]
            calls = {each["method"]: each for each in [await client.expect("call"), await client.expect("call")]}
            server.kill()
    with run_server(tmp_path) as server:
        async with connect(server.url.removeprefix("http://")) as client:
            await client.offer(LOOK, PUSH)
            repeated = await client.expect("call")
            first = calls["look"]
            assert (repeated["key"], repeated["task_id"]) == (first["key"], first["task_id"])
            await client.send_result(first, content="of the first")
            assert (await client.expect_error())["code"] == "CALL_NOT_OPEN"
            await client.send_result(repeated, content="of the second")
            looked, pushed = [ended(server, run) for run in runs]
            assert looked["output"] == "so: of the second"
            assert "nobody knows whether it happened" in pushed["output"]
            await client.check_open()  # the button was not pushed again
        assert [settled(server, run) for run in runs] == [["done"], ["unknown"]]
