"""Search for people: memories, threads and messages of a space, with excerpts that show why they were found."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.control.memory_files import MemoryFileIndex
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import MemoryId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.memory import Memory, MemoryType
from holdfast.domain.message import Role
from holdfast.domain.recall import (
    MAX_HITS,
    RecallHit,
    RecallKind,
    RecallMode,
    RecallQuery,
    RecallResult,
    ScoreParts,
    check_recall_query,
)
from holdfast.domain.thread import Thread, ThreadFilter, ThreadStatus
from holdfast.memory.excerpts import Excerpt, excerpt
from holdfast.memory.outlines import query_words
from holdfast.ports.memory import Memories, Recall
from holdfast.ports.outlines import ThreadOutlines
from holdfast.ports.runs import Threads

MAX_OFFSET: Final = MAX_HITS
_THREAD_SHARE: Final = 0.1
"""Share of the scores of its other messages that a thread gets besides that of its best one."""

_TITLE_FACTOR: Final = 1.1
"""How much more than the best message a title counts that holds the query."""

_OUTLINE_FACTOR: Final = 0.6
"""How much of the best message an outline counts that holds every word of the query."""
_MIN_OUTLINE_SHARE: Final = 0.5
"""Share of the query's words that an outline must hold."""


class SearchTarget(StrEnum):
    """What a search of memories looks at: messages (`raw`), memories (`abstract`), or both with memory files."""

    RAW = "raw"
    ABSTRACT = "abstract"
    BOTH = "both"


_KINDS: Final = {
    SearchTarget.RAW: frozenset({RecallKind.MESSAGE}),
    SearchTarget.ABSTRACT: frozenset({RecallKind.MEMORY}),
    SearchTarget.BOTH: frozenset(RecallKind),
}


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, memory or memory file that was found."""

    kind: RecallKind
    id: str
    thread_id: ThreadId | None
    run_id: RunId | None
    sequence: int | None
    role: Role | None
    speaker: str | None
    at: Instant
    score: float
    excerpt: Excerpt
    memory: Memory | None = None
    parts: ScoreParts | None = None
    """Parts of the score, if they were asked for."""


class SearchResults(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first."""

    results: list[SearchHit]
    limit: int
    offset: int
    confidence: float
    embedder: str | None
    notice: str | None


