"""Runtime ports for workers in the same process: the agent library and subagent runs. A worker acts under its lease."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.control.skills import SkillShelf
from holdfast.domain.agent import Agent
from holdfast.domain.artifact import Artifact, File
from holdfast.domain.commit import Lease
from holdfast.domain.content import plain_text
from holdfast.domain.distillation import DISTILLER_PREFIX, distiller_of, is_distiller
from holdfast.domain.errors import IdTaken, IllegalMove, Invalid, NotFound
from holdfast.domain.ids import ArtifactId, FileId, MemoryId, MessageId, RunId, SkillId, ThreadId
from holdfast.domain.limits import check_children
from holdfast.domain.memory import (
    GraphHit,
    Memory,
    MemoryFilter,
    MemoryOrigin,
    MemoryStatus,
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
from holdfast.domain.thread import NewThread
from holdfast.domain.untrusted import read_taint
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.log import Journal, Messages, Values
from holdfast.ports.memory import Memories, MemoryFiles, MemoryGraph, Recall
from holdfast.ports.queue import Subscriptions
from holdfast.ports.reminders import Reminders
from holdfast.ports.runs import RunFilter, Runs
from holdfast.ports.runtime import SkillListing, StoredFile
from holdfast.ports.spaces import Grants
from holdfast.ports.workspace import Agents


class LocalLibrary:
    """`Library` over the agents and skills of the workspace, and files, artifacts, reminders, grants of the store."""

    def __init__(
        self,
        agents: Agents,
        files: Files,
        artifacts: Artifacts,
        grants: Grants,
        reminders: Reminders,
        skills: SkillShelf,
    ) -> None:
        self._reminders = reminders
        self._agents = agents
        self._skills = skills
        self._files = files
        self._artifacts = artifacts
        self._grants = grants

    async def agent(self, lease: Lease) -> Agent:
        """Return the agent of the run."""
        name = lease.run.agent_type
        if is_distiller(name):
            return distiller_of(self._agents.get(name.removeprefix(DISTILLER_PREFIX)))
        return self._agents.get(name)

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return all agents of the workspace."""
        return self._agents.all()

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
        return await self._skills.listing(lease.space_id, lease.run.agent_type)

    async def skill_file(self, lease: Lease, skill: SkillId, path: str) -> bytes:
        """Return a file of a skill."""
        return await self._skills.file(lease.space_id, lease.run.agent_type, skill, path)


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
        in_force = await self._memories.standing(lease.space_id, limit=MAX_STANDING)
        where = MemoryFilter(status=MemoryStatus.PROPOSED, standing=True)
        proposed = (await self._memories.page(lease.space_id, where=where, limit=MAX_STANDING)).items
        own_words = [
            memory
            for memory in proposed
            if memory.origin is MemoryOrigin.PERSON and not memory.taint and memory.author == lease.run.created_by
        ]
        return sorted([*in_force, *own_words], key=lambda memory: memory.created_at, reverse=True)[:MAX_STANDING]

    async def messages(self, lease: Lease, names: Sequence[tuple[ThreadId, MessageId]]) -> list[MessageNode]:
        """Return the named messages, with what replaced their statements."""
        if not names:
            return []
        replaced = await self._graph.superseded_sources(lease.space_id, names)
        return [
            replace(node, superseded_by=replaced.get((node.thread_id, node.id), []))
            for node in await self._graph.messages(lease.space_id, names)
        ]

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

    async def change_file(self, lease: Lease, path: MemoryPath, change: MemoryFileChange) -> MemoryFile:
        """Change a memory file."""
        return await self._files.change(lease.space_id, path, change)

    async def search_files(
        self, lease: Lease, query: str, *, owners: Sequence[str | None], limit: int
    ) -> list[MemoryFileHit]:
        """Return the lines of memory files that match best."""
        return await self._files.search(lease.space_id, query, owners=owners, limit=limit)


PARENT_FAILED_REASON: Final = "the run that waited for it has failed"


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
            return await self._runs.get(lease.space_id, new.id)
        if new.parent_run_id is not None:
            check_children(lease.run.limits, await self.count_active_children(lease) + pending_spawns)
        try:
            return await self._create(lease, new, awaited=awaited)
        except IdTaken as taken:  # created concurrently by an earlier holder of the lease
            if taken.details.get("id") != new.id:
                raise
            return await self._runs.get(lease.space_id, new.id)

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
