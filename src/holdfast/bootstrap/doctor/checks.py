"""Checks of `holdfast doctor`: versions, definitions, providers, sandbox, MCP servers and traces, then the storage.

The checks run in the order in which the parts depend on each other. They change nothing but the home folders of MCP
servers, which are started; a running server is not disturbed. API keys are never printed.
"""

import asyncio
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

import holdfast
from holdfast.bootstrap.doctor.finding import ANNOUNCE_SECONDS, Announce, Finding, failure, ignore, ok, warning
from holdfast.bootstrap.doctor.providers import diagnose_models, diagnose_providers
from holdfast.bootstrap.doctor.storage import diagnose_database, diagnose_disk, diagnose_free_space
from holdfast.bootstrap.observability import check_opentelemetry_installed
from holdfast.bootstrap.store import is_postgres
from holdfast.bootstrap.workspace_tools import (
    known_tool_names,
    make_server_launcher,
    reserved_tool_names,
    workspace_tools,
)
from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.agent import Agent
from holdfast.domain.errors import HoldfastError, Invalid, McpServerFailed, NotFound, Unavailable
from holdfast.domain.packages import EXTRA_MODULES, has_extra, install_command
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.mcp.connection import HANDSHAKE_TIMEOUT_SECONDS
from holdfast.mcp.server import IDLE_TIMEOUT_SECONDS, McpServerClient
from holdfast.mcp.servers import McpServerPool
from holdfast.sandbox.detection import RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import open_processes
from holdfast.tools.commands.custom_tool import BrokenTool
from holdfast.tools.permissions.rules import WEB_FETCH_TOOL
from holdfast.tools.registry import check_tool_pattern
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import function_files, function_names
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.settings import FolderSettings, Settings, TelemetrySettings
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.tools import read_tool, tool_folders


async def diagnose(folder: Path, *, database: str | None = None, announce: Announce = ignore) -> list[Finding]:
    """Check everything that a server on this workspace needs; `announce` is told what takes long."""
    versions = diagnose_versions()
    try:
        workspace = Workspace(folder)
    except NotFound as exc:
        problem, _, remedy = exc.message.rpartition(": ")
        return [versions, failure("workspace", problem, remedy=remedy)]
    except Unavailable as exc:
        return [versions, failure("workspace", exc.message, remedy="give the user of the server read access")]
    definitions = WorkspaceDefinitions(workspace)
    where = database or workspace.database
    return [
        versions,
        *definitions.diagnose(),
        *diagnose_extras(definitions.settings, definitions.agents),
        *await diagnose_providers(definitions.settings.providers, definitions.agents),
        *await diagnose_models(definitions.settings, definitions.agents, announce=announce),
        await diagnose_sandbox(definitions.settings, required=definitions.has_commands),
        *await diagnose_functions(workspace, definitions.settings),
        *await diagnose_mcp_servers(workspace, definitions.settings, definitions.agents, announce=announce),
        *diagnose_tracing(definitions.settings.telemetry),
        *await diagnose_database(where, is_default=database is None),
        *await asyncio.to_thread(_diagnose_disks, workspace, where),
    ]


def _diagnose_disks(workspace: Workspace, where: str | Path) -> list[Finding]:
    """Check the disk of the database; with PostgreSQL, only the free space of the workspace."""
    if is_postgres(where):
        return [diagnose_free_space(workspace.path)]
    folder = Path(where).absolute().parent
    return diagnose_disk(folder if folder.is_dir() else workspace.path)


MIN_SQLITE_VERSION: Final = (3, 37, 0)
"""The first version with `RETURNING` and strict tables."""

_REPORTED_PACKAGES: Final = ("litestar", "uvicorn", "pydantic-ai-slim", "asyncpg", "opentelemetry-sdk")


def diagnose_versions() -> Finding:
    """Report the versions of Holdfast, Python, SQLite and important packages."""
    versions = f"holdfast {holdfast.__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        minimum = ".".join(map(str, MIN_SQLITE_VERSION))
        remedy = f"use a Python that comes with SQLite {minimum} or later, or PostgreSQL"
        return failure("versions", f"{versions}: this SQLite is too old", remedy=remedy)
    for package in _REPORTED_PACKAGES:
        with suppress(PackageNotFoundError):
            versions += f", {package} {version(package)}"
    return ok("versions", versions)


