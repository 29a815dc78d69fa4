"""Ports of the runtime: clock, executor, and the control-plane calls that a worker makes under its lease.

`Library`, `MemoryLibrary`, `SubagentRuns` and `RemoteTools` are small and separate so that the control RPC can
implement each.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import AgentBundle, LiveRules
from holdfast.domain.artifact import Artifact, File
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.events.custom import McpServerUnavailable
from holdfast.domain.ids import ArtifactId, FileId, MemoryId, MessageId, RunId, SkillId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.memory import GraphHit, Memory, MessageNode, Provenance, Timeline, TimelineQuery
from holdfast.domain.memory_file import MemoryFile, MemoryFileChange, MemoryFileHit, MemoryPath
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import RecallQuery, RecallResult
from holdfast.domain.reminder import Reminder
from holdfast.domain.run import Run
from holdfast.domain.skill import Skill
from holdfast.domain.tool import ToolInterrupt, ToolReply, ToolSpec
from holdfast.ports.folders import FolderSnapshots
from holdfast.ports.log import Journal


class Clock(Protocol):
    """The clock of this process."""

    def now(self) -> Millis:
        """Return the current time in UTC."""


class Executor(Protocol):
    """Executes runs."""

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Execute the run of `lease` until one of its commits ends the lease: the run waits, is queued again or ended.

        Returning without such a commit releases the run. Once `stop` is set, the executor commits its pending work and
        returns at the next point where nothing is in flight. When cancelled, it stops at once, with everything it
        started, and writes nothing more. `LeaseLost` means that another worker owns the run now; `Unavailable` means
        that the run can be retried.
        """


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file of the space."""

    media_type: str
    content: bytes


class SkillListing(msgspec.Struct, frozen=True, kw_only=True):
    """The skills that an agent may use in a space, shadowed ones too."""

    revision: str
    """Changes if and only if a skill changes."""
    skills: Sequence[Skill]
    locale: str | None = None
    """The language of the space."""


class Library(Protocol):
    """The parts of the workspace that a run may read under its lease."""

    async def agent(self, lease: Lease) -> Agent:
        """Return the run's agent as of its version, or raise `NotFound`."""

    async def agents(self, lease: Lease) -> list[Agent]:
        """Return the agents that the run may spawn, sorted by name."""

    async def file(self, lease: Lease, file: FileId) -> StoredFile:
        """Return a file of the run's space, or raise `NotFound`."""

    async def file_info(self, lease: Lease, file: FileId) -> File:
        """Return the metadata of a file of the run's space, or raise `NotFound`."""

    async def artifact(self, lease: Lease, artifact: ArtifactId) -> Artifact:
        """Return the newest version of an artifact of the run's space, or raise `NotFound`."""

    async def reminders(self, lease: Lease) -> list[Reminder]:
        """Return the triggered reminders that the run should deal with, highest priority first.

        They are those of its thread, and those of its author without a thread. A sub-agent has none.
        """

    async def bundle(self, lease: Lease) -> AgentBundle:
        """Return what the version of the run's agent consists of; `NotFound` for a run without a version."""

    async def bundle_files(self, lease: Lease, digests: Sequence[str]) -> dict[str, bytes]:
        """Return files of the version of the run's agent by their digests; others raise `NotFound`."""

    async def rules(self, lease: Lease, agents: Sequence[str]) -> dict[str, LiveRules]:
        """Return the rules of the run's agent and its ancestors that hold now, whatever their versions say."""

    async def grants(self, lease: Lease) -> dict[str, list[str]]:
        """Return the rules that people granted in the run's space and that are in force, by agent."""

    async def skills(self, lease: Lease) -> SkillListing:
        """Return the skills of all sources that the run's agent may use; their revision changes when one changes."""

    async def skill_version(self, lease: Lease, skill: SkillId, version: int) -> Skill:
        """Return a custom skill of the run's space as of a version, disabled or not, or raise `NotFound`."""

    async def skill_file(self, lease: Lease, skill: SkillId, path: str, version: int | None = None) -> bytes:
        """Return a file of a skill, of a custom one as of a version, or raise `NotFound`."""


