"""Programmatic edits of `settings.json`: a patch changes only the keys it names.

Objects are merged, every other value replaces the old one. Null is written where the type of the key allows null,
such as "never"; elsewhere it removes the key. An object with another tag is not merged.
"""

import asyncio
import json
import re
from collections.abc import Collection
from hashlib import sha256
from types import NoneType
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import structs

from holdfast.control.settings import SettingsChanged
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid, TooLarge, Unavailable
from holdfast.domain.validation import (
    explain_validation_error,
    format_message,
    format_path,
    is_struct,
    type_alternatives,
)
from holdfast.ports.workspace import SettingsSnapshot
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings, Settings, project_folder_problems
from holdfast.workspace.text_files import MAX_FILE_BYTES, read_optional_text, replace_file

RESTART_KEYS: Final = ("providers", "workers", "sandbox", "sandbox_reads", "function_tools", "git", "web", "telemetry")
"""Settings that a process reads only when it starts."""

_INDENT_PATTERN: Final = re.compile(r'^\{\s*?\n([ \t]+)"')


class WorkspaceSettingsFile:
    """`SettingsFile` of a workspace."""

    def __init__(
        self, workspace: Workspace, settings: FolderSettings, *, tool_names: Collection[str] = KNOWN_TOOLS
    ) -> None:
        """Edit the file that `settings` reads; permission rules may name only `tool_names`."""
        self._workspace = workspace
        self._path = workspace.settings
        self._settings = settings
        self._tool_names = tool_names
        self._startup_settings = settings.get()

    def read(self) -> SettingsSnapshot:
        """Return the current settings."""
        self._settings.refresh()
        settings, error, started = self._settings.get(), self._settings.broken(), self._startup_settings
        text = "" if error is not None else self._text()
        return SettingsSnapshot(
            tag=sha256(text.encode() if error is None else error.message.encode()).hexdigest()[:32],
            in_file=json.loads(text) if text else {},
            values=msgspec.to_builtins(settings),
            error=None if error is None else error.message,
            pending_restart=[key for key in RESTART_KEYS if getattr(settings, key) != getattr(started, key)],
        )

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsSnapshot:
        """Apply `patch` if the file still has the given `tag`."""
        current = self.read()
        if current.error is not None:
            raise Conflict(f"the settings cannot be changed while the file is invalid: {current.error}")
        if current.tag != tag:
            raise SettingsChanged("the settings have changed in the meantime: read them again", tag=current.tag)
        new = merge_patch(Settings, current.in_file, patch)
        self._check(new)
        if new != current.in_file:
            await self._write(new)
        return self.read()

    def _text(self) -> str:
        return read_optional_text(self._path, root=self._workspace.path) or ""

    def _check(self, values: Json) -> None:
        try:
            settings = msgspec.convert(values, Settings)
        except (msgspec.ValidationError, Invalid) as exc:
            path, reason = explain_validation_error(exc, values, Settings)
            raise Invalid(format_message(path, reason), field=format_path(path)) from exc
        for kind, index, reason in rule_problems(settings.permissions, known=self._tool_names):
            field = f"permissions.{kind}[{index}]"
            raise Invalid(f"{field}: {reason}", field=field)
        for problem in project_folder_problems(settings, self._workspace):
            raise Invalid(format_message(*problem), field=format_path(problem.path))

    async def _write(self, values: Json) -> None:
        found = _INDENT_PATTERN.match(self._text())
        indent = found[1] if found is not None else "  "
        text = (json.dumps(values, indent=indent, ensure_ascii=False) + "\n").encode()
        if len(text) > MAX_FILE_BYTES:
            raise TooLarge(f"the settings may have at most {MAX_FILE_BYTES} bytes", limit=MAX_FILE_BYTES)
        try:
            await asyncio.to_thread(replace_file, self._path, text)
        except OSError as exc:
            raise Unavailable(f"cannot write `{self._path.name}`: {exc.strerror or exc}") from exc


def merge_patch(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> dict[str, Json]:
    """Return `old`, the content of a `kind`, merged with `patch`."""
    new = dict(old)
    for key, value in patch.items():
        inner, old_value = _type_of_key(kind, key), old.get(key)
        if value is None and NoneType not in type_alternatives(inner):
            new.pop(key, None)
        elif (
            isinstance(value, dict)
            and isinstance(old_value, dict | None)
            and any(get_origin(one) is dict or is_struct(one) for one in type_alternatives(inner))
        ):
            base = old_value if old_value and _has_same_tag(inner, old_value, value) else {}
            new[key] = merge_patch(inner, base, value)
        else:
            new[key] = value
    return new


def _type_of_key(kind: Any, key: str) -> Any:
    """Return the type of the value under a key; `Any` for an unknown key."""
    for one in type_alternatives(kind):
        if get_origin(one) is dict:
            return get_args(one)[1]
        for field in structs.fields(one) if is_struct(one) else ():
            if field.encode_name == key:
                return field.type
    return Any


def _has_same_tag(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> bool:
    """Return whether a patch keeps the tag of an object: an object with another tag is not merged."""
    tags = {one.__struct_config__.tag_field for one in type_alternatives(kind) if is_struct(one)}
    return all(patch.get(tag, old.get(tag)) == old.get(tag) for tag in tags if tag is not None)
