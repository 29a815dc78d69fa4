"""Changes of the files of a workspace's agents that come over the API, where `settings.json` allows them.

Each file is replaced atomically, after all of them together have been read as they would be.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from msgspec import UNSET

from holdfast.domain.agent_version import AgentDefinition, AgentPatch
from holdfast.domain.errors import Conflict, Unavailable, VersionChanged
from holdfast.ports.workspace import AgentVersions
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.tools.thread_pool import run_in_thread
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.agents import AGENT_FILE_NAMES, FolderAgents, ModelCheck, read_source
from holdfast.workspace.bundles import BundleCollector, BundleFolder
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import decode_json
from holdfast.workspace.settings import Settings
from holdfast.workspace.settings_file import merge_patch
from holdfast.workspace.space_agents import json_text, script_texts
from holdfast.workspace.text_files import read_text, replace_file

_JSON: Final = AGENT_FILE_NAMES[0]


class WorkspaceAgentFiles:
    """`AgentFiles` of a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        files: FolderAgents,
        versions: AgentVersions,
        *,
        settings: Callable[[], Settings] = Settings,
        tool_names: Collection[str] = KNOWN_TOOLS,
        check_models: ModelCheck = lambda _: None,
    ) -> None:
        self._workspace = workspace
        self._files = files
        self._versions = versions
        self._settings = settings
        self._tool_names = tool_names
        self._check_models = check_models
        self._writing = asyncio.Lock()

    def has(self, name: str) -> bool:
        """Return whether the workspace has an agent of this name."""
        self._files.refresh()
        return self._files.has(name)

    async def write(
        self,
        name: str,
        change: AgentDefinition | AgentPatch,
        *,
        expected: Sequence[str] = (),
        by: str | None = None,
    ) -> None:
        """Change the files of an agent, and publish what they say."""
        async with self._writing:
            folder = await self._check_writable(name, expected)
            texts = await run_in_thread(lambda _: self._texts(folder, change))
            read_source(
                self._workspace, name, tool_names=self._tool_names, check_models=self._check_models, texts=texts
            )
            _write(folder, texts)  # in one turn of the event loop: no poll of this process sees the half of it
            self._files.refresh()
            source = self._files.source(name)
            collector = BundleCollector(self._workspace, BundleFolder(self._workspace.bundles))
            version = await run_in_thread(lambda _: collector.of(source))
            await self._versions.publish(None, version, by=by)

    async def remove(self, name: str, *, expected: Sequence[str] = ()) -> None:
        """Put the folder of an agent aside."""
        async with self._writing:
            folder = await self._check_writable(name, expected)
            try:
                folder.rename(folder.with_name(f".{name}.{uuid4().hex[:8]}"))
            except OSError as exc:
                raise Unavailable(f"cannot move `agents/{name}`: {exc.strerror or exc}") from exc
            self._files.refresh()

    async def _check_writable(self, name: str, expected: Sequence[str]) -> Path:
        """Return the folder of an agent, if its files may be written now."""
        folder = self._workspace.agents / name
        if not self._settings().write_agents:
            raise Conflict(
                f"agent `{name}` belongs to the workspace: edit its files in `agents/{name}`, or let the API write "
                "them with `write_agents` in settings.json",
                id=name,
            )
        if not folder.is_dir():
            raise Conflict(f"agent `{name}` is defined by the program that runs it: it has no files", id=name)
        if expected and (await self._versions.head(None, name)).active not in expected:
            raise VersionChanged(f"agent `{name}` has changed since it was read: read it again", id=name)
        return folder

    def _texts(self, folder: Path, change: AgentDefinition | AgentPatch) -> dict[str, str | None]:
        """Return the texts of the files that change; null for one that goes."""
        settings = change.settings
        if isinstance(change, AgentPatch) and settings is not UNSET:
            file = f"agents/{folder.name}/{_JSON}"
            present = decode_json(read_text(folder / _JSON, root=self._workspace.path), dict[str, Any], file=file)
            settings = merge_patch(AgentFile, present, settings)
        values = {
            _JSON: UNSET if settings is UNSET else json_text(settings, field="settings"),
            AGENT_FILE_NAMES[1]: change.instructions,
            AGENT_FILE_NAMES[2]: change.soul,
        }
        texts = {name: value for name, value in values.items() if value is not UNSET}
        return texts | script_texts({} if change.scripts is UNSET else change.scripts)


def _write(folder: Path, texts: Mapping[str, str | None]) -> None:
    for name, text in texts.items():
        try:
            if text is not None:
                replace_file(folder / name, text.encode())
            elif os.path.lexists(folder / name):
                (folder / name).unlink()
        except OSError as exc:
            raise Unavailable(f"cannot write `agents/{folder.name}/{name}`: {exc.strerror or exc}") from exc
