"""Ranking of the passages of a space."""

import numpy
import pytest

from holdfast.domain.recall import RecallKind, RecallQuery
from holdfast.memory.ranking import Corpus, Ranker
from holdfast.memory.space_index import SpaceIndex, pack_vectors, quantisation, unpack_vectors
from holdfast.ports.recall import IndexRow

PARTS = (2,)


def row(seq: int, kind: RecallKind, *vector: float, thread: int | None = 1) -> IndexRow:
    return IndexRow(
        seq=seq,
        kind=kind.value,
        source_key=10 * seq,
        position=1,
        thread_key=thread,
        start=0,
        chars=1,
        role=None,
        speaker=f"speaker {seq}",
        at=0,
        status=None,
        importance=None,
        expires_at=None,
        revises=(),
        length=1,
        tokens=b"",
        vector=pack_vectors(numpy.array([vector]), PARTS)[0],
    )


def ranker_of(*rows: IndexRow) -> tuple[Corpus, Ranker]:
    index = SpaceIndex(key=1, epoch=0, parts=PARTS)
    index.extend(rows)
    corpus = Corpus(index, None, items=index.passages)
    return corpus, Ranker(corpus, numpy.ones(index.groups, dtype=bool))


def test_a_memory_that_scores_zero_gives_nothing_to_its_sources() -> None:
    message, memory = row(1, RecallKind.MESSAGE, 0.9, 0.1), row(2, RecallKind.MEMORY, 0.2, 0.9, thread=None)
    corpus, ranker = ranker_of(message, memory)
    ranker.add_vectors(numpy.array([1.0, 0.0]), weight=0.5)  # of the cosines found the least is scaled to zero
    assert ranker.memories() == {}
    scores = ranker.scores(RecallQuery(text="x"), sources={group: [0] for group in ranker.memories().values()})
    assert [corpus.source(int(group)) for group in scores.groups] == [(RecallKind.MESSAGE, 10)]
    assert scores.total.tolist() == [0.5]


@pytest.mark.parametrize("parts", [(256, 128), (384,), (7,)])
def test_a_vector_is_stored_in_six_bits_a_dimension(parts: tuple[int, ...]) -> None:
    dims = sum(parts)
    vectors = numpy.random.default_rng(1).standard_normal((6, dims))
    vectors[:2, : dims // 2], vectors[2:4, dims // 2 :] = 0, 0
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    packed = pack_vectors(vectors, parts)
    assert max(map(len, packed)) <= 2 + (dims + 3) // 4 * 3
    assert max(map(len, packed[:4])) <= 2 + (dims // 2 + 7) // 4 * 3
    stored = unpack_vectors(packed, dims) / quantisation(parts)
    cosines = (stored * vectors).sum(axis=1) / numpy.linalg.norm(stored, axis=1)
    assert cosines.min() > 0.99
