"""Pool of the MCP servers used by a process: one client per declaration and space.

A stdio server runs in a sandbox, in its own folder or in one of the workspace, with the environment variables of
its declaration. Modules that need the MCP SDK are imported on first use, in a thread.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.errors import McpServerFailed, NotFound
from holdfast.domain.idempotency import request_digest
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import ENV_REFERENCE, McpServer, env_references, server_identity
from holdfast.domain.tool import ToolReply
from holdfast.mcp.calls import ConnectionLoss
from holdfast.mcp.server import IDLE_TIMEOUT_SECONDS, McpServerClient
from holdfast.ports.runs import Runs
from holdfast.ports.sandbox import Sandbox, SandboxCommand
from holdfast.tools.redaction import Redaction

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from holdfast.mcp.connection import ElicitHandler, McpConnection


MAX_LIFETIME_SECONDS: Final = 365 * 86_400.0
"""Seconds after which a server process is killed in any case."""
MAX_OUTPUT_BYTES: Final = 16 * 1024
"""Bytes kept of its output, for the error message after it ended."""


class ServerLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and sandboxes of stdio servers."""

    workspace: Path
    data_folder: Path
    """Holdfast's own data; it has a folder for each server without a folder in the workspace."""
    sandbox: Sandbox
    unconfined: Sandbox
    """For servers whose declaration sets `"sandbox": "off"`."""

    def sandbox_for(self, declared: McpServer) -> Sandbox:
        """Return the sandbox of a server."""
        return self.sandbox if declared.sandbox == "on" else self.unconfined

    def command(self, space: SpaceId, declared: McpServer, environment: Mapping[str, str]) -> SandboxCommand:
        """Return the command of a server; its working folder is created if needed."""
        root = self._folder(space, declared)
        argv = [declared.command or "", *declared.args]
        return SandboxCommand(
            argv=[self._absolute(argument) for argument in argv],
            root=root,
            folder=root,
            readable=[*map(Path, declared.reads), *self._readable(argv)],
            network=declared.network,
            environment=resolve_variables(declared.env, environment),
            stream_stderr=False,
            timeout=MAX_LIFETIME_SECONDS,
            output_limit=MAX_OUTPUT_BYTES,
        )

    def _folder(self, space: SpaceId, declared: McpServer) -> Path:
        own_folder = self.data_folder / "mcp" / request_digest([space, server_identity(declared)])[:32]
        folder = own_folder if declared.cwd is None else self.workspace / declared.cwd
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise McpServerFailed(f"its folder `{folder}` cannot be created: {exc.strerror}", started=False) from exc
        if folder.resolve() != folder:
            raise McpServerFailed(f"its folder `{declared.cwd}` is outside the workspace", started=False)
        return folder

    def _absolute(self, argument: str) -> str:
        return os.path.normpath(self.workspace / argument) if argument.startswith("./") else argument

    def _readable(self, argv: Sequence[str]) -> list[Path]:
        """Return the folders of the workspace that a server may read: those of the paths in its command."""
        folders = []
        for argument in argv:
            if argument.startswith("./"):
                path = Path(self._absolute(argument))
                if self.workspace not in path.parents or path.is_relative_to(self.data_folder):
                    raise McpServerFailed(f"a server may not read `{argument}`: choose another path", started=False)
                folders.append(path if path.parent == self.workspace or path.is_dir() else path.parent)
        return folders


def resolve_variables(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return texts with their `${…}` references replaced by the values of the environment variables."""
    for text in texts.values():
        missing = [name for name in ENV_REFERENCE.findall(text) if name not in environment]
        if missing:
            raise McpServerFailed(
                f"there is no environment variable `{missing[0]}`: set it, or remove it from the server's declaration",
                started=False,
            )
    return {name: ENV_REFERENCE.sub(lambda match: environment[match[1]], text) for name, text in texts.items()}


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
        self._servers: dict[tuple[SpaceId, str, str], McpServerClient] = {}

    def get(self, space: SpaceId, name: str, declared: McpServer) -> McpServerClient:
        """Return the client of a declared server; spaces never share one."""
        key = (space, name, request_digest(declared))
        if key not in self._servers:
            self._servers[key] = McpServerClient(
                name,
                declared,
                tasks=self._tasks,
                open=lambda loss, elicit: self._open(space, declared, loss, elicit),
                idle=self._idle,
                monotonic=self._monotonic,
            )
        return self._servers[key]

    def redact(self, server: McpServerClient, reply: ToolReply) -> ToolReply:
        """Return a reply without the secrets that the server received."""
        secrets = [self._environment[name] for name in env_references(server.declared) if name in self._environment]
        if not secrets:
            return reply
        redaction = Redaction(secrets)
        interrupt = reply.interrupt
        if interrupt is not None:
            interrupt = replace(interrupt, message=redaction.text(interrupt.message))
        return replace(reply, content=redaction.json(reply.content), interrupt=interrupt)

    async def sweep(self, runs: Runs) -> None:
        """Cancel the calls that wait for a response although their runs have ended."""
        for (space, _, _), server in list(self._servers.items()):
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
