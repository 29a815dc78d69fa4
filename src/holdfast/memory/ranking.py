"""Ranking: how the channels of recall become one score.

    score of a passage = c·B + 0.5·V + 0.4·M     then, for its message: neighbours, who said it, and memories of it

- B is BM25, relative to the best of the query. `c` says how sure it is: 1.5 times the share of the query's weight that
  the best passage covers, at most 1. With little overlap, BM25 must not outvote the vectors.
- V is the cosine, scaled from 0 to 1 over the best 200.
- M (MaxSim), for the best 100: each query token's best cosine with a token of the passage, weighted by its rarity.
- A message gets a share of the scores of its neighbours in a conversation, since an answer follows its question.

The weights were measured; `make bench recall` prints what they find.
"""

import math
import re
from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy

from holdfast.domain.message import Role
from holdfast.domain.recall import RecallKind, RecallMode, RecallQuery
from holdfast.memory.analyser import WORDS, fold
from holdfast.memory.space_index import NONE, SpaceIndex
from holdfast.memory.static_vectors import StaticVectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE_FACTOR: Final = 1.5
STATIC_VECTOR_WEIGHT: Final = 0.5
ENCODER_VECTOR_WEIGHT: Final = 1.0
TOKEN_WEIGHT: Final = 0.4
TOKEN_COSINE_FLOOR: Final = 0.3
VECTOR_CANDIDATES: Final = 200
LEXICAL_CANDIDATES: Final = 200
TOKEN_CANDIDATES: Final = 100
NEIGHBOUR_SHARES: Final = (0.3, 0.15)
"""Shares of the scores of the messages one and two away."""
SPEAKER_BONUS: Final = 0.5
SOURCE_SHARE: Final = 0.5
"""Share of a memory's score that the messages get which it came from."""
IMPORTANCE_WEIGHT: Final = 0.1

_SELF: Final = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
_SELF_UNSPACED: Final = re.compile("私|わたし|僕|ぼく|俺|おれ|自分|うち")
_ASSISTANT: Final = frozenset(["you", "your", "yours", "yourself"])
_ASSISTANT_UNSPACED: Final = re.compile("あなた|きみ|君")


def idf(items: int, holding: int) -> float:
    """Return the weight of a term that `holding` of all items hold."""
    return math.log(1 + (items - holding + 0.5) / (holding + 0.5))


