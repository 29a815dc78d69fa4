"""Recall: searches the messages, memories and documents of a space.

    query ──► terms ──► BM25 in the database ─┐
          └─► vector ─► matrix in memory ─────┼─► ranking ──► hits with the parts of their scores
    tail that is not indexed yet ─────────────┘

The matrix of a space is loaded on its first search and kept current with what the index adds. A removal changes the
epoch of the index, so that no search uses a matrix from before it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from holdfast.domain.errors import StoreReadOnly, Unavailable
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
from holdfast.ports.recall import IndexReplaced, IndexRow, IndexSnapshot, IndexState, Passage, RecallIndex, RecallSource
from holdfast.ports.runtime import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holdfast.memory.ranking import Corpus, Ranker, Scores
    from holdfast.memory.space_index import SpaceIndex
    from holdfast.memory.tail import UnindexedTail

T = TypeVar("T")

MAX_TAIL_MESSAGES: Final = 4_000
"""Messages behind the cursor that a search reads; beyond that the index has to catch up first."""
SEARCHED_LATELY_SECONDS: Final = 600.0
MAX_INLINE_PASSAGES: Final = 20_000
"""Passages up to which a search ranks on the event loop: that takes less than a few thread switches."""
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
        self._cached: OrderedDict[SpaceId, _CachedSpace] = OrderedDict()
        self._locks: dict[SpaceId, asyncio.Lock] = {}
        self._searched_at: dict[SpaceId, float] = {}
        self._parts: tuple[int, ...] | None = None

    async def search(self, space: SpaceId, query: RecallQuery) -> RecallResult:
        """Return the best hits."""
        check_recall_query(query)
        self._searched_at[space] = asyncio.get_running_loop().time()
        lock = self._locks.setdefault(space, asyncio.Lock())
        search = _Search(self, space, query)
        if space not in self._cached:
            async with lock:
                await self._load(space)
        await search.embed_query({} if space not in self._cached else self._cached[space].indexed.names)
        while True:
            try:
                async with lock:  # a matrix must not grow while it is ranked
                    found = await search.rank(*await self._load(space, terms=search.terms))
                return await search.result(found)
            except IndexReplaced:  # a rebuilt index was swapped in meanwhile
                continue

    def searched_lately(self, space: SpaceId) -> bool:
        """Whether the space was searched within the last `SEARCHED_LATELY_SECONDS`."""
        at = self._searched_at.get(space)
        return at is not None and asyncio.get_running_loop().time() - at < SEARCHED_LATELY_SECONDS

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
        self._searched_at[space] = asyncio.get_running_loop().time()  # the indexer does not wait for a quiet time
        await self._prepare(space)
        await self.index.rebuild(space)

    async def put_file(self, space: SpaceId, path: str, text: str, *, at: Millis) -> None:
        """Let a memory file be found."""
        await self.index.put_document(space, path, text, at=at)

    async def drop_file(self, space: SpaceId, path: str) -> None:
        """Let a memory file be found no more."""
        await self.index.drop_document(space, path)

    async def files(self, space: SpaceId) -> list[str]:
        """Return the paths of the memory files that are found."""
        return await self.index.documents(space)

    async def evict_stale(self) -> None:
        """Drop the matrices whose index has lost items since, so that nothing forgotten stays in memory."""
        held = dict(self._cached)
        epochs = await self.index.epochs([cached.indexed.key for cached in held.values()])
        for space, cached in held.items():
            if epochs.get(cached.indexed.key) != cached.indexed.epoch and self._cached.get(space) is cached:
                del self._cached[space]

    async def _prepare(self, space: SpaceId) -> None:
        """Begin the index of a space; from then on it is kept current."""
        embedder = self.analysis.embedder
        await self.index.prepare(space, analyser=self.analysis.id, embedder=None if embedder is None else embedder.id)

    async def _load(
        self, space: SpaceId, *, terms: Sequence[str] = ()
    ) -> "tuple[IndexSnapshot, SpaceIndex, UnindexedTail]":
        """Return the current state of an index with the counts of `terms`, its matrix, and its tail."""
        embedder = self.analysis.embedder
        if self._parts is None:
            await self.analysis.tables.embed([])  # reads the tables in a thread: with any embedder tokens are compared
            self._parts = (1,) if embedder is None else await asyncio.to_thread(lambda: embedder.parts)
        from holdfast.memory.space_index import SpaceIndex
        from holdfast.memory.tail import UnindexedTail

        cached = self._cached.pop(space, None)
        while True:
            key, epoch = (None, -1) if cached is None else (cached.indexed.key, cached.indexed.epoch)
            snapshot = await self.index.snapshot(
                space,
                after=0 if cached is None else cached.indexed.last_seq,
                index=key,
                epoch=epoch,
                tail=MAX_TAIL_MESSAGES,
                known={} if cached is None else cached.tail.known,
                terms=terms,
            )
            state = snapshot.state
            if state is None and await self._began(space):
                continue
            if state is None or (cached is not None and (state.key, state.epoch) == (key, epoch)):
                if cached is None:
                    index = SpaceIndex(key=0, epoch=0, parts=self._parts)
                    cached = _CachedSpace(index, UnindexedTail(index))
                await self._extend(cached, snapshot)
                if state is not None:
                    self._keep(space, cached)
                return snapshot, *cached
            index = SpaceIndex(key=state.key, epoch=state.epoch, parts=self._parts)
            while rows := await self.index.rows(state.key, after=index.last_seq, limit=ROWS_PER_PAGE):
                await asyncio.to_thread(index.extend, self._comparable_rows(state, rows))
            cached = _CachedSpace(index, UnindexedTail(index))

    def _comparable_rows(self, state: IndexState, rows: Sequence[IndexRow]) -> Sequence[IndexRow]:
        """Return rows without their vectors if these were made otherwise than ours."""
        return rows if self.analysis.made(state) else [row._replace(vector=None) for row in rows]

    async def _began(self, space: SpaceId) -> bool:
        """Begin the index of a space that has none; return false if nothing can be written."""
        try:
            await self._prepare(space)
        except StoreReadOnly:
            return False
        return True

    async def _extend(self, cached: "_CachedSpace", snapshot: IndexSnapshot) -> None:
        """Add what is new in the index and in its tail, and leave out of the tail what the index has taken."""
        rows = snapshot.rows if snapshot.state is None else self._comparable_rows(snapshot.state, snapshot.rows)
        await _run(lambda: cached.indexed.extend(rows), size=20 * len(rows))
        passages: list[Passage] = []
        if snapshot.tail:
            chars = sum(len(source.text) for source in snapshot.tail)
            passages = await _run(lambda: self.analysis.split_tail(snapshot.tail), size=chars)
        await _run(lambda: cached.tail.update(snapshot.pending, passages), size=50 * len(passages))

    def _keep(self, space: SpaceId, cached: "_CachedSpace") -> None:
        """Keep a matrix, and let the least recently used go."""
        from holdfast.memory.tail import UnindexedTail

        if cached.tail.worn:
            cached = _CachedSpace(cached.indexed, UnindexedTail(cached.indexed))
        self._cached[space] = cached
        while len(self._cached) > 1 and sum(each.indexed.nbytes for each in self._cached.values()) > MAX_CACHED_BYTES:
            self._cached.popitem(last=False)


class _CachedSpace(NamedTuple):
    """The index of a space in memory, and what it lacks."""

    indexed: "SpaceIndex"
    tail: "UnindexedTail"


async def _run(work: Callable[[], T], *, size: int) -> T:
    """Do small work on the event loop, and large work in a thread; `size` is that of a search of so many passages."""
    return work() if size <= MAX_INLINE_PASSAGES else await asyncio.to_thread(work)


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
        self.terms = list(dict.fromkeys(terms(query.text)))
        self._vector: NDArray[Any] | None = None
        self._notices: list[str] = []

    async def embed_query(self, names: Container[str]) -> None:
        """Embed the query without the names in it; without an embedder the search is lexical, and says so."""
        from holdfast.memory.ranking import without_names

        embedder = self._analysis.embedder
        if embedder is None or self._query.mode is RecallMode.KEYWORD:
            return
        self._notices += [notice] if (notice := getattr(embedder, "notice", None)) else []
        try:
            (self._vector,) = await embedder.embed([without_names(self._query.text, names)])
        except Unavailable as exc:
            self._notices.append(f"the search was lexical: {exc.message}")

    async def rank(self, snapshot: IndexSnapshot, indexed: "SpaceIndex", tail: "UnindexedTail") -> _Found:
        """Score what the index and its tail hold."""
        from holdfast.memory.ranking import Corpus, Ranker

        if snapshot.behind > MAX_TAIL_MESSAGES:
            self._notices.append(f"{snapshot.behind - MAX_TAIL_MESSAGES} older messages are not indexed yet")
        vector = self._comparable_vector(snapshot)
        if vector is not None and tail.unembedded:
            await self._embed_tail(tail)
        size = indexed.passages + tail.index.passages
        corpus = Corpus(indexed, tail.index if tail.passages else None, items=indexed.passages + tail.passages)
        allowed = await self._allowed(corpus, tail)
        ranker = Ranker(corpus, allowed)
        confidence = 0.0
        if self._query.mode is not RecallMode.SEMANTIC:
            confidence = await self._add_lexical(snapshot, corpus, ranker, allowed, tail)
        await _run(lambda: self._add_similarity(ranker, vector, corpus.names), size=size)
        sources = await self._memory_sources(corpus, ranker)
        return _Found(corpus, ranker.scores(self._query, sources=sources), confidence, vector is not None)

    def _comparable_vector(self, snapshot: IndexSnapshot) -> "NDArray[Any] | None":
        """Return the vector of the query if the index has vectors of the same embedder."""
        embedder, state = self._analysis.embedder, snapshot.state
        if embedder is None or self._vector is None or state is None or self._analysis.made(state):
            return self._vector
        notice = "the index is being rebuilt for other vectors: until then the search compares words"
        if notice not in self._notices:
            self._notices.append(notice)
        return None

    async def _embed_tail(self, tail: "UnindexedTail") -> None:
        """Add the vectors of the newest passages of the tail."""
        try:
            embedded = await self._analysis.embed([passage for _, passage in tail.unembedded])
        except Unavailable as exc:
            self._notices.append(f"new messages were compared by their words: {exc.message}")
        else:
            tail.add_vectors([passage.vector for passage in embedded])

    async def _allowed(self, corpus: "Corpus", tail: "UnindexedTail") -> "NDArray[Any]":
        """Return which groups the query may find; not those that the tail replaces or revises."""
        import numpy

        thread = None if self._query.thread is None else await self._index.thread_key(self._space, self._query.thread)
        allowed = corpus.indexed.allowed(self._query, thread=thread, now=self._now)
        if corpus.tail is None:
            return allowed
        for kind, key in tail.outdated(revised=self._query.revised):
            group = corpus.indexed.find(kind, key)
            if group is not None:
                allowed[group] = False
        return numpy.concatenate(
            [allowed, tail.allowed(corpus.tail.allowed(self._query, thread=thread, now=self._now))]
        )

    async def _add_lexical(
        self,
        snapshot: IndexSnapshot,
        corpus: "Corpus",
        ranker: "Ranker",
        allowed: "NDArray[Any]",
        tail: "UnindexedTail",
    ) -> float:
        """Add BM25 of the index, from the database, and of the tail; return the confidence."""
        import numpy

        from holdfast.memory.ranking import LEXICAL_CANDIDATES, idf

        state = snapshot.state
        # From the snapshot: counted later, what the indexer took from the tail meanwhile would count twice.
        known = snapshot.terms
        items = tail.passages + (0 if state is None else state.items)
        length = tail.length + (0 if state is None else state.length)
        average = max(length / items, 1e-9) if items else 1.0
        weights = {term: idf(items, tail.counts[term] + known.get(term, (0, 0))[1]) for term in self.terms}
        full = sum(weights.values())
        weights = dict(sorted(weights.items(), key=lambda each: -each[1])[:MAX_QUERY_TERMS])
        found = [(corpus.first_tail_passage + at, score) for at, score in tail.bm25(weights, average=average)]
        passages, scores = numpy.array([at for at, _ in found], dtype=int), numpy.array([score for _, score in found])
        if state is not None:
            keys = [(*known[term], weight) for term, weight in weights.items() if term in known]
            numbers = corpus.indexed.passage("seq")
            groups = corpus.indexed.groups
            only, limit = None, LEXICAL_CANDIDATES
            if not allowed[:groups].all():
                own = allowed[corpus.indexed.passage("group")]
                listed = int(own.sum()) <= MAX_LISTED_ITEMS
                only, limit = (numbers[own].tolist(), limit) if listed else (None, limit + int((~own).sum()))
            rows = await self._index.lexical(state.key, keys, average=average, limit=limit, only=only)
            seqs = numpy.array([seq for seq, _ in rows], dtype=numpy.int64)
            places = numpy.minimum(numpy.searchsorted(numbers, seqs), max(len(numbers) - 1, 0))
            here = numbers[places] == seqs if len(numbers) else numpy.zeros(len(rows), dtype=bool)
            passages = numpy.concatenate([places[here], passages])
            scores = numpy.concatenate([numpy.array([score for _, score in rows])[here], scores])
        return ranker.add_lexical(passages, scores, full=full)

    def _add_similarity(self, ranker: "Ranker", vector: "NDArray[Any] | None", names: Container[str]) -> None:
        """Add what vectors and tokens say."""
        from holdfast.memory.ranking import ENCODER_VECTOR_WEIGHT, STATIC_VECTOR_WEIGHT, without_names

        if self._query.mode is RecallMode.KEYWORD:
            return
        if vector is not None:
            static = self._analysis.embedder is self._analysis.tables
            ranker.add_vectors(vector, weight=STATIC_VECTOR_WEIGHT if static else ENCODER_VECTOR_WEIGHT)
        tables = self._analysis.tables
        ranker.add_tokens(tables.tokens(without_names(self._query.text, names)), tables)

    async def _memory_sources(self, corpus: "Corpus", ranker: "Ranker") -> dict[int, list[int]]:
        """Return, for each memory found, the groups of the messages that it came from."""
        memories = ranker.memories()
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
        parts = zip(*(getattr(scores, name)[order].round(6).tolist() for name in _PARTS), strict=True)
        places = [
            (int(at), sources[name], own) for at, name, own in zip(order, names, parts, strict=True) if name in sources
        ]
        chars = sum(len(source.text) for _, source, _ in places)
        hits = await _run(lambda: [self._hit(found, *place) for place in places], size=chars)
        embedder = self._analysis.embedder
        return RecallResult(
            hits=hits,
            confidence=round(found.confidence, 6),
            embedder=embedder.id if found.compared and embedder is not None else None,
            notice="; ".join(self._notices) or None,
        )

    def _hit(self, found: _Found, at: int, source: RecallSource, own: tuple[float, ...]) -> RecallHit:
        scores = found.scores
        text = self._analysis.text(source)
        start, chars = found.corpus.span(int(scores.groups[at]), int(scores.passages[at]))
        total, cosine, *parts = own
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
            score=total,
            parts=ScoreParts(**dict(zip(_PARTS[2:], parts, strict=True)), cosine=cosine if found.compared else None),
            status=source.status,
            taint=source.taint,
            superseded_by=source.superseded_by,
        )


_PARTS: Final = ("total", "cosine", "lexical", "vector", "tokens", "neighbours", "speaker", "memory")
