"""What agents do with their hands: the files, the commands and the custom tools of a workspace."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.ports.processes import Processes
from holdfast.ports.sandbox import Sandbox
from holdfast.sandbox.files.folders import WorkspaceFolders
from holdfast.sandbox.none import Unconfined
from holdfast.sandbox.probe import Probed
from holdfast.tools.built_ins import command_tools, file_tools
from holdfast.tools.commands.commands import NETWORK, Commands
from holdfast.tools.permissions.checking import KNOWN
from holdfast.tools.redaction import Redaction, secrets_of
from holdfast.tools.tool import Tool
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import Settings
from holdfast.workspace.tools import FolderTools, KnownTools

_FIXED: Final = KNOWN | {NETWORK}


class Hands(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a workspace, and what is taken out of what they say."""

    tools: Sequence[Tool]
    custom: Callable[[], Sequence[Tool]]
    redaction: Redaction


def known_names(workspace: Workspace, own: Sequence[Tool]) -> KnownTools:
    """Return the names that rules may be about, where `own` are the tools of this process."""
    return KnownTools(workspace, _taken(own))


def hands_of(workspace: Workspace, processes: Processes, settings: Settings, own: Sequence[Tool]) -> Hands:
    """Put together the tools of a workspace; one of this process takes the place of ours with the same name."""
    keys = [provider.api_key_env for provider in settings.providers.values() if provider.api_key_env is not None]
    redaction = Redaction(secrets_of(os.environ, named=keys))
    folders = WorkspaceFolders(workspace.path)
    commands = Commands(_sandbox(processes, settings), folders, workspace=workspace.path, redaction=redaction)
    names = {tool.spec.name for tool in own}
    usual = [tool for tool in (*file_tools(folders), *command_tools(commands)) if tool.spec.name not in names]
    return Hands(
        tools=[*usual, *own],
        custom=FolderTools(workspace, commands, taken=_taken(own)).get,
        redaction=redaction,
    )


def _sandbox(processes: Processes, settings: Settings) -> Sandbox:
    if settings.sandbox == "off":
        return Unconfined(processes)
    return Probed(processes, readable=tuple(map(Path, settings.sandbox_reads)))


def _taken(own: Sequence[Tool]) -> frozenset[str]:
    return _FIXED.union(tool.spec.name for tool in own)