def without_names(query: str, names: Container[str]) -> str:
    """Return a query without the names of speakers: they would draw its vector to whatever mentions them."""
    kept = [
        word
        for word in query.split()
        if not any(part in names for part in WORDS.findall(fold(word).removesuffix("'s")))
    ]
    return " ".join(kept) or query


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of the groups that were found, by part; each is an array over `groups`."""

    groups: "NDArray[Any]"
    passages: "NDArray[Any]"
    """The best passage of each group, or -1 for one that only its neighbours made a hit."""
    total: "NDArray[Any]"
    lexical: "NDArray[Any]"
    vector: "NDArray[Any]"
    tokens: "NDArray[Any]"
    neighbours: "NDArray[Any]"
    speaker: "NDArray[Any]"
    memory: "NDArray[Any]"
    cosine: "NDArray[Any]"


class Corpus:
    """The index of a space and its tail, as one: the numbers of the tail follow those of the index.

    It copies no column of the index, so that a search touches only what it found.
    """

    def __init__(self, indexed: SpaceIndex, tail: SpaceIndex | None, *, items: int) -> None:
        """Join an index with its tail; `items` of their passages count."""
        self.items = items
        self._parts = [indexed] if tail is None else [indexed, tail]
        self.indexed = indexed
        self.tail = tail
        self.first_tail_passage = indexed.passages
        self.first_tail_group = indexed.groups
        self.passages = sum(part.passages for part in self._parts)
        self.groups = sum(part.groups for part in self._parts)
        self.names = ChainMap(*(part.names for part in self._parts))
        """Words by which a query may name a speaker."""

    def group(self, name: str, groups: "NDArray[Any]") -> "NDArray[Any]":
        """Return the values of a column for groups."""
        if self.tail is None:
            return self.indexed.group(name)[groups]  # type: ignore[no-any-return]
        return self._join(groups, self.first_tail_group, lambda part: part.group(name))

    def owners(self, passages: "NDArray[Any]") -> "NDArray[Any]":
        """Return the groups of passages."""
        if self.tail is None:
            return self.indexed.passage("group")[passages]  # type: ignore[no-any-return]
        owners = self._join(passages, self.first_tail_passage, lambda part: part.passage("group"))
        owners[passages >= self.first_tail_passage] += self.first_tail_group
        return owners

    def _join(
        self, numbers: "NDArray[Any]", first: int, column: "Callable[[SpaceIndex], NDArray[Any]]"
    ) -> "NDArray[Any]":
        """Return the values of a column of both parts; from `first` on, numbers are those of the tail."""
        assert self.tail is not None
        own = column(self.indexed)
        values = numpy.empty(len(numbers), dtype=own.dtype)
        late = numbers >= first
        values[~late] = own[numbers[~late]]
        values[late] = column(self.tail)[numbers[late] - first]
        return values

    def linked(self, groups: "NDArray[Any]", *, following: bool) -> "NDArray[Any]":
        """Return the message after each group in its thread, or the one before it; -1 for none."""
        found = self.group("following" if following else "previous", groups)
        if self.tail is None:
            return found
        late = groups >= self.first_tail_group
        found[late & (found != NONE)] += self.first_tail_group
        # Where the index ends and the tail begins: the threads that are in both.
        ends = numpy.flatnonzero((found == NONE) & (late != following))
        for at, thread in zip(ends.tolist(), self.group("thread", groups[ends]).tolist(), strict=True):
            if following:
                first = self.tail.first_in_thread(thread)
                found[at] = NONE if first is None else first + self.first_tail_group
            else:
                last = self.indexed.last_in_thread(thread)
                found[at] = NONE if last is None else last
        return found

    def named(self, words: Iterable[str]) -> "NDArray[Any]":
        """Return the numbers of the speakers that words name."""
        found = [
            self._speaker(part, each) for word in words for part in self._parts for each in part.names.get(word, ())
        ]
        return numpy.array(found, dtype=numpy.int64)

    def speakers(self, name: str) -> "NDArray[Any]":
        """Return the numbers of a speaker."""
        found = [(part, part.speaker(name)) for part in self._parts]
        return numpy.array([self._speaker(part, at) for part, at in found if at is not None], dtype=numpy.int64)

    def speaker(self, groups: "NDArray[Any]") -> "NDArray[Any]":
        """Return the numbers of those who speak; -1 for nobody."""
        numbers = self.group("speaker", groups)
        if self.tail is not None:
            numbers[(groups >= self.first_tail_group) & (numbers != NONE)] += len(self.indexed.speakers)
        return numbers

    def _speaker(self, part: SpaceIndex, number: int) -> int:
        return number + (len(self.indexed.speakers) if part is self.tail else 0)

    def open_passages(self, allowed: "NDArray[Any]") -> "NDArray[Any]":
        """Return for each passage whether its group is one of the `allowed`."""
        open_: NDArray[Any] = allowed[self.indexed.passage("group")]
        if self.tail is None:
            return open_
        return numpy.concatenate([open_, allowed[self.first_tail_group :][self.tail.passage("group")]])

    def cosines(self, query: "NDArray[Any]") -> "NDArray[Any]":
        """Return the cosine of each passage."""
        found = [part.cosines(query) for part in self._parts]
        return found[0] if len(found) == 1 else numpy.concatenate(found)

    def tokens(self, passages: "NDArray[Any]") -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return the tokens of passages in ascending order, one after the other, and how many each has."""
        if self.tail is None:
            return self.indexed.tokens(passages)
        own = int(numpy.searchsorted(passages, self.first_tail_passage))
        indexed = self.indexed.tokens(passages[:own])
        tail = self.tail.tokens(passages[own:] - self.first_tail_passage)
        return numpy.concatenate([indexed[0], tail[0]]), numpy.concatenate([indexed[1], tail[1]])

    def token_items(self, tokens: "NDArray[Any]") -> "NDArray[Any]":
        """Return the number of passages that hold each token."""
        counts: NDArray[Any] = numpy.stack([part.token_items[tokens] for part in self._parts]).sum(axis=0)
        return counts

    def source(self, group: int) -> tuple[RecallKind, int]:
        """Return kind and key of a group's source."""
        index, own = self._place(group)
        return _KINDS[int(index.group("kind")[own])], int(index.group("key")[own])

    def span(self, group: int, passage: int) -> tuple[int, int]:
        """Return offset and length of a passage; for -1, of the first of its group."""
        index, own = self._place(group)
        at = passage - (self.first_tail_passage if index is self.tail else 0)
        if passage == NONE:
            at = int(numpy.searchsorted(index.passage("group"), own))
        return int(index.passage("start")[at]), int(index.passage("chars")[at])

    def find(self, kind: RecallKind, key: int) -> int | None:
        """Return the group of a source."""
        if self.tail is not None and (found := self.tail.find(kind, key)) is not None:
            return found + self.first_tail_group
        return self.indexed.find(kind, key)

    def is_conversation(self, thread: int) -> bool:
        """Return whether more than one speaks in a thread; one voice alone is a document, cut into messages."""
        if thread in self.indexed.conversations:
            return True
        if self.tail is None:
            return False
        if thread in self.tail.conversations:
            return True
        names = {part.first_voice(thread) for part in self._parts if part.last_in_thread(thread) is not None}
        return len(names) > 1  # one voice in the index, another one in the tail

    def _place(self, group: int) -> tuple[SpaceIndex, int]:
        """Return the index that holds a group, and its number there."""
        if self.tail is not None and group >= self.first_tail_group:
            return self.tail, group - self.first_tail_group
        return self.indexed, group


