"""All servers that are in use in a process: one for each declaration and space, whoever declares it."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.agent.tasks import Tasks
from holdfast.domain.errors import McpServerFailed, NotFound
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.mcp_server import McpServer, env_references
from holdfast.domain.tool import ToolInterrupt, ToolReply
from holdfast.mcp.ending import Ending
from holdfast.mcp.programs import Places
from holdfast.mcp.references import resolved
from holdfast.mcp.server import IDLE, Server
from holdfast.ports.runs import Runs
from holdfast.tools.redaction import Redaction

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from holdfast.mcp.connection import Connection, Elicit

SWEEP: Final = 1.0
"""Seconds between two looks for calls that wait for an answer and whose runs have ended."""


class Servers:
    """Servers by their declarations."""

    def __init__(
        self,
        places: Places,
        *,
        tasks: asyncio.TaskGroup,
        environment: Mapping[str, str],
        idle: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._places = places
        self._tasks = tasks
        self._environment = environment
        self._idle = idle
        self._monotonic = monotonic
        self._servers: dict[tuple[SpaceId, str, str], Server] = {}

    def get(self, space: SpaceId, name: str, declared: McpServer) -> Server:
        """Return the server of a declaration; a space shares it with no other."""
        key = (space, name, request_digest(declared))
        if key not in self._servers:
            self._servers[key] = Server(
                name,
                declared,
                tasks=self._tasks,
                open=lambda ending, elicit: self._open(space, declared, ending, elicit),
                idle=self._idle,
                monotonic=self._monotonic,
            )
        return self._servers[key]

    def redacted(self, server: Server, reply: ToolReply) -> ToolReply:
        """Return a reply without what the server was given in secret."""
        secrets = [self._environment[name] for name in env_references(server.declared) if name in self._environment]
        if not secrets:
            return reply
        redaction = Redaction(secrets)
        return replace(reply, content=redaction.json(reply.content), question=_redacted(reply.question, redaction))

    async def sweep(self, runs: Runs) -> None:
        """Call off the calls that wait for an answer and whose runs have ended."""
        for (space, _, _), server in list(self._servers.items()):
            for key, call in server.open_calls.waiting():
                if await _has_ended(runs, space, call.run_id):
                    server.open_calls.drop(key)

    def close(self) -> None:
        """Let all servers go."""
        for server in self._servers.values():
            server.close()

    @asynccontextmanager
    async def _open(
        self, space: SpaceId, declared: McpServer, ending: Ending, elicit: "Elicit"
    ) -> "AsyncIterator[Connection]":
        sdk = await _through_sdk("connection")
        async with sdk.connected(await self._transport(space, declared, ending), ending, elicit) as connection:
            yield connection

    async def _transport(
        self, space: SpaceId, declared: McpServer, ending: Ending
    ) -> "AbstractAsyncContextManager[TransportStreams]":
        transport: AbstractAsyncContextManager[TransportStreams]
        if declared.url is not None:
            http = await _through_sdk("http")
            transport = http.address_transport(declared.url, resolved(declared.headers, self._environment))
        else:
            stdio = await _through_sdk("stdio")
            command = await asyncio.to_thread(self._places.command, space, declared, self._environment)
            transport = stdio.process_transport(self._places.sandbox_of(declared), command, ending)
        return transport


@asynccontextmanager
async def open_servers(
    places: Places,
    *,
    runs: Runs,
    environment: Mapping[str, str] = os.environ,
    idle: float = IDLE,
    sweep: float = SWEEP,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Servers]:
    """Have servers while the block runs; at its end all of them are let go."""
    async with Tasks() as tasks:
        servers = Servers(places, tasks=tasks, environment=environment, idle=idle, monotonic=monotonic)
        sweeping = tasks.create_task(_sweep(servers, runs, every=sweep))
        try:
            yield servers
        finally:
            sweeping.cancel()
            servers.close()


async def _through_sdk(name: str) -> ModuleType:
    """Return a module of ours that needs the SDK, which takes seconds to import."""
    try:
        return await asyncio.to_thread(import_module, f"holdfast.mcp.{name}")
    except ImportError as exc:
        raise McpServerFailed(f"MCP servers need a package ({exc}): run `pip install mcp`", started=False) from exc


async def _sweep(servers: Servers, runs: Runs, *, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await servers.sweep(runs)


async def _has_ended(runs: Runs, space: SpaceId, run_id: RunId) -> bool:
    try:
        return (await runs.get(space, run_id)).status.terminal
    except NotFound:
        return True


def _redacted(question: ToolInterrupt | None, redaction: Redaction) -> ToolInterrupt | None:
    return None if question is None else replace(question, message=redaction.text(question.message))
