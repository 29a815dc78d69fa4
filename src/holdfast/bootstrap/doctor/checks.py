"""Checks of `holdfast doctor`: versions, definitions, providers, sandbox and traces, then the storage.

The checks run in the order in which the parts depend on each other. They change nothing, and a running server is not
disturbed. API keys are never printed.
"""

import asyncio
import platform
import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
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
from holdfast.domain.model_provider import KnownProvider, Providers
from holdfast.models.registry import ListedModels
from holdfast.sandbox.detection import RefusingSandbox, detect_sandbox
from holdfast.sandbox.processes import open_processes
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.settings import FolderSettings, Settings, TelemetrySettings
from holdfast.workspace.tools import read_tool, tool_folders


async def diagnose(folder: Path, *, database: str | None = None) -> list[Finding]:
    """Look at all that a server on this workspace needs. Nothing is changed, and one that runs is not disturbed."""
    found = diagnose_versions()
    try:
        workspace = Workspace(folder)
    except NotFound as missing:
        return [*found, failure("workspace", missing.message, remedy=f"run `holdfast init {shlex.quote(str(folder))}`")]
    except Unavailable as wrong:
        return [*found, failure("workspace", wrong.message, remedy="let the user of the server read the folder")]
    definitions = WorkspaceDefinitions(workspace)
    where = database or workspace.database
    return [
        *found,
        *definitions.diagnose(),
        *await diagnose_providers(definitions.settings.providers, definitions.agents),
        await diagnose_sandbox(definitions.settings, needed=definitions.has_commands),
        *diagnose_tracing(definitions.settings.telemetry),
        *await diagnose_database(where, own=database is None),
        *await asyncio.to_thread(_diagnose_disks, workspace, where),
    ]


def _diagnose_disks(workspace: Workspace, where: str | Path) -> list[Finding]:
    """Look at the disk of the log; where that is on a server, only for room for what else there is."""
    if is_postgres(where):
        return [diagnose_free_space(workspace.path)]
    folder = Path(where).absolute().parent
    return diagnose_disk(folder if folder.is_dir() else workspace.path)


MIN_SQLITE_VERSION: Final = (3, 37, 0)
"""It has `RETURNING` and strict typing of what is returned."""

_REPORTED_PACKAGES: Final = ("litestar", "uvicorn", "pydantic-ai-slim", "asyncpg", "opentelemetry-sdk")


def diagnose_versions() -> list[Finding]:
    """Return the versions of what matters."""
    others = "".join(f", {name} {found}" for name in _REPORTED_PACKAGES if (found := _package_version(name)))
    told = f"holdfast {holdfast.__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        oldest = ".".join(map(str, MIN_SQLITE_VERSION))
        remedy = f"use a Python that comes with SQLite {oldest} or later, or PostgreSQL"
        return [failure("versions", f"{told}: this SQLite is too old", remedy=remedy)]
    return [ok("versions", f"{told}{others}")]


