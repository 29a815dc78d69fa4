"""The settings of a workspace: shown with secrets masked, and changed key by key under a lock.

A client that sends a masked value back unchanged leaves the secret as it is. `SettingsChanged` (a `Conflict`) means
that somebody else changed the settings: read them again.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, Invalid
from holdfast.ports.workspace import SettingsFile, SettingsSnapshot
from holdfast.tools.redaction import REDACTED, Redaction


class SettingsChanged(Conflict):
    """The settings are not those any more that the change was meant for."""

    code = "SETTINGS_CHANGED"


_SECRET_OBJECTS: Final = frozenset({"env", "headers", "parameters"})
"""Objects whose values are for servers and nobody else."""
_VARIABLE_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/?#@\s]+(?=@)|(?<=\?)[^#\s]+")
"""Of an address: who logs in, and what is asked."""


class SecretMask:
    """Hides the secrets of settings."""

    def __init__(self, redaction: Redaction) -> None:
        """Hide what `redaction` finds, values of variables and headers, and logins and queries in addresses."""
        self._redaction = redaction

    def mask(self, value: Json, *, secret: bool = False) -> Json:
        """Return settings as they are shown."""
        match value:
            case dict():
                return {name: self.mask(part, secret=secret or name in _SECRET_OBJECTS) for name, part in value.items()}
            case list():
                return [self.mask(part, secret=secret) for part in value]
            case str() if secret:
                return value if _VARIABLE_REFERENCE.fullmatch(value) else REDACTED
            case str():
                return self._redaction.text(_URL_CREDENTIALS.sub(REDACTED, value) if "://" in value else value)
            case _:
                return value

    def unmask(self, shown: Json, stored: Json, *, secret: bool = False) -> Json:
        """Return a patch with what is `written` in place of what was sent back as it is shown."""
        if shown == self.mask(stored, secret=secret):
            return stored
        if isinstance(shown, dict) and isinstance(stored, dict):
            return {
                name: self.unmask(part, stored[name], secret=secret or name in _SECRET_OBJECTS)
                if name in stored
                else part
                for name, part in shown.items()
            }
        return shown


ANY_TAG: Final = "*"


class SettingsView(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are shown."""

    settings: dict[str, Json]
    """All of them, where the file says nothing as they are by default; without what is secret."""
    keys: dict[str, bool]
    """Of each provider that wants a key: whether the variable that holds it is set."""
    restart: Sequence[str]
    """Settings that have changed, and take effect when the server is started again."""
    error: str | None
    """What is wrong with the file; until that is mended, what it last said holds."""


class SettingsControl:
    """What can be done with the settings of a workspace."""

    def __init__(
        self, file: SettingsFile, *, redaction: Redaction, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._file = file
        self._hiding = SecretMask(redaction)
        self._environment = environment
        self._one = asyncio.Lock()

    def read(self) -> tuple[SettingsView, str]:
        """Return the settings, and the tag of what they are now."""
        return self._shown(self._file.read())

    async def change(self, patch: dict[str, Json], *, tags: Sequence[str]) -> tuple[SettingsView, str]:
        """Change settings if they are still those of one of `tags`, if any are given."""
        async with self._one:
            now = self._file.read()
            if tags and now.tag not in tags and ANY_TAG not in tags:
                raise SettingsChanged("the settings have changed since you read them: read them again", tag=now.tag)
            restored = self._hiding.unmask(patch, now.in_file)
            _check_unmasked(restored)
            return self._shown(await self._file.change(restored, tag=now.tag))

    def _shown(self, now: SettingsSnapshot) -> tuple[SettingsView, str]:
        view = SettingsView(
            settings=self._hiding.mask(now.values),
            keys=dict(self._keys(now.values.get("providers", {}))),
            restart=now.pending_restart,
            error=now.error,
        )
        return view, now.tag

    def _keys(self, providers: dict[str, dict[str, Json]]) -> list[tuple[str, bool]]:
        named = [(name, provider.get("api_key_env")) for name, provider in providers.items()]
        return [(name, bool(self._environment.get(variable))) for name, variable in named if variable is not None]


def _check_unmasked(value: Json, place: str = "") -> None:
    """Raise if something hidden would be written: it was changed, or stands where it was not shown."""
    match value:
        case dict():
            for name, part in value.items():
                _check_unmasked(part, f"{place}.{name}".removeprefix("."))
        case list():
            for index, part in enumerate(value):
                _check_unmasked(part, f"{place}[{index}]")
        case str() if REDACTED in value:
            raise Invalid(f"{place}: `{REDACTED}` is what is shown in place of a secret: leave it out", field=place)
        case _:
            pass
