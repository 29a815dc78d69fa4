"""The tail of a space: what was said and is not indexed yet, analysed once and kept until the index has taken it.

Its passages are numbered in the order in which searches read them. One that the index has taken keeps its number and is
left out; when most of them are, the tail begins anew.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy

from holdfast.domain.recall import BM25_B, BM25_K, RecallKind
from holdfast.memory.space_index import SpaceIndex
from holdfast.ports.recall import IndexRow, Passage, RecallSource, TailName, TailSpan

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_EMBEDDED: Final = 256
"""Passages that a search embeds; older ones are compared by their words."""
MIN_LEFT_OUT: Final = 256
"""Passages that the index has taken before the tail begins anew."""


class _Source(NamedTuple):
    """A source in the tail: its group, its first passage, and the terms of all its passages."""

    name: TailName
    key: int
    position: int
    group: int
    passage: int
    counts: list[Mapping[str, int]]
    outdated: list[TailName]
    """What is indexed and replaced by this source."""
    revised: list[int]


class UnindexedTail:
    """What an index lacks, in the form of an index."""

    def __init__(self, indexed: SpaceIndex) -> None:
        """Begin the tail of an index."""
        self.index = indexed.empty()
        self.known: Mapping[TailName, TailSpan] = {}
        """What has been read."""
        self.passages = 0
        """Passages that count."""
        self.length = 0
        """Terms of all passages that count."""
        self.counts: Counter[str] = Counter()
        """Number of passages that hold each term."""
        self.unembedded: list[tuple[int, Passage]] = []
        """Passages without a vector, with their numbers."""
        self._sources: dict[tuple[RecallKind, int], _Source] = {}
        self._replacing: dict[tuple[RecallKind, int], _Source] = {}
        """The sources that replace or revise what is indexed."""
        self._by_name: dict[TailName, list[_Source]] = {}
        self._postings: dict[str, dict[int, int]] = {}
        self._lengths: list[int] = []
        self._groups = 0
        self._left_out = 0

    def update(self, pending: Mapping[TailName, TailSpan], passages: Sequence[Passage]) -> None:
        """Leave out what the index has taken, and add passages."""
        for name in list(self._by_name):
            low, high = pending.get(name, (0, -1))
            if (low, high) != self.known.get(name):
                self._leave_out(name, low, high)
        self.known = dict(pending)
        rows: list[IndexRow] = []
        self.index.end_group()
        self._groups = self.index.groups
        for group in _by_source(passages):
            source = group[0].source
            if (source.kind, source.key) not in self._sources:
                self._add(source, group, rows)
        self.index.extend(rows)

    @property
    def worn(self) -> bool:
        """Whether most of it has been taken by the index, so that it should begin anew."""
        return self._left_out > max(MIN_LEFT_OUT, self.passages)

    def outdated(self, *, revised: bool) -> Iterator[TailName]:
        """Yield what the tail replaces in the index; with `revised` not the messages that it revises."""
        for source in self._replacing.values():
            yield from source.outdated
            if not revised:
                yield from ((RecallKind.MESSAGE, key) for key in source.revised)

    def allowed(self, found: "NDArray[Any]") -> "NDArray[Any]":
        """Return `found`, which says for each group whether it may be found, without those that the index has taken."""
        if self._left_out:
            live = numpy.zeros(len(found), dtype=bool)
            live[[source.group for source in self._sources.values()]] = True
            found &= live
        return found

    def bm25(self, weights: Mapping[str, float], *, average: float) -> list[tuple[int, float]]:
        """Return the passages that hold one of the terms, with their scores."""
        scores: dict[int, float] = {}
        lengths, fixed, per_term = self._lengths, BM25_K * (1 - BM25_B), BM25_K * BM25_B / average
        for term, weight in weights.items():
            highest = weight * (1 + BM25_K)
            for passage, count in self._postings.get(term, {}).items():
                share = highest * count / (count + fixed + per_term * lengths[passage])
                scores[passage] = scores.get(passage, 0.0) + share
        return sorted(scores.items())

    def add_vectors(self, vectors: Sequence[bytes | None]) -> None:
        """Add the vectors of the passages that had none."""
        self.index.add_vectors([number for number, _ in self.unembedded], vectors)
        self.unembedded.clear()

    def _add(self, source: RecallSource, passages: Sequence[Passage], rows: list[IndexRow]) -> None:
        message = source.kind is RecallKind.MESSAGE
        name = (source.kind, source.thread_key if message and source.thread_key is not None else source.key)
        first = len(self._lengths)
        added = _Source(
            name=name,
            key=source.key,
            position=source.position,
            group=self._groups,
            passage=first,
            counts=[passage.counts for passage in passages],
            outdated=[] if message else [name],
            revised=list(source.revises),
        )
        self._groups += 1
        self._sources[source.kind, source.key] = added
        if added.outdated or added.revised:
            self._replacing[source.kind, source.key] = added
        self._by_name.setdefault(name, []).append(added)
        for number, passage in enumerate(passages, start=first):
            rows.append(_to_row(number, passage))
            length = sum(passage.counts.values())
            self._lengths.append(length)
            self.length += length
            self.counts.update(passage.counts.keys())
            for term, count in passage.counts.items():
                self._postings.setdefault(term, {})[number] = count
            if passage.vector is None:
                self.unembedded.append((number, passage))
        self.passages += len(passages)
        del self.unembedded[:-MAX_EMBEDDED]

    def _leave_out(self, name: TailName, low: int, high: int) -> None:
        """Leave out the sources of a thread, memory or document that are not in its span any more."""
        kept = []
        for source in self._by_name.pop(name):
            if low < source.position <= high:
                kept.append(source)
                continue
            del self._sources[source.name[0], source.key]
            self._replacing.pop((source.name[0], source.key), None)
            for number, counts in enumerate(source.counts, start=source.passage):
                self.index.discount_tokens(number)
                self.counts.subtract(counts.keys())
                self.length -= self._lengths[number]
                for term in counts:
                    del self._postings[term][number]
            self.passages -= len(source.counts)
            self._left_out += len(source.counts)
        if kept:
            self._by_name[name] = kept
        if name[0] is RecallKind.MESSAGE:
            self.index.cut_thread(name[1], before=kept[0].group if kept else None)


def _by_source(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    """Yield the passages of each source, which follow one another."""
    group: list[Passage] = []
    for passage in passages:
        if group and passage.source is not group[0].source:
            yield group
            group = []
        group.append(passage)
    if group:
        yield group


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
