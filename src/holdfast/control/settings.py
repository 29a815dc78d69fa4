"""The settings of a workspace: shown with secrets masked, and changed key by key under a lock.

A client that sends a masked value back unchanged leaves the secret as it is. `SettingsChanged` (a `Conflict`) means
that another client changed the settings meanwhile.
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
    """The settings have changed since the client read them."""

    code = "SETTINGS_CHANGED"


_SECRET_OBJECTS: Final = frozenset({"env", "headers", "parameters"})
"""Objects whose values are all secret."""
_VARIABLE_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_URL_CREDENTIALS: Final = re.compile(r"(?<=://)[^/?#@\s]+(?=@)|(?<=\?)[^#\s]+")
"""The login and the query of a URL."""


class SecretMask:
    """Masks secrets in settings: known secret values, variables, headers, and the login and query of URLs."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction

    def mask(self, value: Json, *, secret: bool = False) -> Json:
        """Return `value` with its secrets masked."""
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
        """Return the patch `shown` with masked values that were sent back unchanged replaced by the `stored` ones."""
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
    """The settings with secrets masked."""

    settings: dict[str, Json]
    """All settings including defaults, with secrets masked."""
    keys: dict[str, bool]
    """By provider that needs an API key: whether its environment variable is set."""
    restart: Sequence[str]
    """Changed settings that take effect after a restart of the server."""
    error: str | None
    """The error in the settings file; until it is fixed, the last valid settings apply."""


class SettingsControl:
    """Commands and queries for the settings of a workspace."""

    def __init__(
        self, file: SettingsFile, *, redaction: Redaction, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._file = file
        self._mask = SecretMask(redaction)
        self._environment = environment
        self._lock = asyncio.Lock()

    def read(self) -> tuple[SettingsView, str]:
        """Return the settings and their current tag."""
        return self._view(self._file.read())

    async def change(self, patch: dict[str, Json], *, tags: Sequence[str]) -> tuple[SettingsView, str]:
        """Apply a patch; `SettingsChanged` if `tags` are given and the current tag is not among them."""
        async with self._lock:
            current = self._file.read()
            if tags and current.tag not in tags and ANY_TAG not in tags:
                raise SettingsChanged("the settings have changed since you read them: read them again", tag=current.tag)
            unmasked = self._mask.unmask(patch, current.in_file)
            _check_unmasked(unmasked)
            return self._view(await self._file.change(unmasked, tag=current.tag))

    def _view(self, snapshot: SettingsSnapshot) -> tuple[SettingsView, str]:
        providers: dict[str, dict[str, Json]] = snapshot.values.get("providers", {})
        variables = {name: provider.get("api_key_env") for name, provider in providers.items()}
        view = SettingsView(
            settings=self._mask.mask(snapshot.values),
            keys={name: bool(self._environment.get(each)) for name, each in variables.items() if each is not None},
            restart=snapshot.pending_restart,
            error=snapshot.error,
        )
        return view, snapshot.tag


def _check_unmasked(value: Json, path: str = "") -> None:
    """Raise if a mask would be written: the client changed a masked value, or put a mask elsewhere."""
    match value:
        case dict():
            for name, part in value.items():
                _check_unmasked(part, f"{path}.{name}".removeprefix("."))
        case list():
            for index, part in enumerate(value):
                _check_unmasked(part, f"{path}[{index}]")
        case str() if REDACTED in value:
            raise Invalid(f"{path}: `{REDACTED}` masks a secret and cannot be stored: leave it out", field=path)
        case _:
            pass