class Ranker:
    """Scores the passages of a corpus for one query. It keeps scores of the passages found so far, and no others."""

    def __init__(self, corpus: Corpus, allowed: "NDArray[Any]") -> None:
        """Rank the `allowed` groups."""
        self._corpus = corpus
        self._allowed = allowed
        self._found = numpy.empty(0, dtype=numpy.int64)
        self._parts = {name: numpy.empty(0) for name in ("lexical", "vector", "tokens")}
        self._cosine: NDArray[Any] | None = None

    def add_lexical(self, passages: "NDArray[Any]", scores: "NDArray[Any]", *, full: float) -> float:
        """Add BM25 of passages, given that of a text with every term of the query; return the confidence."""
        open_ = self._allowed[self._corpus.owners(passages)]
        passages, scores = passages[open_], scores[open_]
        best_first = numpy.argsort(-scores, kind="stable")[:LEXICAL_CANDIDATES]
        passages, scores = passages[best_first], scores[best_first]
        if not len(passages) or full <= 0:
            return 0.0
        best = float(scores.max())
        confidence = min(1.0, CONFIDENCE_FACTOR * best / full)
        self._add("lexical", passages, confidence * scores / best)
        return confidence

    def add_vectors(self, query: "NDArray[Any]", *, weight: float) -> None:
        """Add the cosines of the best passages, scaled."""
        cosines = self._corpus.cosines(query)
        self._cosine = cosines
        every = self._allowed.all()
        candidates = cosines if every else numpy.where(self._corpus.open_passages(self._allowed), cosines, -2)
        best = _best(candidates, VECTOR_CANDIDATES)
        best = best[candidates[best] > 0]
        if len(best):
            low, high = float(candidates[best].min()), float(candidates[best].max())
            span = high - low
            scaled = (candidates[best] - low) / span if span > 0 else numpy.ones(len(best))
            self._add("vector", best, weight * scaled)

    def add_tokens(self, query: "NDArray[Any]", tables: StaticVectors) -> None:
        """Add MaxSim for the passages that are best so far."""
        wanted, times = numpy.unique(query, return_counts=True)
        base = self._parts["lexical"] + self._parts["vector"]
        best = _best(base, TOKEN_CANDIDATES)
        passages = numpy.sort(self._found[best[base[best] > 0]])
        tokens, counts = self._corpus.tokens(passages)
        passages, counts = passages[counts > 0], counts[counts > 0]
        if not len(wanted) or not len(passages):
            return
        items = self._corpus.items
        weights = times * numpy.array([idf(items, int(count)) for count in self._corpus.token_items(wanted)])
        every, flat = _distinct_tokens(tokens)
        similar = tables.token_cosines(wanted, every) - TOKEN_COSINE_FLOOR
        starts = numpy.cumsum(counts) - counts
        nearest = numpy.maximum(numpy.maximum.reduceat(similar[:, flat], starts, axis=1), 0)
        sums = (weights[:, None] * nearest).sum(axis=0)
        if sums.max() > 0:
            self._add("tokens", passages, TOKEN_WEIGHT * sums / sums.max())

    def _add(self, part: str, passages: "NDArray[Any]", scores: "NDArray[Any]") -> None:
        """Add a part of the scores of passages."""
        every = _union(self._found, passages)
        places = numpy.searchsorted(every, self._found)
        for name, values in self._parts.items():
            self._parts[name] = numpy.zeros(len(every))
            self._parts[name][places] = values
        self._parts[part][numpy.searchsorted(every, passages)] = scores
        self._found = every

    def scores(self, query: RecallQuery, *, sources: Mapping[int, Sequence[int]]) -> Scores:
        """Return the scores of all groups found; `sources` are the groups that memories came from."""
        base = self._base()
        order = numpy.argsort(-base, kind="stable")
        order = order[base[order] != 0]
        owners, first = numpy.unique(self._corpus.owners(self._found[order]), return_index=True)
        found = _GroupScores(owners, base[order[first]], order[first])
        if query.mode is not RecallMode.KEYWORD:  # by keyword, only what holds the words is found
            self._add_memories(found, sources)
            self._add_neighbours(found)
        found.drop_zeros()
        hit = found.best >= 0

        def part(values: "NDArray[Any]") -> "NDArray[Any]":
            return numpy.where(hit, values[found.best], 0.0) if len(values) else numpy.zeros(len(hit))

        speaker = self._speaker_bonus(found.groups, query)
        lexical, vector, tokens = (part(values) for values in self._parts.values())
        passages = numpy.full(len(hit), NONE, dtype=numpy.int64)
        passages[hit] = self._found[found.best[hit]]
        return Scores(
            groups=found.groups,
            passages=passages,
            total=lexical + vector + tokens + found.near + speaker + found.memory,
            lexical=lexical,
            vector=vector,
            tokens=tokens,
            neighbours=found.near,
            speaker=speaker,
            memory=found.memory,
            cosine=numpy.zeros(len(hit)) if self._cosine is None else numpy.where(hit, self._cosine[passages], 0.0),
        )

    def memories(self) -> dict[int, int]:
        """Return the memories found so far: their groups by key."""
        groups = self._corpus.owners(self._found[self._base() != 0])
        groups = numpy.unique(groups[self._corpus.group("kind", groups) == _MEMORY])
        return {self._corpus.source(int(group))[1]: int(group) for group in groups}

    def _base(self) -> "NDArray[Any]":
        """Return the scores of the passages found, of what they themselves hold."""
        return self._parts["lexical"] + self._parts["vector"] + self._parts["tokens"]

    def _add_memories(self, found: "_GroupScores", sources: Mapping[int, Sequence[int]]) -> None:
        """Add what memories give: to themselves by importance, and to the messages that they came from."""
        found.include(numpy.array([each for messages in sources.values() for each in messages], dtype=numpy.int64))
        for group, messages in sources.items():
            (at,) = found.places([group])
            importance = float(self._corpus.group("importance", numpy.array([group]))[0])
            found.memory[at] += found.own[at] * IMPORTANCE_WEIGHT * (importance - 0.5)
            for place in found.places([message for message in messages if self._allowed[message]]):
                found.memory[place] = max(found.memory[place], SOURCE_SHARE * found.own[at])

    def _add_neighbours(self, found: "_GroupScores") -> None:
        """Add what messages get from those around them in a conversation."""
        score = found.own + found.memory
        givers = numpy.flatnonzero(score)
        threads, places = numpy.unique(self._corpus.group("thread", found.groups[givers]), return_inverse=True)
        known, asked = self._corpus.indexed.conversations, self._corpus.is_conversation
        talks = numpy.array([thread in known or (thread != NONE and asked(thread)) for thread in threads.tolist()])
        givers = givers[talks[places]] if len(givers) else givers
        given: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for following in (False, True):
            giver, at = givers, found.groups[givers]
            for share in NEIGHBOUR_SHARES:
                at = self._corpus.linked(at, following=following)
                giver, at = giver[at != NONE], at[at != NONE]
                open_ = self._allowed[at]
                given.append((at[open_], share * score[giver[open_]]))
        groups = numpy.concatenate([at for at, _ in given])
        found.include(groups)
        numpy.add.at(found.near, found.places(groups), numpy.concatenate([values for _, values in given]))

    def _speaker_bonus(self, groups: "NDArray[Any]", query: RecallQuery) -> "NDArray[Any]":
        """Return the bonus of messages whose speaker the query means."""
        folded = fold(query.text)
        words = set(WORDS.findall(folded))
        speaker, role = self._corpus.speaker(groups), self._corpus.group("role", groups)
        meant = numpy.isin(speaker, self._corpus.named(words))
        if words & _SELF or _SELF_UNSPACED.search(folded):
            user = role == _USER
            if query.author is not None:
                user &= numpy.isin(speaker, self._corpus.speakers(query.author))
            meant |= user
        if words & _ASSISTANT or _ASSISTANT_UNSPACED.search(folded):
            meant |= role == _AGENT
        bonus: NDArray[Any] = SPEAKER_BONUS * meant
        return bonus


