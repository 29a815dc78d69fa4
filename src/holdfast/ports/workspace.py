"""Ports of a workspace: its agents and its settings file, both of which people edit by hand too."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json


class BrokenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with invalid files, and the error. Its last valid definition, if any, stays in use."""

    name: str
    file: str
    message: str


class Agents(Protocol):
    """The current agent definitions. A changed file takes effect for calls made at least 200 ms later."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; a broken agent raises `Invalid` unless it was valid before."""

    def all(self) -> list[Agent]:
        """Return the usable agents, by name."""

    def broken(self) -> list[BrokenAgent]:
        """Return the agents with invalid files, by name."""


class SettingsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The settings at one moment."""

    tag: str
    """Changes whenever the file changes."""
    in_file: dict[str, Json]
    """The content of the file."""
    values: dict[str, Json]
    """The effective settings: the file over the defaults; while the file is invalid, its last valid content."""
    error: str | None
    """Why the file is invalid, if it is."""
    pending_restart: Sequence[str]
    """Settings that changed since this process started and take effect only after a restart."""


class SettingsFile(Protocol):
    """The settings file of a workspace."""

    def read(self) -> SettingsSnapshot:
        """Return the current settings."""

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsSnapshot:
        """Apply a patch, all of it or nothing, and return the changed settings.

        Objects are merged; any other value replaces the old one. Null removes a key that cannot be null. A patch that
        makes the settings invalid is refused (`Invalid`, which names the key). A patch is also refused if the file is
        invalid now (`Conflict`) or has changed since `tag` (`SettingsChanged`).
        """
