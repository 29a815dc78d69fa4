"""`permissions.json`: rules of the operator that allow calls in every space, in spite of `ask` rules.

Holdfast only reads it. Earlier versions wrote grants of approvals to it, which stay in force.
"""

import time
from collections.abc import Collection
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.domain.agent import AgentName, Permissions, RuleText
from holdfast.domain.errors import Invalid
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import SchemaUrl, check_rules, decode_json
from holdfast.workspace.reload import Monotonic, WatchedFiles
from holdfast.workspace.text_files import file_name, read_optional_text


class GrantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The content of `permissions.json`."""

    schema_: SchemaUrl = msgspec.field(name="$schema", default=None)
    allow: Annotated[
        dict[AgentName, list[RuleText]],
        Meta(description="Rules that allow calls without approval, by agent."),
    ] = {}


class FolderGrants:
    """The rules; while the file is invalid, those of its last valid version."""

    def __init__(
        self, workspace: Workspace, *, tool_names: Collection[str] = KNOWN_TOOLS, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._path = workspace.permissions
        self._tool_names = tool_names
        self._monotonic = monotonic
        self._files = WatchedFiles(self._read, files=[self._path])

    def poll(self) -> None:
        """Read the file if it changed."""
        self._files.poll(at=self._monotonic())

    def rules_for(self, agent: str) -> list[str]:
        """Return the rules of an agent as of the last poll."""
        return [] if self._files.value is None else self._files.value.allow.get(agent, [])

    def broken(self) -> Invalid | None:
        """Return the error of the file, if it is invalid now."""
        self.poll()
        return self._files.error

    def _read(self) -> GrantsFile:
        root = self._workspace.path
        text, file = read_optional_text(self._path, root=root), file_name(self._path, root=root)
        if text is None:
            return GrantsFile()
        grants = decode_json(text, GrantsFile, file=file)
        for agent, rules in grants.allow.items():
            paths = {"allow": ("allow", agent)}
            check_rules(Permissions(allow=rules), text, file=file, paths=paths, tool_names=self._tool_names)
        return grants
