"""Checks of `holdfast doctor`: versions, definitions, providers, sandbox and traces, then the storage.

The checks run in the order in which the parts depend on each other. They change nothing, and a running server is not
disturbed. API keys are never printed.
"""

import asyncio
import platform
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import holdfast
from holdfast.bootstrap.doctor.finding import Finding, failure, ok, warning
from holdfast.bootstrap.doctor.storage import diagnose_database, diagnose_disk, diagnose_free_space
from holdfast.bootstrap.observability import check_opentelemetry_installed
from holdfast.bootstrap.store import is_postgres
from holdfast.bootstrap.workspace_tools import known_tool_names, reserved_tool_names
from holdfast.domain.agent import SCRIPTED_PROVIDER, Agent
from holdfast.domain.errors import HoldfastError, Invalid, NotFound, Unavailable
from holdfast.domain.model_provider import Providers
from holdfast.models.registry import ListedModels
from holdfast.sandbox.detection import RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import open_processes
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.settings import FolderSettings, Settings, TelemetrySettings
from holdfast.workspace.tools import read_tool, tool_folders


async def diagnose(folder: Path, *, database: str | None = None) -> list[Finding]:
    """Check everything that a server on this workspace needs."""
    versions = diagnose_versions()
    try:
        workspace = Workspace(folder)
    except NotFound as exc:
        return [versions, failure("workspace", exc.message, remedy=f"run `holdfast init {shlex.quote(str(folder))}`")]
    except Unavailable as exc:
        return [versions, failure("workspace", exc.message, remedy="give the user of the server read access")]
    definitions = WorkspaceDefinitions(workspace)
    where = database or workspace.database
    return [
        versions,
        *definitions.diagnose(),
        *await diagnose_providers(definitions.settings.providers, definitions.agents),
        await diagnose_sandbox(definitions.settings, required=definitions.has_commands),
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


class WorkspaceDefinitions:
    """The agents, tools and settings of a workspace, as far as they are valid."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        tool_names = known_tool_names(workspace, ())
        folder_settings = FolderSettings(workspace, tool_names=tool_names)
        self._settings_error = folder_settings.broken()
        self.settings = Settings() if self._settings_error is not None else folder_settings.get()
        """The settings; the defaults if the file is invalid."""
        self._grants = FolderGrants(workspace, tool_names=tool_names)
        self._folder_agents = FolderAgents(workspace, settings=lambda: self.settings, tool_names=tool_names)
        self.agents = self._folder_agents.all()
        self._tools = tool_folders(workspace)
        self.has_commands = bool(self._tools) or any("bash" in agent.tools for agent in self.agents)
        """Whether an agent may run commands, or there is a custom tool, which runs one."""

    def diagnose(self) -> Iterator[Finding]:
        """Yield the findings about the files of the workspace."""
        yield _file_finding("settings", self._settings_error)
        for broken in self._folder_agents.broken():
            yield failure("agents", broken.message, remedy=f"correct `{broken.file}`")
        if self.agents:
            yield ok("agents", f"these load: {', '.join(agent.name for agent in self.agents)}")
        else:
            yield failure("agents", "no agent loads", remedy="create one, as `holdfast init` does in `agents/`")
        valid_tools = list(self._tools)
        for name in self._tools:
            try:
                read_tool(self._workspace, name, reserved=reserved_tool_names(()))
            except HoldfastError as exc:
                yield failure("tools", exc.message, remedy=f"correct `tools/{name}/tool.json`")
                valid_tools.remove(name)
        if valid_tools:
            yield ok("tools", f"these custom tools load: {', '.join(valid_tools)}")
        yield _file_finding("permissions", self._grants.broken())


def _file_finding(name: str, error: HoldfastError | None) -> Finding:
    if error is None:
        return ok(name, f"`{name}.json` is valid or does not exist")
    return failure(name, error.message, remedy=f"correct `{name}.json`")


async def diagnose_providers(settings: Providers, agents: Sequence[Agent]) -> list[Finding]:
    """Report the usable providers, and the agents whose provider is unknown or has no key."""
    providers = {provider.name: provider for provider in await ListedModels(lambda: settings).providers()}
    usable = ", ".join(provider.name for provider in providers.values() if provider.has_key)
    message = f"these have a key, or need none: {usable}" if usable else "none has a key: only scripted models run"
    findings = [ok("providers", message)]
    for agent, model in [(each, model) for each in agents for model in each.models]:
        name = model.partition(":")[0]
        provider = providers.get(name)
        if name == SCRIPTED_PROVIDER or (provider is not None and provider.has_key):
            continue
        if provider is None:
            message = f"agent `{agent.name}` uses `{model}`, and `{name}` is unknown"
            remedy = "use a provider of the settings, or one that `GET /models` lists"
        else:
            message = f"agent `{agent.name}` uses `{model}`, and `{provider.key_variable}` is not set"
            remedy = f"set `{provider.key_variable}` in the environment of the server"
        findings.append(warning("providers", message, remedy=remedy))
    return findings


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
