"""The agents of a workspace and of its spaces by version: which one new runs get, and from which one a run is executed.

    files ──► bundle ──► published, when a file has changed ──► active, unless an earlier version is activated
                                                                   │
    a new run names the active version ◄───────────────────────────┘      a run is executed from the one it names

The agents of a space have no files: the API publishes their versions, and the store is asked which one is active.

Rules that deny or ask are the exception: those that were added since hold in runs of every version.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.domain.agent import SCRIPT_PREFIX, Agent
from holdfast.domain.agent_version import AgentBundle, AgentHead, AgentVersion, LiveRules, NewAgentVersion
from holdfast.domain.distillation import DISTILLER_PREFIX, distiller_of, is_distiller
from holdfast.domain.errors import HoldfastError, Invalid, NotFound
from holdfast.domain.ids import SpaceId
from holdfast.domain.run import Run
from holdfast.domain.skill import Skill
from holdfast.ports.skills import FolderSkills
from holdfast.ports.workspace import AgentVersions, BrokenAgent
from holdfast.tools.thread_pool import run_in_thread
from holdfast.tools.tool import Tool
from holdfast.workspace.agents import AgentSource, FolderAgents
from holdfast.workspace.bundles import BundleCollector, BundleFolder, bundled_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.function_tools import FunctionTools
from holdfast.workspace.reload import Monotonic
from holdfast.workspace.skills import WorkspaceSkills
from holdfast.workspace.tools import FolderTools

SYNC_SECONDS: Final = 1.0
"""Time until a process notices that another one has published or activated a version."""
MAX_OPENED_OF_SPACES: Final = 2_000
"""Versions of agents of spaces that a process keeps in memory."""


class OpenBundle(NamedTuple):
    """A version on the disk of this process."""

    bundle: AgentBundle
    agent: Agent
    workspace: Workspace
    skills: Sequence[Skill]


def open_bundle(folder: BundleFolder, bundle: AgentBundle) -> OpenBundle:
    """Open a version that is on disk."""
    workspace = Workspace(folder.path_of(bundle.digest))
    skills = WorkspaceSkills(workspace).of_agent(bundle.agent)
    return OpenBundle(bundle, bundled_agent(bundle, workspace.path), workspace, skills)


class VersionedAgents:
    """`Agents` and `RunAgents`: the agents of a workspace, published to the store as versions."""

    def __init__(
        self,
        workspace: Workspace,
        files: FolderAgents,
        versions: AgentVersions,
        *,
        skills: FolderSkills,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        """`skills` are those of the workspace, for what was left out of a version."""
        self._files = files
        self._folder = BundleFolder(workspace.bundles)
        self._collector = BundleCollector(workspace, self._folder, monotonic=monotonic)
        self._versions = versions
        self._made: dict[str, tuple[AgentSource, NewAgentVersion, Agent]] = {}
        """What the files define now, by agent."""
        self._published: dict[str, str] = {}
        """The version that this process published last, by agent."""
        self._heads: dict[str, AgentHead] = {}
        self._opened: dict[tuple[SpaceId | None, str], OpenBundle] = {}
        """Versions on disk, by their owner and digest."""
        self._opened_of_spaces: dict[tuple[SpaceId | None, str], None] = {}
        """Those of them that are of a space, the oldest first."""
        self._skills = skills
        self._opening, self._publishing = asyncio.Lock(), asyncio.Lock()

    async def of_space(self, space: SpaceId, name: str) -> Agent:
        """Return the active definition of an agent of the workspace or of a space."""
        found = None if self._files.has(name) else await self._find_own(space, name)
        return self.get(name) if found is None else found

    async def all_of_space(self, space: SpaceId) -> list[Agent]:
        """Return the active definitions of the usable agents of the workspace and of a space, by name."""
        return sorted([*self.all(), *(await self._all_own(space))[0]], key=lambda agent: agent.name)

    async def broken_of_space(self, space: SpaceId) -> list[BrokenAgent]:
        """Return the agents of the workspace and of a space that cannot be used now, by name."""
        return sorted([*self.broken(), *(await self._all_own(space))[1]], key=lambda agent: agent.name)

    async def _all_own(self, space: SpaceId) -> tuple[list[Agent], list[BrokenAgent]]:
        """Return the agents of a space, and those that the present settings forbid."""
        found, broken = [], []
        for head in await self._versions.heads(space):
            if self._files.has(head.agent):
                continue
            try:
                found.append(await self._own(space, head))
            except Invalid as error:
                file = str(error.details.get("file", f"agents/{head.agent}"))
                broken.append(BrokenAgent(name=head.agent, file=file, message=error.message))
        return found, broken

    async def owner(self, space: SpaceId, agent: str) -> SpaceId | None:
        """Return the owner of the versions of an agent."""
        if self._files.has(agent):
            return None
        try:
            await self._versions.head(space, agent)
        except NotFound:
            return None
        return space

    async def _find_own(self, space: SpaceId, name: str) -> Agent | None:
        """Return the agent of a space that is not of the workspace."""
        try:
            head = await self._versions.head(space, name)
        except NotFound:
            return None
        return await self._own(space, head)

    async def _own(self, space: SpaceId, head: AgentHead) -> Agent:
        return self._files.complete((await self.open(head.agent, head.active, owner=space)).agent)

    def get(self, name: str) -> Agent:
        """Return the active definition of an agent of the workspace."""
        return self._files.complete(self._active(*self._current(self._files.source(name))))

    def all(self) -> list[Agent]:
        """Return the active definitions of the usable agents, by name."""
        return [self._files.complete(self._active(*self._current(source))) for source in self._files.sources()]

    def broken(self) -> list[BrokenAgent]:
        """Return the agents whose files are invalid now, by name."""
        return self._files.broken()

    def refresh(self) -> None:
        """Check the files now, regardless of the poll interval."""
        self._files.refresh()
        self._collector.refresh()

    async def active(self, name: str, *, space: SpaceId | None = None) -> Agent:
        """Return the active definition of an agent, after publishing it if that was not done."""
        if space is not None and not self._files.has(name) and (own := await self._find_own(space, name)) is not None:
            return own
        version, agent = self._current(self._files.source(name))
        if self._published.get(name) != version.digest:
            await self._publish(name)
            version, agent = self._current(self._files.source(name))
        return self._files.complete(self._active(version, agent))

    async def of_run(self, run: Run) -> Agent:
        """Return the definition that a run is executed from."""
        name = run.agent_type.removeprefix(DISTILLER_PREFIX)
        current = self._find_current(name)
        if run.agent_version is None:
            agent = self.get(name)  # of the workspace: runs of others have one
        elif current is not None and current.version == run.agent_version:
            agent = self._files.complete(current)  # its rules are those that hold now
        else:
            agent = self._files.complete(await self._definition(name, run.agent_version, space=run.space_id))
            rules = await self.rules(name, space=run.space_id)
            permissions = rules.applied_to(agent.permissions)
            if permissions is not agent.permissions:
                agent = replace(agent, permissions=permissions)
        return distiller_of(agent) if is_distiller(run.agent_type) else agent

    async def skills_of_run(self, run: Run) -> Sequence[Skill] | None:
        """Return the skills of folders that a run may use; null if it has no version."""
        if run.agent_version is None:
            return None
        name = run.agent_type.removeprefix(DISTILLER_PREFIX)
        opened = await self._open_of_space(name, run.agent_version, space=run.space_id)
        paths = [each.path.split("/") for each in opened.bundle.left_out]
        left_out = {path[-1].removesuffix(".md") for path in paths if path[0] != "tools"}
        if not left_out:
            return opened.skills
        live = [skill for skill in self._skills.of_agent(name) if skill.name in left_out]
        return (*opened.skills, *live)

    async def bundle_of_run(self, run: Run) -> AgentBundle:
        """Return what the version of a run consists of."""
        return (await self._version_of_run(run))[0].bundle

    async def bundle_files(self, run: Run, digests: Sequence[str]) -> dict[str, bytes]:
        """Return files of the version of a run."""
        version, owner = await self._version_of_run(run)
        return await self._versions.contents(owner, version.agent, version.digest, digests)

    async def _version_of_run(self, run: Run) -> tuple[AgentVersion, SpaceId | None]:
        """Return the version of a run, and its owner."""
        if run.agent_version is None:
            raise NotFound(f"run `{run.id}` has no version of its agent", id=run.id)
        return await self._version(run.agent_type.removeprefix(DISTILLER_PREFIX), run.agent_version, run.space_id)

    async def _version(self, name: str, digest: str, space: SpaceId) -> tuple[AgentVersion, SpaceId | None]:
        try:
            return await self._versions.get(None, name, digest), None
        except NotFound:
            return await self._versions.get(space, name, digest), space

    async def rules(self, agent: str, *, space: SpaceId) -> LiveRules:
        """Return the rules of an agent that hold now."""
        try:
            found = await self.of_space(space, agent)
        except HoldfastError:  # it was deleted or is broken: the rules of the workspace still hold
            found = self._files.complete(Agent(name=agent, description="", models=[], instructions=""))
        return LiveRules(deny=found.permissions.deny, ask=found.permissions.ask, granted=found.granted)

    async def sync(self) -> None:
        """Publish what changed in the files, and learn what other processes have published and activated."""
        known = dict(self._heads)
        heads = {head.agent: head for head in await self._versions.heads(None)}
        for source in self._files.sources():
            name = source.agent.name
            version, agent = self._current(source)
            head = heads.get(name)
            if self._published.get(name) != version.digest:
                await self._publish(name, head)
            elif head is not None and self._heads.get(name) is known.get(name):  # else a newer one came meanwhile
                await self._follow(head, agent)

    async def check_usable(self, agent: str, version: str, *, owner: SpaceId | None = None) -> None:
        """Raise unless new runs of an agent could get a version."""
        if owner is None:
            self._files.source(agent)
            self._files.complete(await self._definition(agent, version))
        else:
            self._files.complete((await self.open(agent, version, owner=owner)).agent)

    async def follow(self, head: AgentHead) -> None:
        """Give new runs the active version of a head."""
        _, agent = self._current(self._files.source(head.agent))
        await self._follow(head, agent)

    async def open(self, name: str, digest: str, *, owner: SpaceId | None = None) -> OpenBundle:
        """Return a version on disk, read from the store if it is not there."""
        opened = self._opened.get((owner, digest))
        if opened is not None:
            return opened
        async with self._opening:
            if (owner, digest) in self._opened:
                return self._opened[owner, digest]
            bundle = None
            if owner is None:
                bundle = await run_in_thread(lambda _: self._folder.find(digest))
            if bundle is None:  # what is on disk may be of another space: the store says whose it is
                bundle = (await self._versions.get(owner, name, digest)).bundle
                missing = [file.digest for file in await run_in_thread(lambda _: self._folder.missing(bundle))]
                contents = await self._versions.contents(owner, name, digest, missing) if missing else {}
                await run_in_thread(lambda _: self._folder.write(bundle, contents))
            found = bundle
            opened = await run_in_thread(lambda _: open_bundle(self._folder, found))
            if owner is not None:
                opened = opened._replace(agent=replace(opened.agent, space_id=owner))
            self._opened[owner, digest] = opened
            if owner is not None:
                self._forget_oldest(owner, digest)
            return opened

    def _forget_oldest(self, owner: SpaceId, digest: str) -> None:
        """Keep a limited number of versions of spaces in memory: they change as often as their authors like."""
        self._opened_of_spaces[owner, digest] = None
        if len(self._opened_of_spaces) > MAX_OPENED_OF_SPACES:
            oldest = next(iter(self._opened_of_spaces))
            del self._opened_of_spaces[oldest], self._opened[oldest]

    async def _open_of_space(self, name: str, digest: str, *, space: SpaceId) -> OpenBundle:
        """Return a version of the workspace, or else of a space."""
        for owner in (None, space):
            if (owner, digest) in self._opened:
                return self._opened[owner, digest]
        version, owner = await self._version(name, digest, space)
        return await self.open(name, version.digest, owner=owner)

    async def _definition(self, name: str, digest: str, *, space: SpaceId | None = None) -> Agent:
        """Return the definition of a version.

        Its scripts are read from the agent's folder where they are: a scripted model stands for a provider, which no
        version holds. Elsewhere, as on a worker, they are those of the bundle.
        """
        made = self._made.get(name)
        opened = await (self.open(name, digest) if space is None else self._open_of_space(name, digest, space=space))
        agent = opened.agent
        folder = None if made is None or agent.space_id is not None else made[2].folder
        if made is None or folder is None or not _has_scripts(folder, agent):
            return agent
        return made[2] if made[1].digest == digest else replace(agent, folder=folder)

    def _find_current(self, name: str) -> Agent | None:
        """Return what the files define now, unless they are gone or were never valid."""
        if not self._files.has(name):
            return None
        try:
            return self._current(self._files.source(name))[1]
        except HoldfastError:
            return None

    def _current(self, source: AgentSource) -> tuple[NewAgentVersion, Agent]:
        """Return the version that the files define now."""
        version, name = self._collector.of(source), source.agent.name
        made = self._made.get(name)
        if made is None or made[0] is not source or made[1].digest != version.digest:
            made = self._made[name] = (source, version, replace(source.agent, version=version.digest))
        return version, made[2]

    def _active(self, version: NewAgentVersion, agent: Agent) -> Agent:
        """Return the active definition of an agent, whose files define `version` now."""
        head = self._heads.get(agent.name)
        if head is None or head.active == version.digest or self._published.get(agent.name) != version.digest:
            return agent
        opened = self._opened.get((None, head.active))
        return agent if opened is None else opened.agent

    async def _publish(self, name: str, head: AgentHead | None = None) -> None:
        """Publish what the files define now, unless `head` says that it was published last, and follow its head."""
        async with self._publishing:  # so that the last of two edits is the one that is active
            version, agent = self._current(self._files.source(name))
            if self._published.get(name) == version.digest:
                return
            await run_in_thread(lambda _: self._folder.write(version.bundle, version.contents))
            if head is None or head.published != version.digest:
                head = await self._versions.publish(None, version)
            await self._follow(head, agent)
            self._published[name] = version.digest
            self._collector.release(version)

    async def _follow(self, head: AgentHead, agent: Agent) -> None:
        """Make the active version ready before new runs get it."""
        if head.active != agent.version:
            await self.open(head.agent, head.active)
        self._heads[head.agent] = head


def _has_scripts(folder: str, agent: Agent) -> bool:
    """Return whether a folder has the scripts of an agent's scripted models."""
    scripts = [model.removeprefix(SCRIPT_PREFIX) for model in agent.models if model.startswith(SCRIPT_PREFIX)]
    return os.path.isdir(folder) and all(os.path.isfile(os.path.join(folder, script)) for script in scripts)


