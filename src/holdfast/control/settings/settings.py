"""The settings: read by everybody who may, changed by one at a time."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.control.settings.errors import SettingsChanged
from holdfast.control.settings.hiding import Hiding
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.ports.workspace import SettingsFile, SettingsSnapshot
from holdfast.tools.redaction import REDACTED, Redaction

ANY: Final = "*"


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
        self._hiding = Hiding(redaction)
        self._environment = environment
        self._one = asyncio.Lock()

    def read(self) -> tuple[SettingsView, str]:
        """Return the settings, and the tag of what they are now."""
        return self._shown(self._file.read())

    async def change(self, patch: dict[str, Json], *, tags: Sequence[str]) -> tuple[SettingsView, str]:
        """Change settings if they are still those of one of `tags`, if any are given."""
        async with self._one:
            now = self._file.read()
            if tags and now.tag not in tags and ANY not in tags:
                raise SettingsChanged("the settings have changed since you read them: read them again", tag=now.tag)
            restored = self._hiding.restored(patch, now.written)
            _check_shown(restored)
            return self._shown(await self._file.change(restored, tag=now.tag))

    def _shown(self, now: SettingsSnapshot) -> tuple[SettingsView, str]:
        view = SettingsView(
            settings=self._hiding.hidden(now.values),
            keys=dict(self._keys(now.values.get("providers", {}))),
            restart=now.restart,
            error=now.error,
        )
        return view, now.tag

    def _keys(self, providers: dict[str, dict[str, Json]]) -> list[tuple[str, bool]]:
        named = [(name, provider.get("api_key_env")) for name, provider in providers.items()]
        return [(name, bool(self._environment.get(variable))) for name, variable in named if variable is not None]


def _check_shown(value: Json, place: str = "") -> None:
    """Raise if something hidden would be written: it was changed, or stands where it was not shown."""
    match value:
        case dict():
            for name, part in value.items():
                _check_shown(part, f"{place}.{name}".removeprefix("."))
        case list():
            for index, part in enumerate(value):
                _check_shown(part, f"{place}[{index}]")
        case str() if REDACTED in value:
            raise Invalid(f"{place}: `{REDACTED}` is what is shown in place of a secret: leave it out", field=place)
        case _:
            pass
