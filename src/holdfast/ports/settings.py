"""The settings of a workspace, in a file that people edit too."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.content import Json


class SettingsNow(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are."""

    tag: str
    """Another one whenever the file changes."""
    written: dict[str, Json]
    """What the file says."""
    values: dict[str, Json]
    """What holds: where the file says nothing that is the default, and what it last said while it is in error."""
    error: str | None
    """What is wrong with the file."""
    restart: Sequence[str]
    """Settings that this process has read when it began, and that have changed since."""


class SettingsFile(Protocol):
    """One file."""

    def read(self) -> SettingsNow:
        """Return the settings as they are now."""

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsNow:
        """Change what the patch names, all of it or nothing, and return the settings as they are then.

        Objects are merged, and anything else is put in place of what was there. Null takes out what cannot be null. A
        patch after which the settings cannot be used is refused (`Invalid`, which names the key), and so is one to a
        file that is in error (`Conflict`) or is not that of `tag` any more (`SettingsChanged`).
        """
