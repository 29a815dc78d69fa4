"""`McpServerPool`: lifetime and sharing of server processes."""

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
from holdfast.mcp.launcher import ServerLauncher
from holdfast.mcp.replies import UNNAMED_REQUEST, Elicitation, McpResult
from holdfast.mcp.server import McpServerClient
from holdfast.mcp.servers import McpServerPool, open_mcp_servers
from holdfast.sandbox.detection import UnconfinedSandbox
from holdfast.sandbox.processes import open_processes
from tests.scenario.mcp.declaring import PLAIN, program

RUN = RunId("run_1")
ONE, TWO = SpaceId("one"), SpaceId("two")
DECLARED = McpServer(**program(PLAIN, cwd=None))
IDLE = 0.2


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[McpServerPool]:
    """Yield servers with a short idle timeout."""
    async with opened(tmp_path, idle=IDLE) as servers:
        yield servers


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[McpServerPool]:
    """Open servers in a folder."""
    async with open_processes() as processes, open_store(folder / "holdfast.db") as store:
        sandbox = UnconfinedSandbox(processes)
        places = ServerLauncher(workspace=folder, data_folder=folder / ".holdfast", sandbox=sandbox, unconfined=sandbox)
        async with open_mcp_servers(places, runs=store.runs, sweep=3600, **options) as servers:
            yield servers


async def call_text(server: McpServerClient, tool: str, text: str = "", *, key: str = "k") -> Json:
    """Call a tool, and return the text of its result."""
    result = await server.call(RUN, tool, {"text": text}, key=key)
    assert isinstance(result, McpResult)
    return result.content[0].text


async def test_a_server_is_not_started_before_its_first_use(servers: McpServerPool, tmp_path: Path) -> None:
    servers.get(ONE, "plain", DECLARED)
    assert not (tmp_path / ".holdfast" / "spaces").exists()


async def test_a_server_is_shared_by_name_and_declaration_within_a_space(servers: McpServerPool) -> None:
    same = McpServer(**program(PLAIN, cwd=None))
    assert servers.get(ONE, "plain", DECLARED) is servers.get(ONE, "plain", same)
    assert servers.get(ONE, "plain", DECLARED) is not servers.get(TWO, "plain", same)
    assert servers.get(ONE, "plain", DECLARED) is not servers.get(ONE, "other", same)


async def test_an_idle_server_is_closed_and_restarted_on_demand(
    servers: McpServerPool,
) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    first = await call_text(server, "pid")
    while await call_text(server, "pid") == first:  # noqa: ASYNC110  there is no notification of the close
        await asyncio.sleep(IDLE * 10)
    assert len(await server.tools()) > 10


async def test_concurrent_callers_share_one_connection(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    pids = await asyncio.gather(*(call_text(server, "pid", key=f"k{number}") for number in range(5)))
    assert len(set(pids)) == 1


async def test_concurrent_listings_all_return_the_tools(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    first, second = await asyncio.gather(server.tools(), server.tools())
    assert first is second
    assert len(first) > 10


async def test_an_unreachable_server_is_retried_after_a_delay(tmp_path: Path) -> None:
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


async def test_a_second_call_with_the_same_key_cancels_the_first(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    elicitation = await server.call(RUN, "ask", {"text": "who"}, key="k")
    assert isinstance(elicitation, Elicitation)
    assert await call_text(server, "echo", "hello", key="k") == "hello"
    with pytest.raises(McpServerFailed, match="ended while it waited for the response"):
        await server.respond(RUN, "ask", {}, key="k", elicitation=elicitation, response=None, retry=False)


async def test_an_unreachable_url_fails_like_a_process(servers: McpServerPool) -> None:
    server = servers.get(ONE, "nobody", McpServer(url="http://127.0.0.1:9/mcp"))
    assert await server.tools() == ()
    with pytest.raises(McpServerFailed) as failed:
        await server.call(RUN, "echo", {}, key="k")
    assert failed.value.details["started"] is False


async def test_a_server_that_never_initializes_fails_and_listing_does_not_wait_for_it(
    servers: McpServerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.mcp.server.LIST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("holdfast.mcp.connection.HANDSHAKE_TIMEOUT_SECONDS", 0.5)
    silent = McpServer(command=sys.executable, args=["-c", "import time; time.sleep(3600)"], sandbox="off")
    server = servers.get(ONE, "silent", silent)
    assert await server.tools() == ()
    with pytest.raises(McpServerFailed, match=r"it did not initialize within 0\.5 seconds"):
        await server.fresh_tools()


async def test_a_starting_server_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    async with asyncio.timeout(30):
        async with opened(tmp_path) as servers:
            silent = servers.get(ONE, "silent", McpServer(command="sleep", args=["60"]))
            listing = asyncio.ensure_future(silent.tools())
            while not (tmp_path / ".holdfast" / "spaces").exists():  # noqa: ASYNC110 - there is no notification of the start
                await asyncio.sleep(0.01)
        assert await listing == ()


async def test_an_elicitation_that_matches_several_calls_is_cancelled(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    await call_text(server, "pid")
    results = await asyncio.gather(
        call_text(server, "ask", "who", key="a"), call_text(server, "echo", "hello", key="b")
    )
    assert [*results] == ['{"action": "cancel"}', "hello"]


async def test_a_server_waits_for_an_answer_while_others_call_it(servers: McpServerPool) -> None:
    server = servers.get(ONE, "plain", DECLARED)
    elicitation = await server.call(RUN, "ask", {"text": "who"}, key="a")
    assert isinstance(elicitation, Elicitation)
    assert list(elicitation.requests) == [UNNAMED_REQUEST]
    other = asyncio.ensure_future(call_text(server, "echo", "hello", key="b"))  # the plain server is sequential
    accepted = {"action": "accept", "content": {"name": "Ada"}}
    result = await server.respond(RUN, "ask", {}, key="a", elicitation=elicitation, response=accepted, retry=False)
    assert isinstance(result, McpResult)
    assert result.content[0].text == '{"action": "accept", "content": {"name": "Ada"}}'
    assert await other == "hello"


async def test_a_missing_package_is_named_with_the_command_to_install_it(
    servers: McpServerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.mcp.connection", None)
    with pytest.raises(McpServerFailed, match="pip install mcp"):
        await servers.get(ONE, "plain", DECLARED).fresh_tools()
