"""Ports of memory: what a space keeps, the search over what it has said, and the vectors that the search compares."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.forgetting import ForgetReceipt, ForgetRequest
from holdfast.domain.ids import MemoryId, MessageId, SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.memory import (
    GraphHit,
    Memory,
    MemoryFilter,
    MemoryPatch,
    MemoryRecord,
    MemoryVersion,
    MessageNode,
    NewMemory,
    Provenance,
    Timeline,
    TimelineQuery,
)
from holdfast.domain.memory_file import MemoryFile, MemoryFileChange, MemoryFileHit, MemoryFileInfo, MemoryPath
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.recall import RecallQuery, RecallResult, RecallStatus

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[numpy.float32]
    """One row per text. A row has length 1, or is zero for a text that the embedder knows nothing of."""


class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near their meanings are."""

    @property
    def id(self) -> str:
        """Name and version: vectors are comparable if and only if this is equal."""

    @property
    def dims(self) -> int:
        """Length of each vector."""

    @property
    def parts(self) -> tuple[int, ...]:
        """Lengths of the parts of a vector that may be zero as a whole; usually one part of all dimensions."""

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one normalised row per text.

        The same text gives the same row. A text without a known word gives a row of zeros. Raises `Unavailable` if
        the embedder cannot be reached, or answers with vectors of another length.
        """


class Recall(Protocol):
    """Search over the messages, memories and memory files of one space."""

    async def search(self, space: SpaceId, query: RecallQuery) -> RecallResult:
        """Return the best hits, each with the parts of its score.

        - What was committed before the call is found, whether or not it is in the index yet.
        - Nothing of another space is found.
        - Without its embedder it is lexical, and says so in `notice`.
        """

    async def status(self, space: SpaceId) -> RecallStatus:
        """Return how far the index is."""

    async def rebuild(self, space: SpaceId) -> None:
        """Mark the index for a rebuild; the old one answers until the new one is complete."""

    async def put_file(self, space: SpaceId, path: str, text: str, *, at: Millis) -> None:
        """Let a memory file be found under its path, with this text and no other; an equal text changes nothing."""

    async def drop_file(self, space: SpaceId, path: str) -> None:
        """Let a memory file be found no more."""

    async def files(self, space: SpaceId) -> list[str]:
        """Return the paths of the memory files that are found."""


class KeptMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The result of keeping a memory."""

    memory: Memory
    created: bool
    duplicates: list[MemoryId] = []
    """Memories that state the same, one of which is `memory`."""


class RestoredMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    added: int = 0
    unchanged: int = 0
    dropped_sources: int = 0


