"""Runtime ports for workers in the same process: the agent library and subagent runs. A worker acts under its lease."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.control.skills import SkillShelf
from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import AgentBundle, LiveRules
from holdfast.domain.artifact import Artifact, File
from holdfast.domain.commit import Lease
from holdfast.domain.content import plain_text
from holdfast.domain.errors import Conflict, IdTaken, IllegalMove, Invalid, NotFound, TooLarge
from holdfast.domain.folder_snapshot import (
    MAX_SNAPSHOT_ENTRIES,
    MAX_SNAPSHOT_FILE_BYTES,
    FolderChanges,
    FolderState,
    SavedFolder,
    is_digest,
)
from holdfast.domain.ids import ArtifactId, FileId, MemoryId, MessageId, RunId, SkillId, ThreadId, check_client_id
from holdfast.domain.limits import check_children
from holdfast.domain.memory import (
    GraphHit,
    Memory,
    MessageNode,
    Provenance,
    Timeline,
    TimelineQuery,
)
from holdfast.domain.memory_file import MemoryFile, MemoryFileChange, MemoryFileHit, MemoryPath
from holdfast.domain.message import Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallQuery, RecallResult
from holdfast.domain.reminder import Reminder
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.skill import Skill
from holdfast.domain.thread import NewThread
from holdfast.domain.untrusted import read_taint
from holdfast.domain.working_folder import working_folder
from holdfast.domain.working_path import is_outside_workspace
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.folders import FolderSnapshots
from holdfast.ports.log import Journal, Messages, Values
from holdfast.ports.memory import Memories, MemoryFiles, MemoryGraph, Recall
from holdfast.ports.queue import Subscriptions
from holdfast.ports.reminders import Reminders
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.runtime import SkillListing, StoredFile
from holdfast.ports.spaces import Grants
from holdfast.ports.workspace import Agents, RunAgents


class LocalLibrary:
    """`Library` over the agents and skills of the workspace, and files, artifacts, reminders, grants of the store."""

    def __init__(
        self,
        agents: Agents,
        run_agents: RunAgents,
        files: Files,
        artifacts: Artifacts,
        grants: Grants,
        reminders: Reminders,
        skills: SkillShelf,
    ) -> None:
        self._reminders = reminders
        self._agents = agents
        self._run_agents = run_agents
        self._skills = skills
        self._files = files
        self._artifacts = artifacts
        self._grants = grants

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run, as of its version."""
        return await self._run_agents.of_run(lease.run)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return all agents of the workspace and of the run's space."""
        found = await self._agents.all_of_space(lease.space_id)
        return [agent if agent.space_id is not None else await self._agents.active(agent.name) for agent in found]

    async def bundle(self, lease: Lease) -> AgentBundle:
        """Return what the version of the run's agent consists of."""
        return await self._run_agents.bundle_of_run(lease.run)

    async def bundle_files(self, lease: Lease, digests: Sequence[str]) -> dict[str, bytes]:
        """Return files of the version of the run's agent."""
        return await self._run_agents.bundle_files(lease.run, digests)

    async def rules(self, lease: Lease, agents: Sequence[str]) -> dict[str, LiveRules]:
        """Return the rules of agents that hold now."""
        return {name: await self._run_agents.rules(name, space=lease.space_id) for name in agents}

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space."""
        stored = await self._files.get(lease.space_id, file)
        return StoredFile(media_type=stored.media_type, content=await self._files.content(lease.space_id, file))

    async def file_info(self, lease: Lease, file: FileId) -> File:
        """Return the metadata of a file of the run's space."""
        return await self._files.get(lease.space_id, file)

    async def artifact(self, lease: Lease, artifact: ArtifactId) -> Artifact:
        """Return the newest version of an artifact."""
        return await self._artifacts.get(lease.space_id, artifact)

    async def reminders(self, lease: Lease) -> list[Reminder]:
        """Return the triggered reminders of the run's thread and of its author."""
        run = lease.run
        if run.parent_run_id is not None or any(tag.startswith("judge:") for tag in run.tags):
            return []
        return await self._reminders.of_turn(lease.space_id, lease.thread_id, owner=run.created_by)

    async def grants(self, lease: Lease) -> dict[str, list[str]]:
        """Return the rules granted in the run's space, by agent."""
        return await self._grants.in_force(lease.space_id)

    async def skills(self, lease: Lease) -> SkillListing:
        """Return the skills that the agent of the run may use."""
        own = await self._run_agents.skills_of_run(lease.run)
        return await self._skills.listing(lease.space_id, lease.run.agent_type, own=own)

    async def skill_version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        """Return a custom skill as of a version."""
        return await self._skills.version(lease.space_id, skill, version)

    async def skill_file(self, lease: Lease, skill: SkillId, path: str, version: int | None = None) -> bytes:
        """Return a file of a skill."""
        if version is not None:
            return await self._skills.custom_file(lease.space_id, skill, path, version)
        own = await self._run_agents.skills_of_run(lease.run)
        return await self._skills.file(lease.space_id, lease.run.agent_type, skill, path, own=own)


