"""Workspace tools: built-in file, command and web tools, custom tools and MCP servers."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.loop import CustomTools
from holdfast.control.remote_methods import RemoteMethods
from holdfast.domain.ids import SpaceId
from holdfast.domain.mcp_server import env_references
from holdfast.domain.tool import ToolSpec
from holdfast.domain.web_settings import WebSettings, private_hosts
from holdfast.mcp.launcher import ServerLauncher
from holdfast.mcp.servers import open_mcp_servers
from holdfast.mcp.tools import McpTools
from holdfast.ports.sandbox import Processes, Sandbox
from holdfast.ports.tools import WorkingFolders
from holdfast.ports.workspace import RunAgents
from holdfast.sandbox.detection import DetectedSandbox, UnconfinedSandbox
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.store.store import Store
from holdfast.tools.builtin.catalog import (
    BUILTIN_NAMES,
    BUILTIN_SPECS,
    OPTIONAL_BUILTINS,
    command_tools,
    file_tools,
    web_tools,
)
from holdfast.tools.commands.command_runner import NETWORK_RULE, CommandRunner
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.tools.redaction import Redaction, secret_values
from holdfast.tools.tool import Tool
from holdfast.tools.web.client import GuardedResolver, SystemResolver, WebClient
from holdfast.tools.web.fetch import MarkdownConverter
from holdfast.tools.web.search import HttpWebSearch, as_json_search
from holdfast.workspace.bundles import BundleFolder
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import FunctionTools
from holdfast.workspace.settings import GitIdentity, Settings
from holdfast.workspace.tools import FolderTools, KnownTools
from holdfast.workspace.versions import BundleTools

_RESERVED_NAMES: Final = KNOWN_TOOLS | {NETWORK_RULE}


class WorkspaceTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a workspace, the folders that they use, and the redaction of their results."""

    folders: WorkingFolders
    tools: Sequence[Tool]
    custom_tools: Callable[[], Sequence[Tool]]
    tools_of_agent: CustomTools
    """The custom tools of the version of an agent."""
    functions: FunctionTools
    redaction: Redaction
    web_addresses: GuardedResolver
    """Resolves the hosts that may be reached."""


def listed_tools(
    space: SpaceId, tools: WorkspaceTools, methods: RemoteMethods, mcp: McpTools
) -> Iterator[tuple[str, ToolSpec]]:
    """Yield the tools of a space with the name of their source."""
    own = {tool.spec.name: tool.spec for tool in tools.tools}
    for spec in BUILTIN_SPECS:
        if spec.name in own or spec.name not in OPTIONAL_BUILTINS:
            yield "builtin", spec
    yield from (("process", spec) for name, spec in own.items() if name not in BUILTIN_NAMES)
    yield from (("workspace", tool.spec) for tool in tools.custom_tools())
    yield from (("client", spec) for spec in methods.of_space(space))
    yield from ((f"mcp:{server}", spec) for server, spec in mcp.known(space))


def known_tool_names(workspace: Workspace, process_tools: Sequence[Tool]) -> KnownTools:
    """Return the tool names that permission rules may use."""
    return KnownTools(workspace, reserved_tool_names(process_tools))


def workspace_tools(
    workspace: Workspace,
    processes: Processes,
    settings: Settings,
    process_tools: Sequence[Tool],
) -> WorkspaceTools:
    """Return the tools of a workspace; a tool of this process replaces a built-in one with the same name."""
    redaction = Redaction(secret_values(os.environ, named=_secret_variables(settings)))
    folders = WorkspaceFolders(workspace.path)
    sandbox = make_sandbox(workspace, processes, settings)
    commands = CommandRunner(
        sandbox,
        folders,
        workspace=workspace.path,
        redaction=redaction,
        confined=settings.sandbox != "off",
        variables=git_variables(settings.git),
    )
    replaced = {tool.spec.name for tool in process_tools}
    builtin = (*file_tools(folders), *command_tools(commands), *_web_tools(settings.web, processes))
    reserved = reserved_tool_names(process_tools)
    in_process = settings.function_tools == "in_process"

    def read(folder: Workspace) -> tuple[FolderTools, FunctionTools]:
        functions = FunctionTools(folder, sandbox=sandbox, commands=commands, in_process=in_process, reserved=reserved)
        return FolderTools(folder, commands, reserved=reserved), functions

    custom, functions = read(workspace)

    def custom_tools() -> Sequence[Tool]:
        return (*custom.get(), *functions.get())

    return WorkspaceTools(
        folders=folders,
        tools=[*(tool for tool in builtin if tool.spec.name not in replaced), *process_tools],
        custom_tools=custom_tools,
        tools_of_agent=BundleTools(BundleFolder(workspace.bundles), live=custom_tools, read=read).of,
        functions=functions,
        redaction=redaction,
        web_addresses=web_addresses(settings.web),
    )


def git_variables(identity: GitIdentity | None) -> dict[str, str]:
    """Return the environment variables that make an identity the author of commits."""
    if identity is None:
        return {}
    roles, name, email = ("AUTHOR", "COMMITTER"), identity.name, identity.email
    return {f"GIT_{role}_{field}": value for role in roles for field, value in (("NAME", name), ("EMAIL", email))}


def _web_tools(settings: WebSettings, processes: Processes) -> list[Tool]:
    engine = None if settings.search is None else HttpWebSearch(as_json_search(settings.search), SystemResolver())
    return web_tools(WebClient(web_addresses(settings)), MarkdownConverter(processes), engine)


def web_addresses(settings: WebSettings) -> GuardedResolver:
    """Return the resolver of hosts that may be reached."""
    return GuardedResolver(SystemResolver(), private=private_hosts(settings.allow_private))


def _secret_variables(settings: Settings) -> list[str]:
    """Return the environment variables that hold secrets."""
    search = settings.web.search
    variables = [provider.api_key_env for provider in settings.providers.values()]
    variables.append(None if search is None else as_json_search(search).key_env)
    variables += [name for server in settings.mcp_servers.values() for name in env_references(server)]
    return [name for name in variables if name is not None]


def make_sandbox(workspace: Workspace, processes: Processes, settings: Settings) -> Sandbox:
    """Return the sandbox of commands."""
    if settings.sandbox == "off":
        return UnconfinedSandbox(processes)
    return DetectedSandbox(processes, readable=tuple(map(Path, settings.sandbox_reads)), workspace=workspace.path)


def reserved_tool_names(process_tools: Sequence[Tool]) -> frozenset[str]:
    """Return the names that no custom tool can have."""
    return _RESERVED_NAMES.union(tool.spec.name for tool in process_tools)


def make_server_launcher(workspace: Workspace, processes: Processes, settings: Settings) -> ServerLauncher:
    """Return the launcher of MCP servers."""
    return ServerLauncher(
        workspace=workspace.path,
        data_folder=workspace.data_folder,
        sandbox=make_sandbox(workspace, processes, settings),
        unconfined=UnconfinedSandbox(processes),
    )


@asynccontextmanager
async def open_mcp(
    workspace: Workspace, processes: Processes, settings: Callable[[], Settings], *, store: Store, agents: RunAgents
) -> AsyncIterator[McpTools]:
    """Yield the MCP tools; each server is connected on first use."""
    launcher = make_server_launcher(workspace, processes, settings())
    async with open_mcp_servers(launcher, runs=store.runs) as servers:
        yield McpTools(
            servers,
            agent_of_run=agents.of_run,
            declared=lambda: settings().mcp_servers,
            trust=store.tool_trust,
            journal=store.journal,
            files=store.files,
        )
