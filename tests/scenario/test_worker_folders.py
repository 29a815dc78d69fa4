"""Working folders of workers without a shared disk: one worker is killed or stopped, another goes on with the files."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.test_remote_workers import run_worker, wait_until_done


def write_agents(folder: Path) -> None:
    """Write an agent that writes a file, one that changes it, and one that reads it before and after a long answer."""
    workshop = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    write = call("write_file", path="notes/first.txt", content="from the first run")
    read = call("read_file", path="notes/first.txt")
    edit = call("edit_file", path="notes/first.txt", old="the first", new="the second")
    remove = call("write_file", path="notes/second.txt", content="new")
    tools = ["read_file", "write_file", "edit_file", "list_dir"]
    workshop.agent(calling(write), say("written"), name="keeper", tools=tools)
    workshop.agent(calling(read), calling(edit), calling(remove), say("changed"), name="editor", tools=tools)
    slow = {**calling(read), **say("one moment, I think about it", chunks=28, delay_ms=100)}
    workshop.agent(calling(read), slow, say("it says: {$last_tool}"), name="reader", tools=tools)


async def finished(server: Server, agent: str) -> Any:
    run = await asyncio.to_thread(server.start, agent)
    (ended,) = await wait_until_done(server, [run])
    assert ended["status"] == "completed", ended
    return ended


async def wait_for_events(server: Server, run: str, kind: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while kind not in [each["type"] for each in await asyncio.to_thread(server.log, run)]:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.05)


async def test_after_a_kill_another_worker_goes_on_with_the_files_and_tells_the_run(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with run_worker(tmp_path / "first", server.url) as worker:
            await finished(server, "keeper")
            run = await asyncio.to_thread(server.start, "reader")
            await wait_for_events(server, run, "TEXT_MESSAGE_CONTENT")
            worker.send_signal(signal.SIGKILL)
        async with run_worker(tmp_path / "second", server.url):
            (ended,) = await wait_until_done(server, [run])
        assert "from the first run" in ended["output"]
        assert (tmp_path / "second/files/notes/first.txt").read_text() == "from the first run"
        notices = [each["value"]["state"] for each in server.log(run) if each.get("name") == "holdfast.folder"]
        assert notices == ["unsaved"]
        assert "could not save it" in str(server.request(f"/api/runs/{run}/context"))  # of the last model call


async def test_a_worker_that_comes_back_gets_what_others_changed(tmp_path: Path) -> None:
    write_agents(tmp_path)
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        async with run_worker(tmp_path / "first", server.url):
            await finished(server, "keeper")
        async with run_worker(tmp_path / "second", server.url):
            await finished(server, "editor")
        async with run_worker(tmp_path / "first", server.url):
            ended = await finished(server, "reader")
        assert "from the second run" in ended["output"]
        assert (tmp_path / "first/files/notes/second.txt").read_text() == "new"
        assert not [each for each in server.log(ended["id"]) if each.get("name") == "holdfast.folder"]