class MemoryLibrary(Protocol):
    """The memory of a run's space, under the run's lease: nothing of another space exists."""

    async def recall(self, lease: Lease, query: RecallQuery) -> RecallResult:
        """Search what was said and kept, as `Recall.search` promises."""

    async def memories(self, lease: Lease, ids: Sequence[MemoryId]) -> list[Memory]:
        """Return the named memories that exist, in that order."""

    async def equal(self, lease: Lease, text: str) -> list[Memory]:
        """Return the memories that state the same, oldest first, whatever became of them."""

    async def standing(self, lease: Lease) -> list[Memory]:
        """Return the standing memories in force, and the proposed ones of the run's own author, newest first."""

    async def messages(self, lease: Lease, names: Sequence[tuple[ThreadId, MessageId]]) -> list[MessageNode]:
        """Return the named messages that exist, with their taint and with what replaced their statements."""

    async def neighbours(self, lease: Lease, names: Sequence[tuple[ThreadId, int]]) -> list[MessageNode]:
        """Return what was said just before and after the messages at these sequences, with secrets redacted."""

    async def conversation(self, lease: Lease, runs: Sequence[RunId]) -> list[MessageNode]:
        """Return what people and the model said in these runs, in order: neither tool results nor system messages."""

    async def provenance(self, lease: Lease, memory: MemoryId) -> Provenance:
        """Return a memory with the messages it came from, or raise `NotFound`."""

    async def walk(
        self, lease: Lease, start: str, *, max_depth: int, relation_types: Sequence[str] | None, limit: int
    ) -> list[GraphHit]:
        """Return the nodes around `start`, as `MemoryGraph.walk` promises."""

    async def timeline(self, lease: Lease, query: TimelineQuery) -> Timeline:
        """Return messages and memories in a span of time."""

    async def file(self, lease: Lease, path: MemoryPath) -> MemoryFile:
        """Return a memory file, or raise `NotFound`."""

    async def files(self, lease: Lease, paths: Sequence[MemoryPath]) -> list[MemoryFile]:
        """Return those of these memory files that exist and can be read, in that order."""

    async def change_file(self, lease: Lease, path: MemoryPath, change: MemoryFileChange) -> MemoryFile:
        """Change a memory file, as `MemoryFiles.change` promises."""

    async def search_files(
        self, lease: Lease, query: str, *, owners: Sequence[str | None], limit: int
    ) -> list[MemoryFileHit]:
        """Return the lines of memory files that match best; `owners` are agents, and null for the space itself."""


class SubagentRuns(Protocol):
    """Operations of a run on other runs of its space. Those that change something need the lease (`LeaseLost`)."""

    async def count_active_children(self, lease: Lease) -> int:
        """Return the number of child runs that have not ended."""

    async def spawn(self, lease: Lease, new: NewRun, *, awaited: bool = False, pending_spawns: int = 0) -> Run:
        """Create a run. The call is idempotent: the same id returns the same run.

        Raises `SpawnLimit` if this child and the `pending_spawns` would exceed the run's limit of active children. On
        an existing thread, the child continues after the thread's active runs; that thread must belong to the run's own
        tree, and be neither the run's own thread nor that of the root run (`NotFound`). A thread that waits for a
        person is refused (`Waiting`). An `awaited` child that could start only after the run that waits for it is
        refused (`WouldDeadlock`).
        """

    async def subscribe(self, lease: Lease, target: RunId, *, waits: str | None = None) -> Run:
        """Notify the run when `target` ends, and return the current `target`, as `Subscriptions.add` promises."""

    async def taint(self, lease: Lease, run: RunId) -> Sequence[str]:
        """Return the untrusted sources that a run has read; a run that reads its output has read them too."""

    async def end(self, lease: Lease, runs: Sequence[RunId]) -> None:
        """End child runs with all their descendants; children that have ended stay as they are."""


class ToolListing(msgspec.Struct, frozen=True, kw_only=True):
    """The remote tools of a run, and the servers whose tools are missing."""

    tools: Sequence[ToolSpec]
    unavailable: Sequence[McpServerUnavailable] = ()


class RemoteTools(Protocol):
    """Tools that run in another process, called under a lease."""

    async def list(self, lease: Lease) -> ToolListing:
        """Return the tools that the run may use, sorted by name. A local tool of the same name takes precedence.

        A server that cannot be reached does not raise: the listing has the reason.
        """

    async def call(self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Call a tool. `key` is the same for every retry of this call, so that the tool can recognise it.

        A tool that fails reports that in its reply. A name that is not listed raises `NotFound`; a lost lease raises
        `LeaseLost`.
        """

    async def resume(
        self, lease: Lease, name: str, arguments: dict[str, Json], *, key: str, interrupt: ToolInterrupt, response: Json
    ) -> ToolReply:
        """Resume the call `key`, which raised `interrupt`; a null `response` means that nobody answered.

        The reply is as for `call`, and may be another interrupt. A tool that never raised an interrupt raises
        `NotFound`.
        """

    async def trust(self, lease: Lease, name: str, digest: str) -> None:
        """Allow calls to a tool whose definition has changed; `digest` is the definition that a person approved.

        A tool that has changed again since stays blocked. A name that cannot be a tool of the run raises `NotFound`.
        """


class RuntimePorts(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor reaches of the control plane, directly or over the control RPC."""

    journal: Journal
    library: Library
    memory: MemoryLibrary
    subagents: SubagentRuns
    remote: RemoteTools
    folders: FolderSnapshots
