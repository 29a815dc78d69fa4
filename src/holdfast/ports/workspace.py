"""Ports of a workspace: its agents, their versions, and its settings file; people edit the files by hand too."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import (
    AgentBundle,
    AgentDefinition,
    AgentHead,
    AgentPatch,
    AgentVersion,
    LiveRules,
    NewAgentVersion,
)
from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.run import Run
from holdfast.domain.skill import Skill


class BrokenAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with invalid files, and the error. Its last valid definition, if any, stays in use."""

    name: str
    file: str
    message: str


class Agents(Protocol):
    """The active agent definitions. A changed file takes effect for calls made at least 200 ms later.

    The agents of the workspace are those of every space, beside its own; a name of the workspace is no other agent.
    """

    async def of_space(self, space: SpaceId, name: str) -> Agent:
        """Return the agent that a space knows by a name: of the workspace, or its own; raise as `get` does."""

    async def all_of_space(self, space: SpaceId) -> list[Agent]:
        """Return the usable agents of the workspace and of a space, by name."""

    async def broken_of_space(self, space: SpaceId) -> list[BrokenAgent]:
        """Return the agents of the workspace and of a space that cannot be used now, by name."""

    def get(self, name: str) -> Agent:
        """Return the agent, or raise `NotFound`; a broken agent raises `Invalid` unless it was valid before."""

    def all(self) -> list[Agent]:
        """Return the usable agents, by name."""

    async def active(self, name: str, *, space: SpaceId | None = None) -> Agent:
        """Return the agent as `of_space` does, or as `get`, after publishing its version if that was not done.

        A new run needs this one. For a version of the workspace that is published already, nothing is read.
        """

    def broken(self) -> list[BrokenAgent]:
        """Return the agents with invalid files, by name."""


class RunAgents(Protocol):
    """The agents of runs: a run keeps the version that was active when it was created."""

    async def of_run(self, run: Run) -> Agent:
        """Return the definition that a run is executed from, with the present settings of the workspace.

        A run without a version has the active definition. A version that does not exist raises `NotFound`.
        """

    async def skills_of_run(self, run: Run) -> Sequence[Skill] | None:
        """Return the skills of folders that a run may use; null for a run without a version."""

    async def bundle_of_run(self, run: Run) -> AgentBundle:
        """Return what the version of a run consists of; `NotFound` for a run without a version."""

    async def bundle_files(self, run: Run, digests: Sequence[str]) -> dict[str, bytes]:
        """Return files of the version of a run by their digests; others raise `NotFound`."""

    async def rules(self, agent: str, *, space: SpaceId) -> LiveRules:
        """Return the rules of an agent of a space that hold now.

        An agent that does not exist has those of the workspace.
        """

    async def owner(self, space: SpaceId, agent: str) -> SpaceId | None:
        """Return the owner of the versions of an agent that a space knows by a name; null is the workspace."""

    async def check_usable(self, agent: str, version: str, *, owner: SpaceId | None = None) -> None:
        """Raise unless new runs of an agent could get a published version, with the present settings."""

    async def follow(self, head: AgentHead) -> None:
        """Give new runs of this process the active version of `head` at once; other processes follow within seconds."""


class AgentVersions(Protocol):
    """Published versions of agents. Without a space they are those of the workspace, which every space sees.

    Each method is one transaction. A version is never changed or removed while its owner exists.
    """

    async def publish(self, space: SpaceId | None, new: NewAgentVersion, *, by: str | None = None) -> AgentHead:
        """Store a version, and make it the active one; return the head of its agent.

        If it was the version published last, nothing changes: an earlier version that was activated since stays active.
        A version whose contents do not match its digests, or whose paths leave it, raises `Invalid`; one that is too
        large `TooLarge`.
        """

    async def activate(self, space: SpaceId | None, agent: str, digest: str, *, by: str | None = None) -> AgentHead:
        """Make a version the active one until another is published; an unknown one raises `NotFound`.

        The first 8 or more characters of a digest name it too; if there are several, that raises `Conflict`.
        """

    async def create(self, space: SpaceId, new: NewAgentVersion, *, by: str | None = None) -> AgentHead:
        """Store the first version of an agent of a space, or the next one of an agent that was deleted.

        An agent that exists raises `IdTaken`; a space with `MAX_SPACE_AGENTS` agents `Conflict`.
        """

    async def replace(
        self, space: SpaceId, new: NewAgentVersion, *, expected: Sequence[str] = (), by: str | None = None
    ) -> AgentHead:
        """Store a version of an agent that exists, and make it the active one, also if it was published before.

        If it is the active and the last one already, nothing changes.
        If there are `expected` digests, and the active version has none of them, that raises `VersionChanged`.
        """

    async def delete(self, space: SpaceId, agent: str, *, expected: Sequence[str] = (), by: str | None = None) -> None:
        """Delete an agent of a space, under the conditions of `replace`.

        Its versions can still be read by their digests: runs that have begun need them.
        """

    async def heads(self, space: SpaceId | None) -> list[AgentHead]:
        """Return the heads of all agents with a version, by name; not of those that are deleted."""

    async def head(self, space: SpaceId | None, agent: str) -> AgentHead:
        """Return the head of an agent; one without a version, or that was deleted, raises `NotFound`."""

    async def get(self, space: SpaceId | None, agent: str, digest: str) -> AgentVersion:
        """Return a version, or raise as `activate` does."""

    async def page(
        self, space: SpaceId | None, agent: str, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[AgentVersion]:
        """Return the versions of an agent, the newest first."""

    async def contents(self, space: SpaceId | None, agent: str, digest: str, files: Sequence[str]) -> dict[str, bytes]:
        """Return files of a version by their digests; a file that is not in the version raises `NotFound`."""


class AgentDefinitions(Protocol):
    """Definitions of agents that come with requests, checked as files are."""

    async def version(self, space: SpaceId, name: str, definition: AgentDefinition) -> NewAgentVersion:
        """Return the version that a definition makes, with the tools and skills of the workspace that it may use.

        An invalid one raises `Invalid` with the field, and so does one that only an operator may give an agent:
        MCP servers, a folder outside the workspace that the settings do not list for the space, and a script that is
        not part of it.
        """

    async def definition(self, space: SpaceId, head: AgentHead) -> AgentDefinition:
        """Return the active definition of an agent of a space."""

    def patched(self, definition: AgentDefinition, patch: AgentPatch) -> AgentDefinition:
        """Return a definition with the changes of a patch."""


class AgentFiles(Protocol):
    """The files of the agents of a workspace, as far as its settings let the API write them; else `Conflict`."""

    def has(self, name: str) -> bool:
        """Return whether the workspace has an agent of this name, valid or not."""

    async def write(
        self,
        name: str,
        change: AgentDefinition | AgentPatch,
        *,
        expected: Sequence[str] = (),
        by: str | None = None,
    ) -> None:
        """Change the files of an agent, each of them atomically, and publish what they say.

        Files that would be invalid raise `Invalid`, and an active version that is not `expected` `VersionChanged`: then
        nothing is written.
        """

    async def remove(self, name: str, *, expected: Sequence[str] = ()) -> None:
        """Put the folder of an agent aside, under a hidden name, under the conditions of `write`."""


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
