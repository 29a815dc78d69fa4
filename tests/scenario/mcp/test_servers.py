"""Servers as processes: when they are there, and who shares them."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.bootstrap.store import open_store
from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.mcp_server import McpServer
from holdfast.mcp.replies import UNNAMED_REQUEST, Elicitation, McpResult
from holdfast.mcp.server import McpServerClient
from holdfast.mcp.servers import McpServerPool, ServerLauncher, open_mcp_servers
from holdfast.sandbox.detection import UnconfinedSandbox
from holdfast.sandbox.processes import open_processes
from tests.scenario.mcp.declaring import PLAIN, program

RUN = RunId("run_1")
ONE, TWO = SpaceId("one"), SpaceId("two")
DECLARED = McpServer(**program(PLAIN, cwd=None))
IDLE = 0.2


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[McpServerPool]:
    """Yield servers that are let go soon after nobody needs them."""
    async with opened(tmp_path, idle=IDLE) as servers:
        yield servers


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[McpServerPool]:
    """Have servers of a folder."""
    async with open_processes() as processes, open_store(folder / "holdfast.db") as store:
        sandbox = UnconfinedSandbox(processes)
        places = ServerLauncher(workspace=folder, data_folder=folder / ".holdfast", sandbox=sandbox, unconfined=sandbox)
        async with open_mcp_servers(places, runs=store.runs, sweep=3600, **options) as servers:
            yield servers


async def told(server: McpServerClient, tool: str, text: str = "", *, key: str = "k") -> Json:
    """Call a tool, and return what it says."""
    result = await server.call(RUN, tool, {"text": text}, key=key)
    assert isinstance(result, McpResult)
    return result.content[0].text


async def test_nobody_is_connected_to_before_somebody_needs_it(servers: McpServerPool, tmp_path: Path) -> None:
    servers.get(ONE, "plain", DECLARED)
    assert not (tmp_path / ".holdfast" / "mcp").exists()


async def test_a_server_is_shared_by_name_and_declaration_within_a_space(servers: McpServerPool) -> None:
    same = McpServer(**program(PLAIN, cwd=None))
    assert servers.get(ONE, "plain", DECLARED) is servers.get(ONE, "plain", same)
    assert servers.get(ONE, "plain", DECLARED) is not servers.get(TWO, "plain", same)
    assert servers.get(ONE, "plain", DECLARED) is not servers.get(ONE, "other", same)


async def test_a_server_that_nobody_needs_is_let_go_and_is_there_again_when_it_is_needed(
    servers: McpServerPool,
) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    first = await told(server, "pid")
    while await told(server, "pid") == first:  # noqa: ASYNC110  nothing tells that it was let go
        await asyncio.sleep(IDLE * 10)
    assert len(await server.tools()) > 10


async def test_those_who_come_at_once_share_one_connection(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    pids = await asyncio.gather(*(told(server, "pid", key=f"k{number}") for number in range(5)))
    assert len(set(pids)) == 1


async def test_those_who_list_at_once_all_find_the_tools(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    first, second = await asyncio.gather(server.tools(), server.tools())
    assert first is second
    assert len(first) > 10


async def test_a_server_that_was_not_there_is_looked_for_again_after_a_pause(tmp_path: Path) -> None:
    time, script = [0.0], tmp_path / "server.py"
    declared = McpServer(**{**program(PLAIN, cwd=None), "args": ["-I", "./server.py"]})
    async with opened(tmp_path, monotonic=lambda: time[0]) as servers:
        server = servers.get(ONE, "plain", declared)
        assert await server.tools() == ()
        script.write_text(PLAIN.read_text())
        assert await server.tools() == ()
        time[0] += 1.0
        while not await server.tools():  # noqa: ASYNC110  a busy machine takes its time to start it
            await asyncio.sleep(0.01)
        assert len(await server.tools()) > 10


async def test_a_call_that_is_made_twice_under_one_key_calls_the_first_off(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    asked = await server.call(RUN, "ask", {"text": "who"}, key="k")
    assert isinstance(asked, Elicitation)
    assert await told(server, "echo", "hello", key="k") == "hello"
    with pytest.raises(McpServerFailed, match="has ended while it waited for the answer"):
        await server.answer(RUN, "ask", {}, key="k", elicitation=asked, response=None, retry=False)


async def test_an_address_where_nobody_is_fails_as_a_server_does(servers: McpServerPool) -> None:
    server = servers.get(ONE, "nobody", McpServer(url="http://127.0.0.1:9/mcp"))
    assert await server.tools() == ()
    with pytest.raises(McpServerFailed) as failed:
        await server.call(RUN, "echo", {}, key="k")
    assert failed.value.details["started"] is False


async def test_a_server_that_never_introduces_itself_fails_and_those_who_list_do_not_wait_for_ever(
    servers: McpServerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.mcp.server.LIST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("holdfast.mcp.connection.HANDSHAKE_TIMEOUT_SECONDS", 0.5)
    silent = McpServer(command=sys.executable, args=["-c", "import time; time.sleep(3600)"], sandbox="off")
    server = servers.get(ONE, "silent", silent)
    assert await server.tools() == ()
    with pytest.raises(McpServerFailed, match=r"it did not initialize within 0\.5 seconds"):
        await server.fresh_tools()


async def test_a_server_that_is_not_there_yet_holds_up_nobody_who_ends(tmp_path: Path) -> None:
    async with asyncio.timeout(30):
        async with opened(tmp_path) as servers:
            silent = servers.get(ONE, "silent", McpServer(command="sleep", args=["60"]))
            listing = asyncio.ensure_future(silent.tools())
            while not (tmp_path / ".holdfast" / "mcp").exists():  # noqa: ASYNC110 - it tells nobody that it was started
                await asyncio.sleep(0.01)
        assert await listing == ()


async def test_a_question_that_may_be_about_more_than_one_call_is_called_off(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    await told(server, "pid")
    said = await asyncio.gather(told(server, "ask", "who", key="a"), told(server, "echo", "hello", key="b"))
    assert [*said] == ['{"action": "cancel"}', "hello"]


async def test_a_server_waits_for_an_answer_while_others_call_it(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    asked = await server.call(RUN, "ask", {"text": "who"}, key="a")
    assert isinstance(asked, Elicitation)
    assert list(asked.requests) == [UNNAMED_REQUEST]
    other = asyncio.ensure_future(told(server, "echo", "hello", key="b"))  # the plain server does one thing at a time
    accepted = {"action": "accept", "content": {"name": "Ada"}}
    result = await server.answer(RUN, "ask", {}, key="a", elicitation=asked, response=accepted, retry=False)
    assert isinstance(result, McpResult)
    assert result.content[0].text == '{"action": "accept", "content": {"name": "Ada"}}'
    assert await other == "hello"


async def test_without_the_package_it_is_said_what_to_install(
    servers: McpServerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.mcp.connection", None)
    with pytest.raises(McpServerFailed, match="pip install mcp"):
        await servers.get(ONE, "plain", DECLARED).fresh_tools()