def diagnose_extras(settings: Settings, agents: Sequence[Agent]) -> list[Finding]:
    """Report the installed extras, and those that an agent does without. `diagnose_providers` reports on models."""
    there, missing = [
        ", ".join(each for each in EXTRA_MODULES if has_extra(each) is wanted) for wanted in (True, False)
    ]
    commands = f"; not installed: {missing} (one with `{install_command('NAME')}`)" if missing else ""
    findings = [ok("extras", f"installed: {there or 'none'}{commands}")]
    fetching = [agent.name for agent in agents if WEB_FETCH_TOOL in agent.tools]
    if fetching and not has_extra("web"):
        message = f"`{WEB_FETCH_TOOL}` of {', '.join(fetching)} reads HTML only `raw`, for lack of `html-to-markdown`"
        findings.append(warning("extras", message, remedy=f"run `{install_command('web')}`"))
    remembering = [agent.name for agent in agents if agent.memory is not None and agent.memory.recall]
    if remembering and settings.recall.embedder == "static" and not has_extra("memory"):
        message = f"English recall of {', '.join(remembering)} compares words only, for lack of vectors"
        findings.append(warning("extras", message, remedy=f"run `{install_command('memory')}`"))
    return findings


class DeclaredServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server, and the file that declares it."""

    name: str
    declared_in: str
    address: str


class WorkspaceDefinitions:
    """The agents, tools and settings of a workspace, as far as they are valid."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tool_names = tool_names = known_tool_names(workspace, ())
        folder_settings = FolderSettings(workspace, tool_names=tool_names)
        self._settings_error = folder_settings.broken()
        self.settings = Settings() if self._settings_error is not None else folder_settings.get()
        """The settings; the defaults if the file is invalid."""
        self._grants = FolderGrants(workspace, tool_names=tool_names)
        self._folder_agents = FolderAgents(workspace, settings=lambda: self.settings, tool_names=tool_names)
        self.agents = self._folder_agents.all()
        self._tools = tool_folders(workspace)
        self._skills = WorkspaceSkills(workspace)
        self.has_commands = bool(self._tools or function_names(workspace)) or any(
            "bash" in agent.tools for agent in self.agents
        )
        """Whether an agent may run commands, or there is a custom tool, which runs one."""

    def check_agents(self) -> dict[str, str | None]:
        """Return the agents by name, each with its error if its files are invalid."""
        broken = {each.name: each.message for each in self._folder_agents.broken()}
        return dict(sorted({**{agent.name: self._unknown_tool(agent) for agent in self.agents}, **broken}.items()))

    def _unknown_tool(self, agent: Agent) -> str | None:
        """Return the error of an agent that names a tool which the workspace does not have."""
        try:
            for pattern in agent.tools:
                check_tool_pattern(pattern, known=self._tool_names)
        except Invalid as exc:
            return exc.message
        return None

    def mcp_servers(self) -> list[DeclaredServer]:
        """Return the MCP servers that the settings and the agents declare."""
        declared = [("settings.json", self.settings.mcp_servers)]
        declared += [(f"agents/{agent.name}/agent.json", agent.mcp_servers) for agent in self.agents]
        return [
            DeclaredServer(
                name=name, declared_in=place, address=server.url or " ".join([server.command or "", *server.args])
            )
            for place, servers in declared
            for name, server in servers.items()
        ]

    def diagnose(self) -> Iterator[Finding]:
        """Yield the findings about the files of the workspace."""
        yield _file_finding("settings", self._settings_error)
        for folder in self.settings.project_folders:
            if os.path.realpath(folder) != folder or not os.path.isdir(folder):
                message = f"the project folder `{folder}` does not exist, or is behind a symbolic link"
                yield failure("settings", message, remedy="create it, or list its real path in `settings.json`")
        yield from self._diagnose_agents()
        valid_tools = list(self._tools)
        for name in self._tools:
            try:
                read_tool(self._workspace, name, reserved=reserved_tool_names(()))
            except HoldfastError as exc:
                yield failure("tools", exc.message, remedy=f"correct `tools/{name}/tool.json`")
                valid_tools.remove(name)
        if valid_tools:
            yield ok("tools", f"these custom tools load: {', '.join(valid_tools)}")
        for skill in self._skills.broken():
            yield failure("skills", skill.message, remedy=f"correct `{skill.file}`")
        yield _file_finding("permissions", self._grants.broken())

    def _diagnose_agents(self) -> Iterator[Finding]:
        for broken in self._folder_agents.broken():
            yield failure("agents", broken.message, remedy=f"correct `{broken.file}`")
        for agent in self.agents:
            if (problem := self._unknown_tool(agent)) is not None:
                remedy = f"correct `tools` in `agents/{agent.name}/agent.json`: until then each of its runs fails"
                yield failure("agents", f"agent `{agent.name}`: {problem}", remedy=remedy)
        if self.agents:
            yield ok("agents", f"these load: {', '.join(agent.name for agent in self.agents)}")
        else:
            yield failure("agents", "no agent loads", remedy="create one, as `holdfast init` does in `agents/`")


