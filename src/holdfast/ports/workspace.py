"""Ports of a workspace: its agents, and its settings file, which people edit too."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json


class BrokenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose files cannot be used, and why; one that could be used before is used as it was."""

    name: str
    file: str
    message: str


class Agents(Protocol):
    """Agents as they are defined now: a changed file is seen by calls from 200 ms later on."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; one that is broken raises `Invalid` unless it was good before."""

    def all(self) -> list[Agent]:
        """Return the agents that can be used, by name."""

    def broken(self) -> list[BrokenAgent]:
        """Return those whose files are in error now, by name."""

    def grant(self, name: str, rules: Sequence[str]) -> None:
        """Allow an agent what these rules say, from now on; those that it has already stay once.

        What cannot be written raises `Unavailable`, and a file that is in error now `Conflict`.
        """


class SettingsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The settings as they are."""

    tag: str
    """Another one whenever the file changes."""
    in_file: dict[str, Json]
    """What the file says."""
    values: dict[str, Json]
    """What holds: where the file says nothing that is the default, and what it last said while it is in error."""
    error: str | None
    """What is wrong with the file."""
    pending_restart: Sequence[str]
    """Settings that this process has read when it began, and that have changed since."""


class SettingsFile(Protocol):
    """One file."""

    def read(self) -> SettingsSnapshot:
        """Return the settings as they are now."""

    async def change(self, patch: dict[str, Json], *, tag: str) -> SettingsSnapshot:
        """Change what the patch names, all of it or nothing, and return the settings as they are then.

        Objects are merged, and anything else is put in place of what was there. Null takes out what cannot be null. A
        patch after which the settings cannot be used is refused (`Invalid`, which names the key), and so is one to a
        file that is in error (`Conflict`) or is not that of `tag` any more (`SettingsChanged`).
        """