class _GroupScores:
    """Scores of groups, in the order of their numbers."""

    def __init__(self, groups: "NDArray[Any]", own: "NDArray[Any]", best: "NDArray[Any]") -> None:
        self.groups = groups.astype(numpy.int64)
        self.own = own
        self.best = best
        """Place of the best passage among those found, or -1."""
        self.memory = numpy.zeros(len(groups))
        self.near = numpy.zeros(len(groups))

    def include(self, groups: "NDArray[Any]") -> None:
        """Add groups that have no score of their own."""
        every = _union(self.groups, groups)
        if len(every) == len(self.groups):
            return
        places = numpy.searchsorted(every, self.groups)
        best = numpy.full(len(every), NONE, dtype=numpy.int64)
        best[places] = self.best
        for name in ("own", "memory", "near"):
            values = numpy.zeros(len(every))
            values[places] = getattr(self, name)
            setattr(self, name, values)
        self.groups, self.best = every, best

    def places(self, groups: "NDArray[Any] | Sequence[int]") -> "NDArray[Any]":
        """Return where groups stand that are included."""
        return numpy.searchsorted(self.groups, groups)

    def drop_zeros(self) -> None:
        """Leave out the groups whose scores are zero."""
        kept = (self.own + self.memory + self.near) != 0
        for name in ("groups", "own", "best", "memory", "near"):
            setattr(self, name, getattr(self, name)[kept])