MAX_CACHED_FOLDERS: Final = 10_000
MAX_STANDING: Final = 100
"""Standing memories that a run is told of; the newest."""


class LocalMemoryLibrary:
    """`MemoryLibrary` over the memories and memory files of a store."""

    def __init__(
        self,
        memories: Memories,
        graph: MemoryGraph,
        messages: Messages,
        recall: Recall,
        files: MemoryFiles,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._redact = redact
        self._messages = messages
        self._memories = memories
        self._graph = graph
        self._recall = recall
        self._files = files

    async def recall(self, lease: Lease, query: RecallQuery) -> RecallResult:
        """Search what was said and kept."""
        return await self._recall.search(lease.space_id, query)

    async def memories(self, lease: Lease, ids: Sequence[MemoryId]) -> list[Memory]:
        """Return the named memories that exist."""
        return await self._memories.get_many(lease.space_id, ids) if ids else []

    async def equal(self, lease: Lease, text: str) -> list[Memory]:
        """Return the memories that state the same."""
        return await self._memories.equal(lease.space_id, text)

    async def standing(self, lease: Lease) -> list[Memory]:
        """Return the standing memories in force, and the proposed ones in the words of the run's own author."""
        author = lease.run.created_by
        return await self._memories.standing(lease.space_id, proposed_by=author, limit=MAX_STANDING)

    async def messages(self, lease: Lease, names: Sequence[tuple[ThreadId, MessageId]]) -> list[MessageNode]:
        """Return the named messages, with what replaced their statements."""
        return await self._graph.messages(lease.space_id, names) if names else []

    async def neighbours(self, lease: Lease, names: Sequence[tuple[ThreadId, int]]) -> list[MessageNode]:
        """Return what was said around some messages."""
        found = await self._graph.neighbours(lease.space_id, names) if names else []
        return [replace(node, text=self._redact(node.text)) for node in found]

    async def conversation(self, lease: Lease, runs: Sequence[RunId]) -> list[MessageNode]:
        """Return what people and the model said in these runs."""
        said = [message for run in runs for message in await self._messages.of_run(lease.space_id, run)]
        spoken = [message for message in said if message.role in (Role.USER, Role.ASSISTANT)]
        return await self._graph.messages(
            lease.space_id, [(each.thread_id, each.id) for each in spoken if plain_text(each.content).strip()]
        )

    async def provenance(self, lease: Lease, memory: MemoryId) -> Provenance:
        """Return where a memory came from."""
        return await self._graph.provenance(lease.space_id, memory)

    async def walk(
        self, lease: Lease, start: str, *, max_depth: int, relation_types: Sequence[str] | None, limit: int
    ) -> list[GraphHit]:
        """Return the nodes around a start."""
        return await self._graph.walk(
            lease.space_id, start, max_depth=max_depth, relation_types=relation_types, limit=limit
        )

    async def timeline(self, lease: Lease, query: TimelineQuery) -> Timeline:
        """Return messages and memories in a span of time."""
        return await self._graph.timeline(lease.space_id, query)

    async def file(self, lease: Lease, path: MemoryPath) -> MemoryFile:
        """Return a memory file."""
        return await self._files.get(lease.space_id, path)

    async def files(self, lease: Lease, paths: Sequence[MemoryPath]) -> list[MemoryFile]:
        """Return the memory files that exist."""
        return await self._files.get_many(lease.space_id, paths) if paths else []

    async def change_file(self, lease: Lease, path: MemoryPath, change: MemoryFileChange) -> MemoryFile:
        """Change a memory file."""
        return await self._files.change(lease.space_id, path, change)

    async def search_files(
        self, lease: Lease, query: str, *, owners: Sequence[str | None], limit: int
    ) -> list[MemoryFileHit]:
        """Return the lines of memory files that match best."""
        return await self._files.search(lease.space_id, query, owners=owners, limit=limit)


PARENT_FAILED_REASON: Final = "the run that waited for it has failed"


class LocalFolderSnapshots:
    """`FolderSnapshots` of a store, for the working folder of the run only."""

    def __init__(self, snapshots: FolderSnapshots, run_agents: RunAgents, journal: Journal) -> None:
        self._snapshots = snapshots
        self._run_agents = run_agents
        self._journal = journal
        self._folders: OrderedDict[tuple[int, int], str] = OrderedDict()

    async def open(self, lease: Lease, folder: str, *, place: str, version: int) -> FolderState:
        """Note that a place uses the folder."""
        check_client_id(place, field="place")
        await self._check(lease, folder)
        return await self._snapshots.open(lease, folder, place=place, version=version)

    async def stage(self, lease: Lease, digests: Sequence[str]) -> list[str]:
        """Hold contents that are there, and return the digests of the others."""
        if len(digests) > MAX_SNAPSHOT_ENTRIES or not all(map(is_digest, digests)):
            raise Invalid(f"`digests` takes up to {MAX_SNAPSHOT_ENTRIES} SHA-256 digests", field="digests")
        return await self._snapshots.stage(lease, digests)

    async def upload(self, lease: Lease, contents: Sequence[bytes]) -> None:
        """Store contents, and hold them."""
        if any(len(content) > MAX_SNAPSHOT_FILE_BYTES for content in contents):
            raise TooLarge(f"a file of a snapshot has at most {MAX_SNAPSHOT_FILE_BYTES} bytes", field="contents")
        await self._snapshots.upload(lease, contents)

    async def save(
        self, lease: Lease, folder: str, changes: FolderChanges, *, place: str, in_use: bool = False
    ) -> SavedFolder:
        """Apply changes to the snapshot."""
        check_client_id(place, field="place")
        await self._check(lease, folder)
        return await self._snapshots.save(lease, folder, changes, place=place, in_use=in_use)

    async def download(self, lease: Lease, folder: str, digests: Sequence[str]) -> list[bytes]:
        """Return contents of the folder's files."""
        await self._check(lease, folder)
        return await self._snapshots.download(lease, folder, digests)

    async def _check(self, lease: Lease, folder: str) -> None:
        """Raise unless the folder is the run's: a worker names it, and is not believed."""
        key = (lease.run_key, lease.number)
        known = self._folders.get(key)
        if known is None:
            values = (await self._journal.open(lease)).values
            agent = await self._run_agents.of_run(lease.run)
            known = self._folders[key] = working_folder(lease.run, agent, values)
            if len(self._folders) > MAX_CACHED_FOLDERS:
                self._folders.popitem(last=False)
        if known != folder or is_outside_workspace(folder):
            raise Conflict(f"`{folder}` is not a working folder of run `{lease.run_id}` that has snapshots")


class LocalSubagentRuns:
    """`SubagentRuns` over the store."""

    def __init__(self, runs: Runs, subscriptions: Subscriptions, journal: Journal, values: Values) -> None:
        self._runs = runs
        self._subscriptions = subscriptions
        self._journal = journal
        self._values = values

    async def count_active_children(self, lease: Lease) -> int:
        """Return the number of children that have not ended."""
        return await self._runs.count_active_children(lease.space_id, lease.run_id)

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Create a run, or return the one that has the id of `new`."""
        await self._check_lease(lease)
        if new.id is None or new.parent_run_id not in (None, lease.run_id):
            raise Invalid("a spawned run needs an id, and this run or none as its parent", field="parent_run_id")
        with suppress(NotFound):
            return _spawned(await self._runs.get(lease.space_id, new.id), new)
        if new.parent_run_id is not None:
            check_children(lease.run.limits, await self.count_active_children(lease) + pending_spawns)
        try:
            return await self._create(lease, new, awaited=awaited)
        except IdTaken as taken:  # created concurrently by an earlier holder of the lease
            if taken.details.get("id") != new.id:
                raise
            return _spawned(await self._runs.get(lease.space_id, new.id), new)

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Notify the run when `target` ends; a run is always notified about its own children."""
        await self._check_lease(lease)
        found = await self._runs.get(lease.space_id, target)
        if waits is None and found.parent_run_id == lease.run_id:
            return found
        return await self._subscriptions.add(lease.space_id, lease.run_id, target=target, waits=waits)

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return the names of the untrusted sources that a run has read."""
        return read_taint(await self._values.of_run(lease.space_id, run)).names()

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """Cancel the children that have not ended."""
        await self._check_lease(lease)
        for run in runs:
            if (await self._runs.get(lease.space_id, run)).parent_run_id != lease.run_id:
                raise NotFound(f"run `{run}` is not a child of this run", id=run)
        for run in runs:
            with suppress(IllegalMove):
                await self._runs.end(lease.space_id, run, to=RunStatus.CANCELLED, reason=PARENT_FAILED_REASON)

    async def _create(self, lease: Lease, new: NewRun, *, awaited: bool) -> Run:
        """Create a run on a new thread, or on the existing thread that has the id of the new one."""
        if isinstance(new.thread, NewThread):
            try:
                return (await self._runs.create(lease.space_id, new, awaited=awaited)).run
            except IdTaken as taken:
                if new.thread.id is None or taken.details.get("id") != new.thread.id:
                    raise
                new = replace(new, thread=new.thread.id)
        assert isinstance(new.thread, str)
        await self._check_thread(lease, new.thread, agent=new.agent_type)
        return (await self._runs.create(lease.space_id, new, awaited=awaited)).run

    async def _check_thread(self, lease: Lease, thread: ThreadId, *, agent: str | None) -> None:
        page = await self._runs.page(lease.space_id, where=RunFilter(thread_id=thread), limit=1)
        root = lease.run.root_thread_id
        if thread in (lease.thread_id, root) or not page.items or page.items[0].root_thread_id != root:
            raise NotFound(
                f"there is no thread `{thread}` that this run may write to: name the thread of a run in its tree",
                id=thread,
            )
        thread_agent = page.items[0].agent_type
        if thread_agent != agent:
            raise Invalid(f"thread `{thread}` belongs to agent `{thread_agent}`: name that agent", field="agent")

    async def _check_lease(self, lease: Lease) -> None:
        await self._journal.inbox(lease)  # raises `LeaseLost`


def _spawned(run: Run, new: NewRun) -> Run:
    """Return a run that was created by `new`, or raise `IdTaken` if another request created it."""
    made = (run.parent_run_id, run.agent_type, run.input, run.created_by)
    if made != (new.parent_run_id, new.agent_type or run.agent_type, new.input, new.created_by):
        raise IdTaken(f"the run id `{run.id}` was used before in this space: choose another", id=run.id)
    return run
