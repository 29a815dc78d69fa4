"""`permissions.json`: calls that people allowed permanently by answering "always allow".

People may edit the file too.
"""

import time
from collections.abc import Collection, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.agent import AgentName, Permissions, RuleText
from holdfast.domain.errors import Conflict, Invalid, Unavailable
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import check_rules, decode_json
from holdfast.workspace.reload import Monotonic, WatchedFiles
from holdfast.workspace.text_files import file_name, read_optional_text, replace_file


class GrantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `permissions.json` may say."""

    schema_: Annotated[str | None, Meta(description="Where an editor finds this schema; it means nothing else.")] = (
        msgspec.field(name="$schema", default=None)
    )
    allow: Annotated[
        dict[AgentName, list[RuleText]],
        Meta(description="Rules that allow calls without asking, by the agent they are for."),
    ] = {}


class FolderGrants:
    """What is granted now; a file in error grants what it granted when it was last good."""

    def __init__(
        self, workspace: Workspace, *, known: Collection[str] = KNOWN_TOOLS, monotonic: Monotonic = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._path = workspace.permissions
        self._known = known
        self._monotonic = monotonic
        self._files = WatchedFiles(self._read, files=[self._path])

    def poll(self) -> None:
        """Read the file if it changed."""
        self._files.poll(at=self._monotonic())

    def rules_for(self, agent: str) -> list[str]:
        """Return the rules that an agent was granted when somebody last looked."""
        return [] if self._files.value is None else self._files.value.allow.get(agent, [])

    def broken(self) -> Invalid | None:
        """Return what is wrong with the file now."""
        self.poll()
        return self._files.error

    def add(self, agent: str, rules: Sequence[str]) -> None:
        """Grant an agent more; those that it has already stay once."""
        self.poll()
        if self._files.error is not None:
            raise Conflict(f"nothing is granted while the file is in error: {self._files.error.message}")
        now = self._files.value or GrantsFile()
        has = now.allow.get(agent, [])
        more = [rule for rule in dict.fromkeys(rules) if rule not in has]
        if more:
            self._write(replace(now, allow={**now.allow, agent: [*has, *more]}))
            self.poll()

    def _read(self) -> GrantsFile:
        root = self._workspace.path
        text, file = read_optional_text(self._path, root=root), file_name(self._path, root=root)
        if text is None:
            return GrantsFile()
        found = decode_json(text, GrantsFile, file=file)
        for agent, rules in found.allow.items():
            check_rules(Permissions(allow=rules), text, file=file, at={"allow": ("allow", agent)}, known=self._known)
        return found

    def _write(self, grants: GrantsFile) -> None:
        """Write the file, all of it or not at all."""
        text = msgspec.json.format(msgspec.json.encode(grants), indent=2) + b"\n"
        try:
            replace_file(self._path, text)
        except OSError as exc:
            raise Unavailable(f"cannot write `{self._path.name}`: {exc.strerror or exc}") from exc
