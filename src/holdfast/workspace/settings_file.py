"""`settings.json` in the hands of a program: changed key by key, with the rest left as people wrote it."""

import asyncio
import json
import re
from collections.abc import Collection
from hashlib import sha256
from typing import Final

import msgspec

from holdfast.control.settings.errors import SettingsChanged
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, TooLarge, Unavailable
from holdfast.domain.validation import explain_validation_error, format_message
from holdfast.ports.workspace import SettingsSnapshot
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.folder import Workspace
from holdfast.workspace.merging import merged
from holdfast.workspace.settings import FolderSettings, Settings
from holdfast.workspace.text_files import MAX_FILE_BYTES, file_name, read_optional_text, replace_file

AT_START: Final = ("providers", "workers", "sandbox", "sandbox_reads", "web", "telemetry")
"""What a process reads when it begins, and never again."""

_INDENT: Final = re.compile(r'^\{\s*?\n([ \t]+)"')


class WorkspaceSettings:
    """`SettingsFile` of a workspace."""

    def __init__(self, workspace: Workspace, settings: FolderSettings, *, known: Collection[str] = KNOWN_TOOLS) -> None:
        """Change the file that `settings` are read from; `known` are the tools that rules may be about."""
        self._workspace = workspace
        self._path = workspace.settings
        self._settings = settings
        self._known = known
        self._at_start = settings.get()

    def read(self) -> SettingsSnapshot:
        """Return the settings as they are now."""
        self._settings.refresh()
        now, broken = self._settings.get(), self._settings.broken()
        text = "" if broken is not None else self._text()
        return SettingsSnapshot(
            tag=sha256(text.encode() if broken is None else broken.message.encode()).hexdigest()[:32],
            written=json.loads(text) if text else {},
            values=msgspec.to_builtins(now),
            error=None if broken is None else broken.message,
            restart=[key for key in AT_START if getattr(now, key) != getattr(self._at_start, key)],
        )

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsSnapshot:
        """Change what the patch names."""
        now = self.read()
        if now.error is not None:
            raise Conflict(f"nothing is changed while the file is in error: {now.error}")
        if now.tag != tag:
            raise SettingsChanged("the settings have changed meanwhile: read them again", tag=now.tag)
        wanted = merged(Settings, now.written, patch)
        self._check(wanted)
        if wanted != now.written:
            await self._write(wanted)
        return self.read()

    def _text(self) -> str:
        return read_optional_text(self._path, root=self._workspace.path) or ""

    def _check(self, wanted: Json) -> None:
        try:
            settings = msgspec.convert(wanted, Settings)
        except (msgspec.ValidationError, Invalid) as exc:
            steps, reason = explain_validation_error(exc, wanted, Settings)
            raise Invalid(format_message(steps, reason), field=format_message(steps, "").removesuffix(": ")) from exc
        for kind, index, reason in rule_problems(settings.permissions, known=self._known):
            place = f"permissions.{kind}[{index}]"
            raise Invalid(f"{place}: {reason}", field=place)

    async def _write(self, wanted: Json) -> None:
        found = _INDENT.match(self._text())
        indent = found[1] if found is not None else "  "
        text = (json.dumps(wanted, indent=indent, ensure_ascii=False) + "\n").encode()
        if len(text) > MAX_FILE_BYTES:
            raise TooLarge(f"the settings may have at most {MAX_FILE_BYTES} bytes", limit=MAX_FILE_BYTES)
        try:
            await asyncio.to_thread(replace_file, self._path, text)
        except OSError as exc:
            name = file_name(self._path, root=self._workspace.path)
            raise Unavailable(f"cannot write `{name}`: {exc.strerror or exc}") from exc