class Memories(Protocol):
    """The memories of a space. Nothing is overwritten: each change adds a version."""

    async def put(self, space: SpaceId, new: NewMemory) -> KeptMemory:
        """Keep a memory with its sources, entities and relations, and supersede the memories that it names.

        - With a `key` that was used before, the earlier memory is returned and nothing is added, also concurrently.
        - What an agent or a distiller states is not added a second time, whatever became of the first.
        - What `initial_status` does not trust becomes a proposal, and supersedes nothing before it is accepted.
        - A source, or a superseded memory, of another space does not exist (`NotFound`).
        - A memory that is superseded or retracted cannot be superseded (`Conflict`).
        """

    async def get(self, space: SpaceId, memory: MemoryId) -> Memory:
        """Return a memory in its current version, or raise `NotFound`."""

    async def equal(self, space: SpaceId, text: str) -> list[Memory]:
        """Return the memories that state the same, oldest first."""

    async def get_many(self, space: SpaceId, memories: Sequence[MemoryId]) -> list[Memory]:
        """Return the named memories that exist, in that order."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: MemoryFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Memory]:
        """Return memories, newest first. Reading changes nothing."""

    async def standing(
        self, space: SpaceId, *, proposed_by: str | None | UnsetType = UNSET, limit: int = DEFAULT_PAGE_SIZE
    ) -> list[Memory]:
        """Return the standing memories that are active and have not expired, newest first.

        With `proposed_by` also those that rules found in that person's messages and that nobody has accepted or edited.
        """

    async def update(
        self, space: SpaceId, memory: MemoryId, patch: MemoryPatch, *, by: str | None = None, version: int | None = None
    ) -> Memory:
        """Add a version with the changes of `patch`. If another `version` is the current one: `Conflict`."""

    async def supersede(
        self, space: SpaceId, memory: MemoryId, *, new: MemoryId | NewMemory, by: str | None = None
    ) -> Memory:
        """Replace a memory by `new`, and return the replacement. A cycle is refused (`Conflict`), also concurrently."""

    async def accept(self, space: SpaceId, memory: MemoryId, *, by: str | None = None) -> Memory:
        """Make a proposed memory active, and supersede what it would replace; an active one stays as it is."""

    async def retract(self, space: SpaceId, memory: MemoryId, *, by: str | None = None) -> Memory:
        """Mark a memory as wrong or unwanted. It stays readable by id, and is recalled no more."""

    async def history(self, space: SpaceId, memory: MemoryId) -> list[MemoryVersion]:
        """Return all versions of a memory, oldest first; the last is the current one."""


class MemoryArchive(Protocol):
    """Export and import of memories."""

    async def export(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[MemoryRecord]:
        """Return all memories with their histories, oldest first."""

    async def restore(
        self, space: SpaceId, records: Sequence[MemoryRecord], *, drop_missing_sources: bool = False
    ) -> RestoredMemories:
        """Keep exported memories as they are, all or none.

        A memory that exists in the same state counts as unchanged, one in another state is refused (`Conflict`). A
        source that does not exist in this space is refused (`NotFound`), or left out if `drop_missing_sources`; so is
        a superseded or superseding memory that exists neither in the space nor among the records.
        """


class MemoryGraph(Protocol):
    """The connections of memories: to messages, to entities, to each other, and in time. It only reads."""

    async def provenance(self, space: SpaceId, memory: MemoryId) -> Provenance:
        """Return a memory with the messages it came from, what it replaced, and what replaced it."""

    async def walk(
        self,
        space: SpaceId,
        start: str,
        *,
        max_depth: int = 2,
        relation_types: Sequence[str] | None = None,
        limit: int = 50,
    ) -> list[GraphHit]:
        """Return the nodes around `start` by depth, predicate and id; the start is the first, at depth 0.

        `start` is the id of a memory, message or entity, or the name of an entity (`NotFound`).
        """

    async def timeline(self, space: SpaceId, query: TimelineQuery) -> Timeline:
        """Return messages by the time they were said, and active memories by the time of what they state."""

    async def messages(self, space: SpaceId, names: Sequence[tuple[ThreadId, MessageId]]) -> list[MessageNode]:
        """Return the named messages that exist, each with the untrusted sources that its author had read.

        A message whose statements were all superseded names the memories that replaced them.
        """

    async def neighbours(self, space: SpaceId, names: Sequence[tuple[ThreadId, int]]) -> list[MessageNode]:
        """Return what was said just before and after the messages at these sequences: by people and the model."""


class MemoryFiles(Protocol):
    """The memory files of a space: Markdown that people edit too."""

    async def all(self, space: SpaceId) -> list[MemoryFileInfo]:
        """Return the files of the space and its agents, by path."""

    async def get(self, space: SpaceId, path: MemoryPath) -> MemoryFile:
        """Return a file, or raise `NotFound`."""

    async def get_many(self, space: SpaceId, paths: Sequence[MemoryPath]) -> list[MemoryFile]:
        """Return those of these files that exist and can be read, in that order."""

    async def change(self, space: SpaceId, path: MemoryPath, change: MemoryFileChange) -> MemoryFile:
        """Make a change, and return the new file; a change that has been made already changes nothing.

        A stale `etag` raises `MemoryFileChanged`. Concurrent changes are made one after the other.
        """

    async def delete(self, space: SpaceId, path: MemoryPath, *, etag: str | None = None) -> None:
        """Delete a file, or raise `NotFound`; a stale `etag` raises `MemoryFileChanged`."""

    async def search(
        self, space: SpaceId, query: str, *, owners: Sequence[str | None] | None = None, limit: int = 10
    ) -> list[MemoryFileHit]:
        """Return the lines that match best; `owners` are agents, and null for the space itself."""


class Forgetting(Protocol):
    """Removal of what was said or kept, from everywhere."""

    async def forget(self, space: SpaceId, request: ForgetRequest, *, by: str | None = None) -> ForgetReceipt:
        """Forget what `request` selects, in one transaction, and return what went; a dry run changes nothing.

        - Selected memories are gone with their versions, sources and edges.
        - The content of selected messages is replaced by a tombstone, also in the events of their runs.
        - Every verbatim copy of a forgotten text or sentence in the space is replaced: in other messages, events,
          context snapshots, inputs, outputs and values of runs, and in what was derived for threads.
        - When it returns, no row and no byte of a local database file holds the text.
        - A run that is active and would lose text is refused (`RunActive`).
        """