class ThreadHit(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that was found, with its best messages."""

    thread: Thread
    score: float
    excerpt: Excerpt
    """Of its title, summary and key points."""
    messages: list[SearchHit]


class ThreadResults(msgspec.Struct, frozen=True, kw_only=True):
    """Threads, best first."""

    results: list[ThreadHit]
    limit: int
    offset: int
    notice: str | None


class RecallControl:
    """Queries over what a space has said and kept."""

    def __init__(
        self,
        *,
        recall: Recall,
        memories: Memories,
        threads: Threads,
        outlines: ThreadOutlines,
        files: MemoryFileIndex,
        principal: str | None = None,
    ) -> None:
        """Search for `principal`: `I` in a query means their messages."""
        self._files = files
        self._outlines = outlines
        self._recall = recall
        self._memories = memories
        self._threads = threads
        self._principal = principal

    async def memories(
        self,
        space: SpaceId,
        query: RecallQuery,
        *,
        target: SearchTarget = SearchTarget.BOTH,
        type: MemoryType | None = None,
        offset: int = 0,
        explain: bool = False,
    ) -> SearchResults:
        """Search memories, messages and memory files; a `type` leaves only memories of that type."""
        kinds = _KINDS[SearchTarget.ABSTRACT if type is not None else target]
        wanted = MAX_HITS if type is not None else _depth(query, offset)
        check_recall_query(query)
        if RecallKind.FILE in kinds:
            await self._files.refresh(space)
        found = await self._recall.search(space, self._asked(query, kinds=kinds, limit=wanted))
        names = [MemoryId(hit.id) for hit in found.hits if hit.kind is RecallKind.MEMORY]
        kept = {memory.id: memory for memory in await self._memories.get_many(space, names)} if names else {}
        hits = [hit for hit in found.hits if type is None or (hit.id in kept and kept[MemoryId(hit.id)].type is type)]
        return _results(query, found, hits, offset=offset, explain=explain, memories=kept)

    async def messages(
        self, space: SpaceId, thread: ThreadId, query: RecallQuery, *, offset: int = 0, explain: bool = False
    ) -> SearchResults:
        """Search the messages of a thread."""
        if (await self._threads.get(space, thread)).status is ThreadStatus.DELETED:
            raise NotFound(f"thread `{thread}` is deleted", id=thread)
        asked = self._asked(query, kinds=_KINDS[SearchTarget.RAW], limit=_depth(query, offset))
        found = await self._recall.search(space, msgspec.structs.replace(asked, thread=thread))
        return _results(query, found, found.hits, offset=offset, explain=explain, memories={})

    async def threads(self, space: SpaceId, query: RecallQuery, *, offset: int = 0) -> ThreadResults:
        """Search threads by what was said in them, and by their titles and outlines."""
        _depth(query, offset)
        found = await self._recall.search(space, self._asked(query, kinds=_KINDS[SearchTarget.RAW], limit=MAX_HITS))
        by_thread: dict[ThreadId, list[RecallHit]] = {}
        for hit in found.hits:
            if hit.thread_id is not None:
                by_thread.setdefault(hit.thread_id, []).append(hit)
        scores = {thread: _thread_score(hits) for thread, hits in by_thread.items()}
        best = max(scores.values(), default=1.0)
        if query.mode is not RecallMode.SEMANTIC:
            titled = await self._threads.page(space, where=ThreadFilter(title=query.text.strip()[:500]), limit=MAX_HITS)
            names = {thread.id for thread in titled.items}
            for name in names:  # a title that holds the query as it stands; its outline will too, once it is made
                scores[name] = scores.get(name, 0.0) + (_TITLE_FACTOR + _OUTLINE_FACTOR) * best
            words = query_words(query.text)
            least = math.ceil(_MIN_OUTLINE_SHARE * len(words))
            outlined = await self._outlines.with_words(space, words, least=least, limit=MAX_HITS) if words else []
            for thread, count in outlined:
                if thread.id not in names:
                    scores[thread.id] = scores.get(thread.id, 0.0) + _OUTLINE_FACTOR * best * count / len(words)
        order = sorted(scores, key=lambda thread: (-scores[thread], thread))[offset : offset + query.limit]
        results = [
            ThreadHit(
                thread=found_thread,
                score=round(scores[found_thread.id], 6),
                excerpt=excerpt(_outline_text(found_thread), query.text),
                messages=[_hit(hit, query.text, explain=False) for hit in by_thread.get(found_thread.id, [])[:3]],
            )
            for found_thread in [await self._threads.get(space, thread) for thread in order]
        ]
        return ThreadResults(results=results, limit=query.limit, offset=offset, notice=found.notice)

    def _asked(self, query: RecallQuery, *, kinds: frozenset[RecallKind], limit: int) -> RecallQuery:
        return msgspec.structs.replace(query, kinds=kinds, limit=limit, author=self._principal)


def _depth(query: RecallQuery, offset: int) -> int:
    """Return how many hits a page needs."""
    if offset + query.limit > MAX_HITS:
        raise Invalid(f"`offset` and `limit` together may be at most {MAX_HITS}: narrow the search", field="offset")
    return offset + query.limit


def _outline_text(thread: Thread) -> str:
    parts = [thread.title or "", *(thread.summary or "").splitlines(), *thread.key_points]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def _thread_score(hits: Sequence[RecallHit]) -> float:
    return hits[0].score + _THREAD_SHARE * sum(hit.score for hit in hits[1:4])


def _results(
    query: RecallQuery,
    found: RecallResult,
    hits: Sequence[RecallHit],
    *,
    offset: int,
    explain: bool,
    memories: dict[MemoryId, Memory],
) -> SearchResults:
    page = hits[offset : offset + query.limit]
    return SearchResults(
        results=[_hit(hit, query.text, explain=explain, memory=memories.get(MemoryId(hit.id))) for hit in page],
        limit=query.limit,
        offset=offset,
        confidence=found.confidence,
        embedder=found.embedder,
        notice=found.notice,
    )


def _hit(hit: RecallHit, query: str, *, explain: bool, memory: Memory | None = None) -> SearchHit:
    return SearchHit(
        kind=hit.kind,
        id=hit.id,
        thread_id=hit.thread_id,
        run_id=hit.run_id,
        sequence=hit.sequence,
        role=hit.role,
        speaker=hit.speaker,
        at=hit.at,
        score=hit.score,
        excerpt=excerpt(hit.text, query),
        memory=memory,
        parts=hit.parts if explain else None,
    )
