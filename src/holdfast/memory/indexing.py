"""Indexing: sources become passages with terms, tokens and a vector, and the index takes them in small batches."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from holdfast.domain.errors import NotFound, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.message import Role
from holdfast.domain.recall import RecallKind
from holdfast.memory.analyser import ANALYSER_ID, drop_words, terms
from holdfast.memory.passages import ends_only, split
from holdfast.memory.static_vectors import StaticVectors
from holdfast.ports.memory import Embedder
from holdfast.ports.recall import CursorMove, IndexState, Passage, RecallIndex, RecallSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_POSTPONED_MESSAGES: Final = 2_000
"""Messages of a space that may wait while the process is busy: half of what a search reads without the index."""
SOURCES_PER_BATCH: Final = 16
"""Sources of one transaction: few, so that no run waits for it."""
MAX_SOURCES_PER_BATCH: Final = 64
"""Sources of a transaction while many wait: searches read them from the log meanwhile, which costs more."""
REST_FACTOR: Final = 4
"""How much longer than a batch took the indexer rests after it, so that runs keep most of the processor; while many
sources wait it rests only as long as the batch took."""
MAX_REST_SECONDS: Final = 0.5
DROPPED_PER_BATCH: Final = 200
NO_EMBEDDER: Final = "off"
MAX_INLINE_CHARS: Final = 10_000
"""Characters up to which texts are redacted on the event loop: that takes less than a few thread switches."""

_FROM_THE_START: Final[Mapping[RecallKind, int]] = {}

_log = logging.getLogger("holdfast.memory")

Redact = Callable[[str], str]


class Analysis:
    """Turns sources into passages. What it makes of a text depends on its `id` and on the embedder."""

    def __init__(self, embedder: Embedder | None, tables: StaticVectors, redact: Redact) -> None:
        self.embedder = embedder
        self.tables = tables
        self._redact = redact
        self._tail: dict[_SourceName, list[Passage]] = {}
        """What searches have analysed and no index has taken yet."""

    @property
    def id(self) -> str:
        """Name of the terms and tokens: an index of others is rebuilt."""
        return f"{ANALYSER_ID}+{self.tables.vocabulary}"

    def made(self, state: IndexState) -> bool:
        """Whether an index was made by this analysis and embedder."""
        return (state.analyser, state.embedder) == (self.id, None if self.embedder is None else self.embedder.id)

    def text(self, source: RecallSource) -> str:
        """Return the text of a source as it is indexed."""
        return self._redact(source.text)

    def drop_words(self) -> None:
        """Drop the words that are kept in memory, with what was made of them."""
        drop_words()
        self.tables.drop_words()

    def split(self, sources: Sequence[RecallSource]) -> list[Passage]:
        """Return the passages of sources; with vectors if these are made of the tokens, which costs little."""
        import numpy

        pieces: list[tuple[RecallSource, int, int, int, str]] = []
        for source in sources:
            text = self.text(source)
            spans = split(text)
            if source.role is Role.TOOL:
                spans = ends_only(spans, text)
            pieces += [(source, number, start, end, text[start:end]) for number, (start, end) in enumerate(spans)]
        tokens = [self.tables.tokens(text) for *_, text in pieces]
        return [
            Passage(
                source=source,
                number=number,
                start=start,
                chars=end - start,
                counts=Counter(terms(_named(source, text))),
                tokens=numpy.unique(own).tobytes(),
                vector=vector,
            )
            for (source, number, start, end, text), own, vector in zip(
                pieces, tokens, self._static_vectors(tokens), strict=True
            )
        ]

    def split_tail(self, sources: Sequence[RecallSource]) -> list[Passage]:
        """Return the passages of sources that are not indexed yet, and keep them for the indexer."""
        passages = self.split(sources)
        if len(self._tail) < MAX_POSTPONED_MESSAGES:
            self._tail |= _by_source(passages)
        return passages

    def take(self, sources: Sequence[RecallSource]) -> list[Passage]:
        """Return the passages of sources; a search may have analysed them already."""
        found: dict[_SourceName, list[Passage]] = {}
        missing: list[RecallSource] = []
        for source in sources:
            kept = self._tail.pop(_source_name(source), None)
            if kept is not None and kept[0].source == source:  # forgetting may have changed its text
                found[_source_name(source)] = kept
            else:
                missing.append(source)
        found |= _by_source(self.split(missing))
        return [passage for source in sources for passage in found.get(_source_name(source), ())]

    def tail_names(self) -> "list[_SourceName]":
        """Return the names of the sources whose passages are kept."""
        return list(self._tail)

    def drop_tail(self, names: "Sequence[_SourceName]") -> None:
        """Drop what was kept and not taken."""
        for name in names:
            self._tail.pop(name, None)

    def _static_vectors(self, tokens: "Sequence[NDArray[Any]]") -> Sequence[bytes | None]:
        """Return the vectors of texts, if the embedder makes them of their tokens."""
        from holdfast.memory.space_index import pack_vectors

        if self.embedder is not self.tables or not tokens:
            return [None] * len(tokens)
        return pack_vectors(self.tables.vectors(tokens), self.tables.parts)

    def _texts(self, passages: Sequence[Passage]) -> list[str]:
        """Return the texts of passages; a source is redacted once, since it may have thousands of them."""
        whole = {id(each.source): each.source for each in passages}
        texts = {name: self.text(source) for name, source in whole.items()}
        return [texts[id(each.source)][each.start : each.start + each.chars] for each in passages]

    async def embed(self, passages: Sequence[Passage]) -> list[Passage]:
        """Return passages with their vectors; raises `Unavailable` if the embedder is away."""
        from holdfast.memory.space_index import pack_vectors

        if self.embedder is None or all(each.vector is not None for each in passages):
            return list(passages)
        few = sum(len(each.source.text) for each in passages) <= MAX_INLINE_CHARS
        texts = self._texts(passages) if few else await asyncio.to_thread(self._texts, passages)
        vectors = pack_vectors(await self.embedder.embed(texts), self.embedder.parts)
        return [replace(each, vector=vector) for each, vector in zip(passages, vectors, strict=True)]


_SourceName: TypeAlias = tuple[RecallKind, int, int]
"""Kind, key and version of a source."""


def _source_name(source: RecallSource) -> _SourceName:
    return source.kind, source.key, source.position


def _by_source(passages: Sequence[Passage]) -> dict[_SourceName, list[Passage]]:
    found: dict[_SourceName, list[Passage]] = {}
    for passage in passages:
        found.setdefault(_source_name(passage.source), []).append(passage)
    return found


def _named(source: RecallSource, text: str) -> str:
    """Return a text with the name of who said it, by which a message is found too."""
    named = source.kind is RecallKind.MESSAGE and source.speaker is not None
    return f"{source.speaker} {text}" if named else text


class _EmbedderAway(Exception):
    """The embedder cannot be reached."""


class Indexer:
    """Keeps the indexes of all spaces current."""

    def __init__(self, index: RecallIndex, analysis: Analysis) -> None:
        self._index = index
        self.analysis = analysis
        self._embedder_away = False
        self._limit = SOURCES_PER_BATCH

    async def run_once(self, *, may_index: Callable[[SpaceId], bool] = lambda _: True) -> None:
        """Index everything that is pending in the spaces for which `may_index` holds, resting between batches."""
        analysed = self.analysis.tail_names()
        for space in await self._index.spaces():
            try:
                await self.index_space(space, rest=True, may_index=may_index)
            except (NotFound, _EmbedderAway):  # the space was deleted meanwhile, or waits for the embedder
                continue
        self.analysis.drop_tail(analysed)
        while await self._index.drop_replaced(limit=DROPPED_PER_BATCH):
            pass

    async def index_space(
        self, space: SpaceId, *, rest: bool = False, may_index: Callable[[SpaceId], bool] = lambda _: True
    ) -> None:
        """Index what is pending in a space, and finish its rebuild, for as long as `may_index` holds.

        Otherwise up to `MAX_POSTPONED_MESSAGES` stay pending.
        """
        if await self._may_wait(space, may_index):
            return
        embedder = self.analysis.embedder
        state = await self._index.prepare(
            space, analyser=self.analysis.id, embedder=None if embedder is None else embedder.id
        )
        while await self._index_batch(space, vectors=self.analysis.made(state), rest=rest):
            if await self._may_wait(space, may_index):
                return
        if not state.caught_up:
            await self._index.mark_caught_up(state.key)
        if state.building:
            while True:
                first: dict[RecallKind, int] = {}
                while moves := await self._index_batch(space, building=True, first=first, vectors=True, rest=rest):
                    first |= {move.kind: move.key for move in moves}
                if await self._index.activate(space):
                    _log.info("the recall index of space %s was rebuilt", space)
                    return
                if not await self._index_batch(space, vectors=False, rest=rest):
                    return

    async def _may_wait(self, space: SpaceId, may_index: Callable[[SpaceId], bool]) -> bool:
        return not may_index(space) and await self._index.behind(space) <= MAX_POSTPONED_MESSAGES

    async def _index_batch(
        self,
        space: SpaceId,
        *,
        vectors: bool,
        building: bool = False,
        first: Mapping[RecallKind, int] = _FROM_THE_START,
        rest: bool,
    ) -> Sequence[CursorMove]:
        """Index the next sources; return how their cursors moved."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        batch = await self._index.pending(space, limit=self._limit, building=building, first=first)
        if batch is None:
            return ()
        behind = len(batch.sources) >= self._limit
        self._limit = min(2 * self._limit, MAX_SOURCES_PER_BATCH) if behind else SOURCES_PER_BATCH
        passages = await asyncio.to_thread(self.analysis.take, batch.sources)
        if vectors:
            passages = await self._embed(passages)
        else:
            passages = [replace(each, vector=None) for each in passages]
        await self._index.add(space, batch, passages)
        if rest:
            await asyncio.sleep(min((1 if behind else REST_FACTOR) * (loop.time() - began), MAX_REST_SECONDS))
        return batch.moves

    async def _embed(self, passages: list[Passage]) -> list[Passage]:
        """Return passages with vectors. While the embedder is away nothing is indexed: recall reads the tail."""
        try:
            passages = await self.analysis.embed(passages)
        except Unavailable as exc:
            if not self._embedder_away:
                _log.warning("the embedder is away, indexing waits for it: %s", exc)
            self._embedder_away = True
            raise _EmbedderAway from exc
        self._embedder_away = False
        return passages
