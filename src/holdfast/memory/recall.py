"""Recall: searches the messages, memories and documents of a space.

    query ──► terms ──► BM25 in the database ─┐
          └─► vector ─► matrix in memory ─────┼─► ranking ──► hits with the parts of their scores
    tail that is not indexed yet ─────────────┘

The matrix of a space is loaded on its first search and kept current with what the index adds. A removal changes the
epoch of the index, so that no search uses a matrix from before it.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.domain.errors import NotFound, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Millis, instant
from holdfast.domain.recall import (
    RecallHit,
    RecallKind,
    RecallMode,
    RecallQuery,
    RecallResult,
    RecallStatus,
    ScoreParts,
    check_recall_query,
)
from holdfast.memory.analyser import terms
from holdfast.memory.indexing import Analysis
from holdfast.ports.recall import IndexRow, IndexSnapshot, Passage, RecallIndex, RecallSource
from holdfast.ports.runtime import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holdfast.memory.ranking import Corpus, Ranker, Scores
    from holdfast.memory.space_index import SpaceIndex

MAX_TAIL_MESSAGES: Final = 4_000
"""Messages behind the cursor that a search reads; beyond that the index has to catch up first."""
MAX_TAIL_EMBEDDED: Final = 256
"""Passages of the tail that a search embeds; the others are compared by their words."""
MAX_QUERY_TERMS: Final = 64
MAX_CACHED_BYTES: Final = 1 << 30
ROWS_PER_PAGE: Final = 20_000
MAX_LISTED_ITEMS: Final = 5_000
"""Passages that a filtered search names to the database; above that it filters what the database returns."""


class SpaceRecall:
    """Implements `Recall` over the stored index."""

    def __init__(self, index: RecallIndex, analysis: Analysis, clock: Clock) -> None:
        self.index = index
        self.analysis = analysis
        self.clock = clock
        self._cached: OrderedDict[SpaceId, SpaceIndex] = OrderedDict()
        self._locks: dict[SpaceId, asyncio.Lock] = {}

    async def search(self, space: SpaceId, query: RecallQuery) -> RecallResult:
        """Return the best hits."""
        check_recall_query(query)
        lock = self._locks.setdefault(space, asyncio.Lock())
        search = _Search(self, space, query)
        if space not in self._cached:
            async with lock:
                await self._load(space)
        await search.embed_query([] if space not in self._cached else self._cached[space].speakers)
        async with lock:  # a matrix must not grow while it is ranked
            snapshot, indexed = await self._load(space)
            found = await search.rank(snapshot, indexed)
        return await search.result(found)

    async def status(self, space: SpaceId) -> RecallStatus:
        """Return how far the index is."""
        snapshot = await self.index.snapshot(space, after=0, index=None, epoch=-1, tail=0)
        state = snapshot.state
        embedder = self.analysis.embedder
        return RecallStatus(
            items=0 if state is None else state.items,
            pending=snapshot.behind,
            analyser=self.analysis.id if state is None else state.analyser,
            embedder=None if state is None else state.embedder,
            rebuild=await self.index.progress(space),
            notice=None if embedder is None else getattr(embedder, "notice", None),
        )

    async def rebuild(self, space: SpaceId) -> None:
        """Build the index again beside the one in use."""
        await self.index.rebuild(space)

    async def put_file(self, space: SpaceId, path: str, text: str, *, at: Millis) -> None:
        """Let a memory file be found."""
        await self.index.put_document(space, path, text, at=at)

    async def drop_file(self, space: SpaceId, path: str) -> None:
        """Let a memory file be found no more."""
        await self.index.drop_document(space, path)

    async def evict_stale(self) -> None:
        """Drop the matrices whose index has lost items since, so that nothing forgotten stays in memory."""
        for space, cached in list(self._cached.items()):
            try:
                snapshot = await self.index.snapshot(space, after=0, index=None, epoch=-1, tail=0)
            except NotFound:
                self._cached.pop(space, None)
                continue
            state = snapshot.state
            if state is None or (state.key, state.epoch) != (cached.key, cached.epoch):
                self._cached.pop(space, None)

    async def _load(self, space: SpaceId) -> "tuple[IndexSnapshot, SpaceIndex]":
        """Return the current state of an index, and its matrix."""
        from holdfast.memory.space_index import SpaceIndex

        embedder = self.analysis.embedder
        parts = (1,) if embedder is None else await asyncio.to_thread(lambda: embedder.parts)
        cached = self._cached.pop(space, None)
        while True:
            key, epoch = (None, -1) if cached is None else (cached.key, cached.epoch)
            after = 0 if cached is None else cached.last_seq
            snapshot = await self.index.snapshot(space, after=after, index=key, epoch=epoch, tail=MAX_TAIL_MESSAGES)
            state = snapshot.state
            if state is None:
                return snapshot, SpaceIndex(key=0, epoch=0, parts=parts)
            if cached is not None and (state.key, state.epoch) == (key, epoch):
                await asyncio.to_thread(cached.extend, snapshot.rows)
                self._keep(space, cached)
                return snapshot, cached
            comparable = self.analysis.embedder is not None and state.embedder == self.analysis.embedder.id
            cached = SpaceIndex(key=state.key, epoch=state.epoch, parts=parts)
            while rows := await self.index.rows(state.key, after=cached.last_seq, limit=ROWS_PER_PAGE):
                if not comparable:
                    rows = [row._replace(vector=None) for row in rows]
                await asyncio.to_thread(cached.extend, rows)

    def _keep(self, space: SpaceId, index: "SpaceIndex") -> None:
        """Keep a matrix, and let the least recently used go."""
        self._cached[space] = index
        while len(self._cached) > 1 and sum(each.nbytes for each in self._cached.values()) > MAX_CACHED_BYTES:
            self._cached.popitem(last=False)


class _Found(NamedTuple):
    """Scores, and the corpus whose groups they number."""

    corpus: "Corpus"
    scores: "Scores"
    confidence: float
    compared: bool
    """Whether vectors were compared."""


class _Search:
    """One search."""

    def __init__(self, recall: SpaceRecall, space: SpaceId, query: RecallQuery) -> None:
        self._index = recall.index
        self._analysis = recall.analysis
        self._now = recall.clock.now()
        self._space = space
        self._query = query
        self._vector: NDArray[Any] | None = None
        self._notices: list[str] = []

    async def embed_query(self, speakers: Sequence[str]) -> None:
        """Embed the query without the names in it; without an embedder the search is lexical, and says so."""
        from holdfast.memory.ranking import without_names

        embedder = self._analysis.embedder
        if embedder is None or self._query.mode is RecallMode.KEYWORD:
            return
        self._notices += [notice] if (notice := getattr(embedder, "notice", None)) else []
        try:
            (self._vector,) = await embedder.embed([without_names(self._query.text, speakers)])
        except Unavailable as exc:
            self._notices.append(f"the search was lexical: {exc.message}")

    async def rank(self, snapshot: IndexSnapshot, indexed: "SpaceIndex") -> _Found:
        """Score what the index and its tail hold."""
        from holdfast.memory.ranking import Corpus, Ranker

        vector = self._comparable_vector(snapshot)
        passages: list[Passage] = []
        tail = None
        if snapshot.tail:
            passages = await asyncio.to_thread(self._analysis.split, snapshot.tail)
            passages = passages if vector is None else await self._embed_tail(passages)
            tail = await asyncio.to_thread(_tail_index, indexed, passages)
        corpus = Corpus(indexed, tail)
        allowed = await self._allowed(corpus, snapshot.tail)
        ranker = Ranker(corpus, allowed)
        confidence = 0.0
        if self._query.mode is not RecallMode.SEMANTIC:
            confidence = await self._add_lexical(snapshot, corpus, ranker, allowed, passages)
        await asyncio.to_thread(self._add_similarity, ranker, vector, corpus.speakers)
        sources = await self._memory_sources(corpus, ranker)
        scores = await asyncio.to_thread(ranker.scores, self._query, sources=sources)
        return _Found(corpus, scores, confidence, vector is not None)

    def _comparable_vector(self, snapshot: IndexSnapshot) -> "NDArray[Any] | None":
        """Return the vector of the query if the index has vectors of the same embedder."""
        embedder, state = self._analysis.embedder, snapshot.state
        if embedder is None or self._vector is None or state is None or state.embedder == embedder.id:
            return self._vector
        notice = "the index is being rebuilt for another embedder: until then the search compares words"
        if notice not in self._notices:
            self._notices.append(notice)
        return None

    async def _embed_tail(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return the passages of the tail, the newest with vectors."""
        old, new = passages[:-MAX_TAIL_EMBEDDED], passages[-MAX_TAIL_EMBEDDED:]
        try:
            return [*old, *await self._analysis.embed(new)]
        except Unavailable as exc:
            self._notices.append(f"new messages were compared by their words: {exc.message}")
            return list(passages)

    async def _allowed(self, corpus: "Corpus", tail: Sequence[RecallSource]) -> "NDArray[Any]":
        """Return which groups the query may find; not those that the tail replaces or revises."""
        import numpy

        parts = [corpus.indexed] if corpus.tail is None else [corpus.indexed, corpus.tail]
        thread = None if self._query.thread is None else await self._index.thread_key(self._space, self._query.thread)
        allowed = numpy.concatenate([part.allowed(self._query, thread=thread, now=self._now) for part in parts])
        for source in tail:
            outdated: list[tuple[RecallKind, int]] = []
            if source.kind is not RecallKind.MESSAGE:
                outdated.append((source.kind, source.key))
            outdated += [] if self._query.revised else [(RecallKind.MESSAGE, key) for key in source.revises]
            for kind, key in outdated:
                group = corpus.indexed.find(kind, key)
                if group is not None:
                    allowed[group] = False
        return allowed

    async def _add_lexical(
        self,
        snapshot: IndexSnapshot,
        corpus: "Corpus",
        ranker: "Ranker",
        allowed: "NDArray[Any]",
        tail: Sequence[Passage],
    ) -> float:
        """Add BM25 of the index, from the database, and of the tail; return the confidence."""
        import numpy

        from holdfast.memory.ranking import LEXICAL_CANDIDATES, bm25, idf

        state = snapshot.state
        wanted = list(dict.fromkeys(terms(self._query.text)))
        known = {} if state is None else await self._index.term_counts(state.key, wanted)
        extra = Counter(term for passage in tail for term in passage.counts)
        items = len(tail) + (0 if state is None else state.items)
        length = sum(sum(passage.counts.values()) for passage in tail) + (0 if state is None else state.length)
        average = max(length / items, 1e-9) if items else 1.0
        weights = {term: idf(items, extra[term] + known.get(term, (0, 0))[1]) for term in wanted}
        full = sum(weights.values())
        weights = dict(sorted(weights.items(), key=lambda each: -each[1])[:MAX_QUERY_TERMS])
        found: list[tuple[int, float]] = []
        if state is not None:
            keys = [(known[term][0], weight) for term, weight in weights.items() if term in known]
            numbers = corpus.indexed.passage("seq")
            own = allowed[corpus.indexed.passage("group")]
            only = None if own.all() or own.sum() > MAX_LISTED_ITEMS else numbers[own].tolist()
            limit = LEXICAL_CANDIDATES if only is not None or own.all() else LEXICAL_CANDIDATES + int((~own).sum())
            rows = await self._index.lexical(state.key, keys, average=average, limit=limit, only=only)
            places = numpy.searchsorted(numbers, [seq for seq, _ in rows])
            found += [
                (int(at), score)
                for at, (seq, score) in zip(places, rows, strict=True)
                if at < len(numbers) and numbers[at] == seq
            ]
        for at, passage in enumerate(tail, start=corpus.first_tail_passage):
            score = bm25(weights, passage.counts, length=sum(passage.counts.values()), average=average)
            found += [(at, score)] if score > 0 else []
        return ranker.add_lexical(found, full=full)

    def _add_similarity(self, ranker: "Ranker", vector: "NDArray[Any] | None", speakers: Sequence[str]) -> None:
        """Add what vectors and tokens say."""
        from holdfast.memory.ranking import ENCODER_VECTOR_WEIGHT, STATIC_VECTOR_WEIGHT, without_names

        if self._query.mode is RecallMode.KEYWORD:
            return
        if vector is not None:
            static = self._analysis.embedder is self._analysis.tables
            ranker.add_vectors(vector, weight=STATIC_VECTOR_WEIGHT if static else ENCODER_VECTOR_WEIGHT)
        tables = self._analysis.tables
        ranker.add_tokens(tables.tokens(without_names(self._query.text, speakers)), tables)

    async def _memory_sources(self, corpus: "Corpus", ranker: "Ranker") -> dict[int, list[int]]:
        """Return, for each memory found, the groups of the messages that it came from."""
        found = {group: corpus.source(group) for group in ranker.found()}
        memories = {key: group for group, (kind, key) in found.items() if kind is RecallKind.MEMORY}
        if not memories:
            return {}
        sources = await self._index.memory_sources(self._space, list(memories))
        return {
            memories[key]: [at for message in messages if (at := corpus.find(RecallKind.MESSAGE, message)) is not None]
            for key, messages in sources.items()
        }

    async def result(self, found: _Found) -> RecallResult:
        """Return the hits with their texts; what was removed meanwhile is left out."""
        import numpy

        scores, corpus = found.scores, found.corpus
        order = numpy.argsort(-scores.total, kind="stable")[: self._query.limit]
        names = [corpus.source(int(scores.groups[at])) for at in order]
        sources = await self._index.sources(self._space, names)
        hits = [
            self._hit(found, int(at), sources[name]) for at, name in zip(order, names, strict=True) if name in sources
        ]
        embedder = self._analysis.embedder
        return RecallResult(
            hits=hits,
            confidence=round(found.confidence, 6),
            embedder=embedder.id if found.compared and embedder is not None else None,
            notice="; ".join(self._notices) or None,
        )

    def _hit(self, found: _Found, at: int, source: RecallSource) -> RecallHit:
        scores = found.scores
        text = self._analysis.text(source)
        start, chars = found.corpus.span(int(scores.groups[at]), int(scores.passages[at]))
        parts = {name: round(float(getattr(scores, name)[at]), 6) for name in _PARTS}
        return RecallHit(
            kind=source.kind,
            id=source.id,
            thread_id=source.thread_id,
            run_id=source.run_id,
            sequence=source.position if source.kind is RecallKind.MESSAGE else text.count("\n", 0, start) + 1,
            role=source.role,
            speaker=source.speaker,
            text=text[start : start + chars],
            start=start,
            at=instant(source.at),
            score=round(float(scores.total[at]), 6),
            parts=ScoreParts(**parts, cosine=round(float(scores.cosine[at]), 6) if found.compared else None),
            status=source.status,
        )


_PARTS: Final = ("lexical", "vector", "tokens", "neighbours", "speaker", "memory")


def _tail_index(indexed: "SpaceIndex", passages: Sequence[Passage]) -> "SpaceIndex":
    """Return the index of what is not indexed yet; an older version of it in the index is found no more."""
    tail = indexed.empty()
    tail.extend([_to_row(number, passage) for number, passage in enumerate(passages)])
    return tail


def _to_row(number: int, passage: Passage) -> IndexRow:
    source = passage.source
    return IndexRow(
        seq=number,
        kind=source.kind.value,
        source_key=source.key,
        position=source.position,
        thread_key=source.thread_key,
        start=passage.start,
        chars=passage.chars,
        role=None if source.role is None else source.role.value,
        speaker=source.speaker,
        at=source.at,
        status=source.status,
        importance=source.importance,
        expires_at=source.expires_at,
        revises=source.revises,
        length=sum(passage.counts.values()),
        tokens=passage.tokens,
        vector=passage.vector,
    )