_KINDS: Final = list(RecallKind)
_MEMORY: Final = _KINDS.index(RecallKind.MEMORY)
_USER: Final = list(Role).index(Role.USER)
_AGENT: Final = list(Role).index(Role.ASSISTANT)


def _union(ours: "NDArray[Any]", others: "NDArray[Any]") -> "NDArray[Any]":
    """Return the distinct numbers of both in their order; `numpy.union1d` takes several times as long for few."""
    every = numpy.concatenate([ours, others])
    every.sort()
    return every[numpy.flatnonzero(numpy.diff(every, prepend=-2))] if len(every) else every


def _distinct_tokens(tokens: "NDArray[Any]") -> "tuple[NDArray[Any], NDArray[Any]]":
    """Return the distinct tokens in their order, and the place of each among them."""
    places = numpy.zeros(2**16, dtype=numpy.int32)
    places[tokens] = 1
    every = numpy.flatnonzero(places).astype(numpy.uint16)
    places[every] = numpy.arange(len(every))
    return every, places[tokens]


def _best(values: "NDArray[Any]", count: int) -> "NDArray[Any]":
    """Return the positions of the greatest values."""
    if len(values) <= count:
        return numpy.arange(len(values))
    sample = values[:: max(1, min(_SAMPLED, len(values) // (2 * count)))]
    least = numpy.partition(sample, len(sample) - count)[len(sample) - count]
    above = numpy.flatnonzero(values >= least)  # the best of all are no less than the best of a sample
    return above[numpy.argpartition(values[above], len(above) - count)[len(above) - count :]]


_SAMPLED: Final = 16
"""One of so many values is looked at to find what the best of all exceed."""
