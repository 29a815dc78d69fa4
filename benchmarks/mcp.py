"""Cost of an MCP tool call, compared with the bare SDK and the same stdio server.

There is no run and no model: a call goes as the control plane makes it, with its arguments checked, its trust looked up
and its answer read. The server is the smallest there can be, so that what is measured is not its work.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from benchmarks.table import Table
from holdfast.bootstrap.store import open_store
from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.domain.ids import OwnerId, SpaceId
from holdfast.domain.mcp_server import McpServer
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run
from holdfast.domain.thread import NewThread
from holdfast.engine.worker import DEFAULT_LEASE
from holdfast.mcp.launcher import ServerLauncher
from holdfast.mcp.servers import open_mcp_servers
from holdfast.mcp.tools import McpTools
from holdfast.sandbox.detection import UnconfinedSandbox
from holdfast.sandbox.processes import open_processes

SPACE: Final = SpaceId("bench")
CONCURRENT_CALLS: Final = 16
"""Concurrent calls."""
SERVER: Final = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            info = {"name": "a", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}
        case _:
            if "id" in asked:
                error = {"code": -32601, "message": "no"}
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
ARGUMENTS: Final[dict[str, Json]] = {"text": "hello"}


async def measure(*, seconds: float) -> Table:
    """Return a table of calls per second and milliseconds per call."""
    table = Table("a call of an MCP tool", ["what", "at a time", "calls/s", "ms each", "beside the bare SDK"])
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways = {"bare SDK": await _bare(stack), "Holdfast": await _open_holdfast(stack, folder)}
        for count in (1, CONCURRENT_CALLS):
            rates = {name: await _rate(call, count, seconds) for name, call in ways.items()}
            for name, rate in rates.items():
                table.add(name, count, rate, 1000 * count / rate, f"{rate / rates['bare SDK']:.2f}×")
    return table


async def _bare(stack: AsyncExitStack) -> Callable[[str], Awaitable[object]]:
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=["-I", "-c", SERVER])
    client = await stack.enter_async_context(Client(server, cache=None))
    await client.list_tools()
    return lambda key: client.call_tool("echo", ARGUMENTS)


async def _open_holdfast(stack: AsyncExitStack, folder: Path) -> Callable[[str], Awaitable[object]]:
    processes = await stack.enter_async_context(open_processes())
    store = await stack.enter_async_context(open_store(folder / "holdfast.db"))
    sandbox = UnconfinedSandbox(processes)
    launcher = ServerLauncher(workspace=folder, data_folder=folder / ".holdfast", sandbox=sandbox, unconfined=sandbox)
    servers = await stack.enter_async_context(open_mcp_servers(launcher, runs=store.runs))
    server = McpServer(command=sys.executable, args=["-I", "-c", SERVER])
    agent = Agent(name="bot", description="", models=["a:b"], instructions="", mcp_servers={"bench": server})

    async def agent_of_run(_: Run) -> Agent:
        return agent

    tools = McpTools(
        servers,
        agent_of_run=agent_of_run,
        declared=dict,
        trust=store.tool_trust,
        journal=store.journal,
        files=store.files,
    )
    await store.spaces.create(SPACE, name="bench")
    await store.runs.create(SPACE, NewRun(thread=NewThread(agent_type="bot"), agent_type="bot"))
    (lease,) = await store.leases.claim(OwnerId("bench"), lease=DEFAULT_LEASE * 1000)
    await tools.list(lease)
    return lambda key: tools.call(lease, "mcp__bench__echo", ARGUMENTS, key=key)


async def _rate(call: Callable[[str], Awaitable[object]], count: int, seconds: float) -> float:
    """Return calls per second, with `count` concurrent callers."""
    end = time.perf_counter() + seconds

    async def calls(number: int) -> int:
        call_counts = 0
        while time.perf_counter() < end:
            await call(f"key-{number}-{call_counts}")
            call_counts += 1
        return call_counts

    started = time.perf_counter()
    call_counts = await asyncio.gather(*(calls(number) for number in range(count)))
    return sum(call_counts) / (time.perf_counter() - started)
