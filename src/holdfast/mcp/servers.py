"""Pool of the MCP servers used by a process: one client per declaration and space.

Modules that need the MCP SDK are imported on first use, in a thread.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.errors import McpServerFailed, NotFound
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import McpServer, env_references
from holdfast.domain.tool import ToolReply
from holdfast.mcp.calls import ConnectionLoss
from holdfast.mcp.launcher import ServerLauncher, resolve_variables
from holdfast.mcp.server import IDLE_TIMEOUT_SECONDS, McpServerClient
from holdfast.ports.runs import Runs
from holdfast.tools.redaction import Redaction
from holdfast.tools.thread_pool import run_in_thread

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from holdfast.mcp.connection import ElicitHandler, McpConnection


SWEEP_INTERVAL_SECONDS: Final = 1.0
"""Seconds between two checks for calls that wait for a response although their runs have ended."""


class McpServerPool:
    """Server clients by space and declaration."""

    def __init__(
        self,
        launcher: ServerLauncher,
        *,
        tasks: asyncio.TaskGroup,
        environment: Mapping[str, str],
        idle: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._launcher = launcher
        self._tasks = tasks
        self._environment = environment
        self._idle = idle
        self._monotonic = monotonic
        self._servers: dict[tuple[SpaceId, int, str, str], McpServerClient] = {}

    def get(self, space: SpaceId, name: str, declared: McpServer, *, space_key: int = 0) -> McpServerClient:
        """Return the client of a declared server; spaces never share one.

        `space_key` tells a space from a deleted one of the same id, whose servers may still run.
        """
        key = (space, space_key, name, request_digest(declared))
        if key not in self._servers:
            self._servers[key] = McpServerClient(
                name,
                declared,
                tasks=self._tasks,
                open=lambda loss, elicit: self._open(space, declared, loss, elicit),
                remedy=lambda stderr: self._launcher.remedy(declared, stderr),
                redaction=self._redaction(declared),
                idle=self._idle,
                monotonic=self._monotonic,
            )
        return self._servers[key]

    def of_space(self, space: SpaceId) -> list[McpServerClient]:
        """Return the clients of a space so far."""
        return [client for (owner, *_), client in self._servers.items() if owner == space]

    async def redact(self, server: McpServerClient, reply: ToolReply) -> ToolReply:
        """Return a reply without the secrets that the server received."""
        if not env_references(server.declared):
            return reply
        redaction = self._redaction(server.declared)
        interrupt = reply.interrupt
        if interrupt is not None:
            interrupt = replace(interrupt, message=redaction.text(interrupt.message))
        # In a thread: a reply may be megabytes long, and hold thousands of secrets.
        content = await run_in_thread(lambda _: redaction.json(reply.content))
        return replace(reply, content=content, interrupt=interrupt)

    def _redaction(self, declared: McpServer) -> Redaction:
        return Redaction(self._environment[name] for name in env_references(declared) if name in self._environment)

    async def sweep(self, runs: Runs) -> None:
        """Cancel the calls that wait for a response although their runs have ended."""
        for (space, *_), server in list(self._servers.items()):
            for key, call in server.open_calls.all_awaiting_response():
                try:
                    ended = (await runs.get(space, call.run_id)).status.terminal
                except NotFound:
                    ended = True
                if ended:
                    server.open_calls.drop(key)

    def close(self) -> None:
        """Close all clients."""
        for server in self._servers.values():
            server.close()

    @asynccontextmanager
    async def _open(
        self, space: SpaceId, declared: McpServer, loss: ConnectionLoss, elicit: "ElicitHandler"
    ) -> "AsyncIterator[McpConnection]":
        sdk = await _import_sdk_module("connection")
        transports = await _import_sdk_module("transports")
        transport: AbstractAsyncContextManager[TransportStreams]
        if declared.url is not None:
            transport = transports.http_transport(declared.url, resolve_variables(declared.headers, self._environment))
        else:
            command = await asyncio.to_thread(self._launcher.command, space, declared, self._environment)
            transport = transports.stdio_transport(self._launcher.sandbox_for(declared), command, loss)
        async with sdk.open_connection(transport, loss, elicit) as connection:
            yield connection


@asynccontextmanager
async def open_mcp_servers(
    launcher: ServerLauncher,
    *,
    runs: Runs,
    environment: Mapping[str, str] = os.environ,
    idle: float = IDLE_TIMEOUT_SECONDS,
    sweep: float = SWEEP_INTERVAL_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[McpServerPool]:
    """Use servers within the block; close all of them at its end."""
    async with FirstErrorTaskGroup() as tasks:
        servers = McpServerPool(launcher, tasks=tasks, environment=environment, idle=idle, monotonic=monotonic)

        async def sweep_forever() -> None:
            while True:
                await asyncio.sleep(sweep)
                await servers.sweep(runs)

        sweeper = tasks.create_task(sweep_forever())
        try:
            yield servers
        finally:
            sweeper.cancel()
            servers.close()


async def _import_sdk_module(name: str) -> ModuleType:
    """Import a module of this package that needs the SDK, in a thread: that takes seconds."""
    try:
        return await asyncio.to_thread(import_module, f"holdfast.mcp.{name}")
    except ImportError as exc:
        raise McpServerFailed(f"MCP servers need a package ({exc}): run `pip install mcp`", started=False) from exc
