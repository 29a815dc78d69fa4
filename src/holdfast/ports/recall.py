"""The port of the recall index: what the store keeps so that recall can search what was said.

    messages · memories · documents ──(pending)──► passages ──(add)──► items, terms, postings ──► items · lexical

The index is a projection: it holds terms and vectors, never a text, and can be built again from its sources.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from holdfast.domain.ids import MemoryId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.message import Role
from holdfast.domain.recall import RecallKind


class RecallSource(msgspec.Struct, frozen=True, kw_only=True):
    """A message, memory or document, as recall reads it."""

    kind: RecallKind
    key: int
    id: str
    position: int
    """Sequence of a message; version of a memory or document."""
    text: str
    at: Millis
    thread_key: int | None = None
    thread_id: ThreadId | None = None
    run_id: RunId | None = None
    role: Role | None = None
    speaker: str | None = None
    status: str | None = None
    importance: float | None = None
    expires_at: Millis | None = None
    revises: tuple[int, ...] = ()
    """Keys of the messages that this one revises."""
    taint: Sequence[str] = ()
    """Untrusted sources that the author of a message had read; only in what `sources` returns."""
    superseded_by: Sequence[MemoryId] = ()
    """What replaced all that a message stated; only in what `sources` returns."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a source, analysed."""

    source: RecallSource
    number: int
    start: int
    chars: int
    counts: Mapping[str, int]
    """How often each term occurs."""
    tokens: bytes
    vector: bytes | None


class PendingSources(msgspec.Struct, frozen=True, kw_only=True):
    """Sources that are not in an index yet, and how its cursors move when they are."""

    index: int
    epoch: int
    """Removals so far: a batch that was read before a removal is not added."""
    sources: list[RecallSource]
    moves: list["CursorMove"]


class CursorMove(NamedTuple):
    """The step of the cursor of a thread, memory or document."""

    kind: RecallKind
    key: int
    expected: int
    position: int


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The active index of a space."""

    key: int
    analyser: str
    embedder: str | None
    items: int
    length: int
    """Terms of all items."""
    epoch: int
    building: bool
    """Whether another index is being built beside it."""
    caught_up: bool = True
    """Whether it has taken what was there before it."""


class IndexRow(NamedTuple):
    """An item of the index, as it is loaded into memory."""

    seq: int
    kind: str
    source_key: int
    position: int
    thread_key: int | None
    start: int
    chars: int
    role: str | None
    speaker: str | None
    at: int
    status: str | None
    importance: float | None
    expires_at: int | None
    revises: tuple[int, ...]
    length: int
    tokens: bytes
    vector: bytes | None


TailName: TypeAlias = tuple[RecallKind, int]
"""A thread, memory or document with something that is not indexed, by its key."""
TailSpan: TypeAlias = tuple[int, int]
"""The sequences or versions of it in the tail: those after the first number, up to the second."""


class IndexSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The index of a space and the tail that it lacks, as of one moment."""

    state: IndexState | None
    rows: list[IndexRow]
    tail: list[RecallSource]
    """What is not indexed, apart from what was known."""
    pending: Mapping[TailName, TailSpan] = {}
    """What the whole tail consists of."""
    behind: int
    """Messages that are not indexed; more than the tail holds if it was cut."""
    terms: Mapping[str, tuple[int, int]] = {}
    """Key and item count of each known term that was asked for."""


class IndexReplaced(Exception):
    """The index that was searched is no longer the active one."""


class RecallIndex(Protocol):
    """The index of what spaces have said, with a cursor for each thread, memory and document."""

    async def spaces(self) -> list[SpaceId]:
        """Return the spaces that have an index and something to add to it."""

    async def prepare(self, space: SpaceId, *, analyser: str, embedder: str | None) -> IndexState:
        """Return the active index; if it was made otherwise, another one is built beside it."""

    async def rebuild(self, space: SpaceId) -> None:
        """Start to build another index beside the active one, from the beginning."""

    async def mark_caught_up(self, index: int) -> None:
        """Note that an index has taken what was there before it: `spaces` then names its space only for what is new."""

    async def pending(
        self, space: SpaceId, *, limit: int, building: bool = False, first: Mapping[RecallKind, int] = {}
    ) -> PendingSources | None:
        """Return the next sources for the active index, or for the one being built; `None` if there are none.

        For the one being built, threads, memories and documents with keys below `first` are not looked at again.
        """

    async def add(self, space: SpaceId, batch: PendingSources, passages: Sequence[Passage]) -> bool:
        """Add what came of a batch and move its cursors, all or nothing.

        Return false, and change nothing, if another process moved a cursor, or something was removed meanwhile.
        """

    async def activate(self, space: SpaceId) -> bool:
        """Search the index that was built from now on, if it has come as far as the active one."""

    async def drop_replaced(self, *, limit: int) -> bool:
        """Remove a part of a replaced index; return whether there is more to remove."""

    async def epochs(self, indexes: Sequence[int]) -> dict[int, int]:
        """Return the epochs of those of these indexes that are active."""

    async def snapshot(
        self,
        space: SpaceId,
        *,
        after: int,
        index: int | None,
        epoch: int,
        tail: int,
        known: Mapping[TailName, TailSpan] = {},
        terms: Sequence[str] = (),
    ) -> IndexSnapshot:
        """Return the state, the rows after `after` if `index` and `epoch` are current, and what is not indexed.

        The tail goes at most `tail` messages back, threads with the latest runs first. What is `known` of it is not
        read again, if `index` and `epoch` are current.
        """

    async def rows(self, index: int, *, after: int, limit: int) -> list[IndexRow]:
        """Return items in the order in which they were added."""

    async def lexical(
        self,
        index: int,
        weights: Sequence[tuple[int, int, float]],
        *,
        average: float,
        limit: int,
        only: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        """Return the items with the best BM25 for terms (key, item count, weight); `only` narrows the items.

        Raises `IndexReplaced` if the index is not the active one.
        """

    async def sources(
        self, space: SpaceId, keys: Sequence[tuple[RecallKind, int]]
    ) -> dict[tuple[RecallKind, int], RecallSource]:
        """Return the named sources of the space that still exist."""

    async def memory_sources(self, space: SpaceId, memories: Sequence[int]) -> dict[int, list[int]]:
        """Return the keys of the messages that memories came from."""

    async def thread_key(self, space: SpaceId, thread: ThreadId) -> int:
        """Return the key of a thread, or raise `NotFound`."""

    async def behind(self, space: SpaceId) -> int:
        """Return the number of messages that are not indexed yet."""

    async def progress(self, space: SpaceId) -> float | None:
        """Return the share of a rebuild that is done; `None` if there is none."""

    async def put_document(self, space: SpaceId, id: str, text: str, *, at: Millis) -> None:
        """Keep a document for search; one that is equal changes nothing."""

    async def drop_document(self, space: SpaceId, id: str) -> None:
        """Remove a document and its items."""

    async def documents(self, space: SpaceId) -> list[str]:
        """Return the ids of the documents."""