class BundleTools:
    """The custom tools of agents, from the bundle of their version."""

    def __init__(
        self,
        folder: BundleFolder,
        *,
        live: Callable[[], Sequence[Tool]],
        read: Callable[[Workspace], tuple[FolderTools, FunctionTools]],
    ) -> None:
        """`live` are the tools of the workspace, for agents without a version and for what was left out of one."""
        self._folder = folder
        self._live = live
        self._read = read
        self._tools: dict[str, tuple[Sequence[Tool], frozenset[str]]] = {}
        """The tools of each version, and the names of those that were left out of it."""
        self._reading = asyncio.Lock()

    async def of(self, agent: Agent) -> Sequence[Tool]:
        """Return the tools that the version of an agent has; the same sequence unless one was left out."""
        if agent.version is None:
            return self._live()
        if agent.version not in self._tools:
            async with self._reading:
                if agent.version not in self._tools:
                    self._tools[agent.version] = await self._open(agent.version)
        tools, left_out = self._tools[agent.version]
        return tools if not left_out else (*tools, *(tool for tool in self._live() if tool.spec.name in left_out))

    async def _open(self, version: str) -> tuple[Sequence[Tool], frozenset[str]]:
        workspace = Workspace(self._folder.path_of(version))
        bundle = await run_in_thread(lambda _: self._folder.find(version))
        left_out = [] if bundle is None else [each.path for each in bundle.left_out]
        commands, functions = self._read(workspace)
        await functions.refresh()
        tools = (*commands.get(), *functions.get())
        names = {path.removeprefix("tools/") for path in left_out if path.startswith("tools/")}
        if any(name.endswith(".py") for name in names):  # the names of its functions are not known
            names |= {tool.spec.name for tool in self._live()} - {tool.spec.name for tool in tools}
        return tools, frozenset(names)
