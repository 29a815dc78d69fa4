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
from holdfast.domain.validation import explain_validation_error, format_message, is_struct, type_alternatives
from holdfast.ports.workspace import SettingsSnapshot
from holdfast.tools.permissions.rule_checks import KNOWN_TOOLS, rule_problems
from holdfast.workspace.folder import Workspace
from holdfast.workspace.settings import FolderSettings, Settings
from holdfast.workspace.text_files import MAX_FILE_BYTES, file_name, read_optional_text, replace_file

RESTART_KEYS: Final = ("providers", "workers", "sandbox", "sandbox_reads", "web", "telemetry")
"""What a process reads when it begins, and never again."""

_INDENT_PATTERN: Final = re.compile(r'^\{\s*?\n([ \t]+)"')


class WorkspaceSettingsFile:
    """`SettingsFile` of a workspace."""

    def __init__(self, workspace: Workspace, settings: FolderSettings, *, known: Collection[str] = KNOWN_TOOLS) -> None:
        """Change the file that `settings` are read from; `known` are the tools that rules may be about."""
        self._workspace = workspace
        self._path = workspace.settings
        self._settings = settings
        self._known = known
        self._startup_settings = settings.get()

    def read(self) -> SettingsSnapshot:
        """Return the settings as they are now."""
        self._settings.refresh()
        now, broken = self._settings.get(), self._settings.broken()
        text = "" if broken is not None else self._text()
        return SettingsSnapshot(
            tag=sha256(text.encode() if broken is None else broken.message.encode()).hexdigest()[:32],
            in_file=json.loads(text) if text else {},
            values=msgspec.to_builtins(now),
            error=None if broken is None else broken.message,
            pending_restart=[key for key in RESTART_KEYS if getattr(now, key) != getattr(self._startup_settings, key)],
        )

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsSnapshot:
        """Change what the patch names."""
        now = self.read()
        if now.error is not None:
            raise Conflict(f"nothing is changed while the file is in error: {now.error}")
        if now.tag != tag:
            raise SettingsChanged("the settings have changed meanwhile: read them again", tag=now.tag)
        wanted = merge_patch(Settings, now.in_file, patch)
        self._check(wanted)
        if wanted != now.in_file:
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
        found = _INDENT_PATTERN.match(self._text())
        indent = found[1] if found is not None else "  "
        text = (json.dumps(wanted, indent=indent, ensure_ascii=False) + "\n").encode()
        if len(text) > MAX_FILE_BYTES:
            raise TooLarge(f"the settings may have at most {MAX_FILE_BYTES} bytes", limit=MAX_FILE_BYTES)
        try:
            await asyncio.to_thread(replace_file, self._path, text)
        except OSError as exc:
            name = file_name(self._path, root=self._workspace.path)
            raise Unavailable(f"cannot write `{name}`: {exc.strerror or exc}") from exc


def merge_patch(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> dict[str, Json]:
    """Return `old`, which can be read as a `kind`, with a patch of it."""
    new = dict(old)
    for key, value in patch.items():
        inner, there = _type_of_key(kind, key), old.get(key)
        if value is None and NoneType not in type_alternatives(inner):
            new.pop(key, None)
        elif isinstance(value, dict) and isinstance(there, dict | None) and _is_object(inner):
            new[key] = merge_patch(inner, there if there and _has_same_tag(inner, there, value) else {}, value)
        else:
            new[key] = value
    return new


def _type_of_key(kind: Any, key: str) -> Any:
    """Return the type of what stands under a key; of an unknown one, that of anything."""
    for one in type_alternatives(kind):
        if get_origin(one) is dict:
            return get_args(one)[1]
        for field in structs.fields(one) if is_struct(one) else ():
            if field.encode_name == key:
                return field.type
    return Any


def _is_object(kind: Any) -> bool:
    return any(get_origin(one) is dict or is_struct(one) for one in type_alternatives(kind))


def _has_same_tag(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> bool:
    """Say whether a patch is about the same kind of thing: what has another tag has nothing in common with it."""
    tags = {one.__struct_config__.tag_field for one in type_alternatives(kind) if is_struct(one)}
    return all(patch.get(tag, old.get(tag)) == old.get(tag) for tag in tags if tag is not None)