def _file_finding(name: str, error: HoldfastError | None) -> Finding:
    if error is None:
        return ok(name, f"`{name}.json` is valid or does not exist")
    return failure(name, error.message, remedy=f"correct `{name}.json`")


async def diagnose_sandbox(settings: Settings, *, required: bool) -> Finding:
    """Report whether commands can run in a sandbox; a missing sandbox is a failure only if it is `required`."""
    if settings.sandbox == "off":
        message = '`"sandbox": "off"` is set: commands have all rights of the server'
        return warning("sandbox", message, remedy="remove it from `settings.json`, unless it is intended")
    async with open_processes() as processes:
        sandbox = await detect_sandbox(processes, readable=tuple(map(Path, settings.sandbox_reads)))
    if not isinstance(sandbox, RefusingSandbox):
        return ok("sandbox", "commands run in bubblewrap")
    message, _, remedy = sandbox.reason.partition(": ")
    return (failure if required else warning)("sandbox", message, remedy=remedy)


async def diagnose_functions(workspace: Workspace, settings: Settings) -> list[Finding]:
    """Load the files `tools/<name>.py` as the server does, and report what they define."""
    findings = []
    if not function_files(workspace):
        return []
    async with open_processes() as processes:
        functions = workspace_tools(workspace, processes, settings, ()).functions
        await functions.refresh()
        for name, message in functions.broken.items():
            findings.append(failure("tools", f"tools/{name}: {message}", remedy=f"correct `tools/{name}`"))
        if loaded := [tool.spec.name for tool in functions.get() if not isinstance(tool, BrokenTool)]:
            findings.append(ok("tools", f"these functions load: {', '.join(loaded)}"))
    return findings


async def diagnose_mcp_servers(
    workspace: Workspace,
    settings: Settings,
    agents: Sequence[Agent],
    *,
    only: str | None = None,
    announce: Announce = ignore,
) -> list[Finding]:
    """Start every declared MCP server, or `only` the one of that name, and report what it answers."""
    declared = [*settings.mcp_servers.items(), *(each for agent in agents for each in agent.mcp_servers.items())]
    declared = [(name, server) for name, server in declared if only in (None, name)]
    if not declared:
        return []
    async with open_processes() as processes, FirstErrorTaskGroup() as tasks:
        launcher = make_server_launcher(workspace, processes, settings)
        servers = McpServerPool(
            launcher, tasks=tasks, environment=os.environ, idle=IDLE_TIMEOUT_SECONDS, monotonic=time.monotonic
        )
        # The same declaration in several places is one server.
        clients = dict.fromkeys(servers.get(DEFAULT_SPACE, name, server) for name, server in declared)
        probes = {tasks.create_task(_diagnose_mcp_server(client)): client.name for client in clients}
        _, slow = await asyncio.wait(probes, timeout=ANNOUNCE_SECONDS)
        if slow:
            names = ", ".join(f"`{name}`" for probe, name in probes.items() if probe in slow)
            announce(f"waiting for the MCP server {names}, at most {HANDSHAKE_TIMEOUT_SECONDS:g} s …")
            await asyncio.wait(slow)
        servers.close()
    return [probe.result() for probe in probes]


async def _diagnose_mcp_server(server: McpServerClient) -> Finding:
    try:
        tools = await server.fresh_tools()
        names = f": {', '.join(tool.spec.name for tool in tools)}" if tools else ""
        return ok("mcp", f"`{server.name}` answers, with {len(tools)} tools{names}")
    except McpServerFailed as exc:
        failed = server.failure()
        if failed is None:  # it started, and refused to list its tools
            return failure("mcp", exc.message, remedy="see its log or its documentation")
        stderr = f" (its stderr: {' '.join(failed.stderr.split())})" if failed.stderr else ""
        why = "correct what its stderr says" if failed.stderr else "start it by hand to see why"
        return failure("mcp", f"{failed.message}{stderr}", remedy=failed.remedy or why)


def diagnose_tracing(settings: TelemetrySettings) -> list[Finding]:
    """Report whether spans can be exported, if traces are enabled."""
    if not settings.traces:
        return []
    try:
        check_opentelemetry_installed()
        from holdfast.telemetry.tracing import span_processor

        span_processor().shutdown()
    except Invalid as exc:
        remedy = "do so, or remove `traces` from `settings.json`: the server does not start like this"
        return [failure("traces", exc.message, remedy=remedy)]
    content = "with message and tool content" if settings.capture_content else "without message and tool content"
    return [ok("traces", f"spans are exported, {content}")]