def _package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class WorkspaceDefinitions:
    """What a workspace defines, as far as it can be read."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        known = known_tool_names(workspace, ())
        self._folder_settings = FolderSettings(workspace, known=known)
        self._grants = FolderGrants(workspace, known=known)
        self._broken_settings = self._folder_settings.broken()
        self._agents = FolderAgents(workspace, settings=lambda: self.settings, known=known)

    @property
    def settings(self) -> Settings:
        """The settings; where they are in error, those of an empty file."""
        return Settings() if self._broken_settings is not None else self._folder_settings.get()

    @property
    def agents(self) -> list[Agent]:
        """The agents that load."""
        return self._agents.all()

    @property
    def has_commands(self) -> bool:
        """Whether some agent may run commands, or a tool is one."""
        return bool(tool_folders(self._workspace)) or any("bash" in agent.tools for agent in self.agents)

    def diagnose(self) -> Iterator[Finding]:
        """Yield what is found."""
        yield _file_finding("settings", self._broken_settings)
        yield from self._look_at_agents()
        yield from self._look_at_tools()
        yield _file_finding("permissions", self._grants.broken())

    def _look_at_agents(self) -> Iterator[Finding]:
        for broken in self._agents.broken():
            yield failure("agents", broken.message, remedy=f"correct `{broken.file}`")
        names = ", ".join(agent.name for agent in self.agents)
        if names:
            yield ok("agents", f"these load: {names}")
        else:
            yield failure("agents", "there is no agent that loads", remedy="make one: see `agents/` of `holdfast init`")

    def _look_at_tools(self) -> Iterator[Finding]:
        names = tool_folders(self._workspace)
        for name in names:
            try:
                read_tool(self._workspace, name, reserved=reserved_tool_names(()))
            except HoldfastError as wrong:
                yield failure("tools", wrong.message, remedy=f"correct `tools/{name}/tool.json`")
                names = [each for each in names if each != name]
        if names:
            yield ok("tools", f"these custom tools load: {', '.join(names)}")


def _file_finding(about: str, wrong: HoldfastError | None) -> Finding:
    if wrong is None:
        return ok(about, f"`{about}.json` can be read, or is not there")
    return failure(about, wrong.message, remedy=f"correct `{about}.json`")


async def diagnose_providers(settings: Providers, agents: Sequence[Agent]) -> list[Finding]:
    """Return which providers can be used, and which agents have none."""
    providers = {provider.name: provider for provider in await ListedModels(lambda: settings).providers()}
    ready = [provider.name for provider in providers.values() if provider.has_key]
    told = f"these have a key, or need none: {', '.join(ready)}" if ready else "none has a key: only scripts run"
    return [ok("providers", told), *_agents_without_key(agents, providers)]


def _agents_without_key(agents: Sequence[Agent], providers: Mapping[str, KnownProvider]) -> Iterator[Finding]:
    for agent in agents:
        for model in agent.models:
            name = model.partition(":")[0]
            provider = providers.get(name)
            if name == SCRIPTED_PROVIDER or (provider is not None and provider.has_key):
                continue
            if provider is None:
                remedy = "name a provider of the settings, or one that `GET /models` lists"
                yield warning(
                    "providers", f"agent `{agent.name}` uses `{model}`, and `{name}` is not known", remedy=remedy
                )
            else:
                message = f"agent `{agent.name}` uses `{model}`, and `{provider.key_variable}` is not set"
                yield warning("providers", message, remedy=f"set `{provider.key_variable}` where the server starts")


async def diagnose_sandbox(settings: Settings, *, needed: bool) -> Finding:
    """Return whether commands can be run; where nobody needs that, a sandbox that is missing is no failure."""
    if settings.sandbox == "off":
        message = 'it is turned off (`"sandbox": "off"`): commands have all rights of the server'
        return warning("sandbox", message, remedy="take that out of `settings.json`, unless you meant it")
    async with open_processes() as processes:
        sandbox = await detect_sandbox(processes, readable=tuple(map(Path, settings.sandbox_reads)))
    if not isinstance(sandbox, RefusingSandbox):
        return ok("sandbox", "bubblewrap keeps commands within bounds")
    message, _, remedy = sandbox.reason.partition(": ")
    return (failure if needed else warning)("sandbox", message, remedy=remedy)


def diagnose_tracing(settings: TelemetrySettings) -> list[Finding]:
    """Return whether spans can be made and sent; nothing where nobody wants them."""
    if not settings.traces:
        return []
    try:
        _check_exporter()
    except Invalid as wrong:
        remedy = "do so, or take `traces` out of `settings.json`: the server does not start as it is"
        return [failure("traces", wrong.message, remedy=remedy)]
    said = "with what people, models and tools say" if settings.capture_content else "without what was said"
    return [ok("traces", f"spans are sent, {said}")]


def _check_exporter() -> None:
    check_opentelemetry_installed()
    from holdfast.telemetry.tracing import span_processor

    span_processor().shutdown()
