"""A pool of the MCP servers in use in a process: one client per declaration and space.

A server that is a program runs in a sandbox, in its own folder or in one of the workspace, with the environment
variables that its declaration names. Modules that need the MCP SDK are imported on first use, in a thread.
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
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.mcp_server import ENV_REFERENCE, McpServer, env_references, server_identity
from holdfast.domain.tool import ToolInterrupt, ToolReply
from holdfast.mcp.calls import ConnectionLoss
from holdfast.mcp.server import IDLE_TIMEOUT_SECONDS, McpServerClient
from holdfast.ports.runs import Runs
from holdfast.ports.sandbox import Sandbox, SandboxCommand
from holdfast.tools.redaction import Redaction

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from holdfast.mcp.connection import ElicitHandler, McpConnection


MAX_LIFETIME_SECONDS: Final = 365 * 86_400.0
"""Seconds after which a server is ended in any case."""
MAX_OUTPUT_BYTES: Final = 16 * 1024
"""Bytes of what it wrote that are kept, for its last words."""


class ServerLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers that are programs run."""

    workspace: Path
    data_folder: Path
    """What Holdfast itself keeps: it has a folder for each server that works in none of the workspace."""
    sandbox: Sandbox
    unconfined: Sandbox
    """For those that an operator lets out."""

    def sandbox_for(self, declared: McpServer) -> Sandbox:
        """Return what a server runs in."""
        return self.sandbox if declared.sandbox == "on" else self.unconfined

    def command(self, space: SpaceId, declared: McpServer, environment: Mapping[str, str]) -> SandboxCommand:
        """Return what starts a server; the folder that it works in is made if it is not there."""
        root = self._folder(space, declared)
        words = [declared.command or "", *declared.args]
        return SandboxCommand(
            argv=[self._absolute(word) for word in words],
            root=root,
            folder=root,
            readable=[*map(Path, declared.reads), *self._readable(words)],
            network=declared.network,
            environment=resolve_variables(declared.env, environment),
            stream_stderr=False,
            timeout=MAX_LIFETIME_SECONDS,
            output_limit=MAX_OUTPUT_BYTES,
        )

    def _folder(self, space: SpaceId, declared: McpServer) -> Path:
        kept = self.data_folder / "mcp" / request_digest([space, server_identity(declared)])[:32]
        folder = kept if declared.cwd is None else self.workspace / declared.cwd
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise McpServerFailed(f"its folder `{folder}` cannot be made: {exc.strerror}", started=False) from exc
        if folder.resolve() != folder:
            raise McpServerFailed(f"its folder `{declared.cwd}` leads out of the workspace", started=False)
        return folder

    def _absolute(self, word: str) -> str:
        return os.path.normpath(self.workspace / word) if word.startswith("./") else word

    def _readable(self, words: Sequence[str]) -> list[Path]:
        """Return what a server may read of the workspace: the folders of what its command names."""
        found = []
        for word in words:
            if word.startswith("./"):
                path = Path(self._absolute(word))
                if self.workspace not in path.parents or path.is_relative_to(self.data_folder):
                    raise McpServerFailed(f"`{word}` is nothing that a server may read: name another", started=False)
                found.append(path if path.parent == self.workspace or path.is_dir() else path.parent)
        return found


def resolve_variables(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return texts with the values of the variables that they name."""
    return {name: _resolve_text(text, environment) for name, text in texts.items()}


def _resolve_text(text: str, environment: Mapping[str, str]) -> str:
    missing = [name for name in ENV_REFERENCE.findall(text) if name not in environment]
    if missing:
        raise McpServerFailed(
            f"there is no variable `{missing[0]}` in the environment of Holdfast: set it, or take it out of the "
            "declaration of the server",
            started=False,
        )
    return ENV_REFERENCE.sub(lambda found: environment[found[1]], text)


SWEEP_INTERVAL_SECONDS: Final = 1.0
"""Seconds between two looks for calls that wait for an answer and whose runs have ended."""


class McpServerPool:
    """Servers by their declarations."""

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
        """Return the server of a declaration; a space shares it with no other."""
        key = (space, name, request_digest(declared))
        if key not in self._servers:
            self._servers[key] = McpServerClient(
                name,
                declared,
                tasks=self._tasks,
                open=lambda ending, elicit: self._open(space, declared, ending, elicit),
                idle=self._idle,
                monotonic=self._monotonic,
            )
        return self._servers[key]

    def redact(self, server: McpServerClient, reply: ToolReply) -> ToolReply:
        """Return a reply without what the server was given in secret."""
        secrets = [self._environment[name] for name in env_references(server.declared) if name in self._environment]
        if not secrets:
            return reply
        redaction = Redaction(secrets)
        return replace(
            reply, content=redaction.json(reply.content), question=_redact_interrupt(reply.question, redaction)
        )

    async def sweep(self, runs: Runs) -> None:
        """Call off the calls that wait for an answer and whose runs have ended."""
        for (space, _, _), server in list(self._servers.items()):
            for key, call in server.open_calls.all_awaiting_answer():
                if await _has_ended(runs, space, call.run_id):
                    server.open_calls.drop(key)

    def close(self) -> None:
        """Let all servers go."""
        for server in self._servers.values():
            server.close()

    @asynccontextmanager
    async def _open(
        self, space: SpaceId, declared: McpServer, ending: ConnectionLoss, elicit: "ElicitHandler"
    ) -> "AsyncIterator[McpConnection]":
        sdk = await _import_sdk_module("connection")
        async with sdk.open_connection(await self._transport(space, declared, ending), ending, elicit) as connection:
            yield connection

    async def _transport(
        self, space: SpaceId, declared: McpServer, ending: ConnectionLoss
    ) -> "AbstractAsyncContextManager[TransportStreams]":
        transport: AbstractAsyncContextManager[TransportStreams]
        if declared.url is not None:
            http = await _import_sdk_module("transports")
            transport = http.http_transport(declared.url, resolve_variables(declared.headers, self._environment))
        else:
            stdio = await _import_sdk_module("transports")
            command = await asyncio.to_thread(self._launcher.command, space, declared, self._environment)
            transport = stdio.stdio_transport(self._launcher.sandbox_for(declared), command, ending)
        return transport


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
    """Have servers while the block runs; at its end all of them are let go."""
    async with FirstErrorTaskGroup() as tasks:
        servers = McpServerPool(launcher, tasks=tasks, environment=environment, idle=idle, monotonic=monotonic)
        sweeping = tasks.create_task(_sweep(servers, runs, every=sweep))
        try:
            yield servers
        finally:
            sweeping.cancel()
            servers.close()


async def _import_sdk_module(name: str) -> ModuleType:
    """Return a module of ours that needs the SDK, which takes seconds to import."""
    try:
        return await asyncio.to_thread(import_module, f"holdfast.mcp.{name}")
    except ImportError as exc:
        raise McpServerFailed(f"MCP servers need a package ({exc}): run `pip install mcp`", started=False) from exc


async def _sweep(servers: McpServerPool, runs: Runs, *, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await servers.sweep(runs)


async def _has_ended(runs: Runs, space: SpaceId, run_id: RunId) -> bool:
    try:
        return (await runs.get(space, run_id)).status.terminal
    except NotFound:
        return True


def _redact_interrupt(question: ToolInterrupt | None, redaction: Redaction) -> ToolInterrupt | None:
    return None if question is None else replace(question, message=redaction.text(question.message))
