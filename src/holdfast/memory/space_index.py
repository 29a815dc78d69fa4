"""The index of one space in memory: vectors in one byte a dimension (six bits on disk), tokens, and who said what when.

It grows by rows of the stored index. A second, small one holds the tail that is not indexed yet; both are ranked
as one.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy

from holdfast.domain.instant import Millis, millis
from holdfast.domain.memory import MemoryStatus
from holdfast.domain.message import Role
from holdfast.domain.recall import RecallKind, RecallQuery
from holdfast.memory.analyser import WORDS, fold
from holdfast.ports.recall import IndexRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_STEP: Final = 31
"""Steps of a component in each direction: six bits, of which four components are stored in three bytes."""
DEVIATIONS: Final = 3
"""Standard deviations of a component of a random vector up to which it is stored; larger components are cut."""
BLOCK_VALUES: Final = 192_000
"""Components that are converted at a time. A block stays in the processor's cache, also in a shared one, and BLAS
multiplies it on one thread: above 460,800 it uses all processors, whose threads spin, which costs ten times as much on
a busy machine."""
NONE: Final = -1
_ZERO: Final = 32
"""What a component of zero is stored as."""
_NO_NAMES: Final = frozenset(["user", "assistant", "agent", "key", "local", "admin", "default", "main", "the"])
"""Parts of speaker names that are ordinary words."""
_KINDS: Final = {kind.value: number for number, kind in enumerate(RecallKind)}
_ROLES: Final[dict[str | None, int]] = {None: NONE} | {role.value: number for number, role in enumerate(Role)}


class Column:
    """An array that grows."""

    def __init__(self, dtype: str, width: int | None = None) -> None:
        self._values = numpy.empty((64,) if width is None else (64, width), dtype=dtype)
        self._count = 0

    def extend(self, values: "Sequence[object] | NDArray[Any]") -> None:
        """Add values at the end."""
        needed = self._count + len(values)
        if needed > len(self._values):
            shape = (max(needed, len(self._values) * 3 // 2), *self._values.shape[1:])
            grown = numpy.empty(shape, dtype=self._values.dtype)
            grown[: self._count] = self._values[: self._count]
            self._values = grown
        if len(values):
            self._values[self._count : needed] = values
        self._count = needed

    @property
    def array(self) -> "NDArray[Any]":
        """The values, which may be written."""
        return self._values[: self._count]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._values.nbytes


class SpaceIndex:
    """Items of a space. A *group* is a message, memory or document with all its passages."""

    def __init__(self, *, key: int, epoch: int, parts: tuple[int, ...]) -> None:
        """Begin an empty index; `parts` are the lengths of the independent parts of a vector."""
        self.key = key
        self.epoch = epoch
        self.last_seq = 0
        self._parts = parts
        self.passages = 0
        self.groups = 0
        self._passage = {
            name: Column(dtype) for name, dtype in (("seq", "i8"), ("group", "i4"), ("start", "i4"), ("chars", "i4"))
        }
        self._group = {
            name: Column(dtype)
            for name, dtype in (
                ("kind", "i1"),
                ("key", "i8"),
                ("thread", "i8"),
                ("role", "i1"),
                ("speaker", "i4"),
                ("at", "i8"),
                ("importance", "f4"),
                ("expires", "i8"),
                ("previous", "i4"),
                ("following", "i4"),
                ("replaced", "?"),
                ("revised", "?"),
                ("inactive", "?"),
            )
        }
        self._tokens = Column("u2")
        self._token_ends = Column("i8")
        self.token_items = numpy.zeros(2**16, dtype=numpy.int32)
        """Number of passages that hold each token."""
        self._vectors = [(Column("i1", width), Column("i4")) for width in parts]
        self.speakers: list[str] = []
        self._speaker_numbers: dict[str, int] = {}
        self.names: dict[str, list[int]] = {}
        """Words by which a query may name a speaker, and the numbers of those who have them in their names."""
        self._first_in_thread: dict[int, int] = {}
        self._last_in_thread: dict[int, int] = {}
        self._first_voices: dict[int, int] = {}
        self.conversations: set[int] = set()
        """Threads in which more than one speaks."""
        self._latest: dict[tuple[int, int], int] = {}
        """The groups of memories and documents."""
        self._last_group: tuple[int, int, int] | None = None
        self._by_key: tuple[NDArray[Any], NDArray[Any]] | None = None
        """Keys of messages in order, and their groups."""

    def empty(self) -> "SpaceIndex":
        """Return an index of the same form without items."""
        return SpaceIndex(key=self.key, epoch=self.epoch, parts=self._parts)

    def passage(self, name: str) -> "NDArray[Any]":
        """Return a column of the passages."""
        return self._passage[name].array

    def group(self, name: str) -> "NDArray[Any]":
        """Return a column of the groups."""
        return self._group[name].array

    @property
    def nbytes(self) -> int:
        """Bytes in memory, roughly."""
        columns = [*self._passage.values(), *self._group.values(), self._tokens, self._token_ends]
        columns += [column for pair in self._vectors for column in pair]
        return sum(column.nbytes for column in columns) + 200 * self.groups

    def extend(self, rows: Sequence[IndexRow]) -> None:
        """Add rows in the order of their numbers; passages of one source follow one another."""
        if not rows:
            return
        groups: list[int] = []
        added: list[tuple[object, ...]] = []
        replaced: list[int] = []
        for row in rows:
            name = (_KINDS[row.kind], row.source_key, row.position)
            if name != self._last_group:
                self._last_group = name
                added.append(self._group_values(row, self.groups, replaced))
                self.groups += 1
            groups.append(self.groups - 1)
        for number, column in enumerate(self._group.values()):
            column.extend([values[number] for values in added])
        self.group("replaced")[replaced] = True
        previous = self.group("previous")
        new = numpy.arange(self.groups - len(added), self.groups)
        linked = new[previous[new] != NONE]
        self.group("following")[previous[linked]] = linked
        for revised in (key for row in rows for key in row.revises):
            self.mark_revised(revised)
        first = self.passages
        self.passages += len(rows)
        self._passage["seq"].extend([row.seq for row in rows])
        self._passage["group"].extend(groups)
        self._passage["start"].extend([row.start for row in rows])
        self._passage["chars"].extend([row.chars for row in rows])
        self._add_tokens(rows, first)
        self.add_vectors(range(first, self.passages), [row.vector for row in rows])
        self.last_seq = rows[-1].seq

    def _group_values(self, row: IndexRow, number: int, replaced: list[int]) -> tuple[object, ...]:
        """Return the columns of a new group."""
        kind, speaker = _KINDS[row.kind], self._add_speaker(row.speaker)
        before = NONE
        if row.thread_key is not None:
            before = self._last_in_thread.get(row.thread_key, NONE)
            self._last_in_thread[row.thread_key] = number
            self._first_in_thread.setdefault(row.thread_key, number)
            if self._first_voices.setdefault(row.thread_key, speaker) != speaker:
                self.conversations.add(row.thread_key)
        if row.kind != RecallKind.MESSAGE.value:
            if (kind, row.source_key) in self._latest:
                replaced.append(self._latest[kind, row.source_key])
            self._latest[kind, row.source_key] = number
        return (
            kind,
            row.source_key,
            NONE if row.thread_key is None else row.thread_key,
            _ROLES[row.role],
            speaker,
            row.at,
            0.5 if row.importance is None else row.importance,
            NONE if row.expires_at is None else row.expires_at,
            before,
            NONE,
            False,
            False,
            row.status is not None and row.status != MemoryStatus.ACTIVE.value,
        )

    def _add_tokens(self, rows: Sequence[IndexRow], first: int) -> None:
        end = int(self._token_ends.array[-1]) if first else 0
        tokens = [numpy.frombuffer(row.tokens, dtype=numpy.uint16) for row in rows]
        if rows:
            self._tokens.extend(numpy.concatenate(tokens))
            self._token_ends.extend(end + numpy.cumsum([len(each) for each in tokens]))
        for each in tokens:
            self.token_items[each] += 1  # the tokens of a passage are distinct

    def mark_revised(self, message: int) -> None:
        """Mark a message that a later one revises, if it is here."""
        group = self.find(RecallKind.MESSAGE, message)
        if group is not None:
            self.group("revised")[group] = True

    def find(self, kind: RecallKind, key: int) -> int | None:
        """Return the group of a source."""
        if kind is not RecallKind.MESSAGE:
            return self._latest.get((_KINDS[kind.value], key))
        if self._by_key is None or len(self._by_key[0]) != self.groups:
            keys = numpy.where(self.group("kind") == _KINDS[kind.value], self.group("key"), NONE)
            order = numpy.argsort(keys, kind="stable")
            self._by_key = keys[order], order
        keys, order = self._by_key
        at = int(numpy.searchsorted(keys, key))
        return int(order[at]) if at < len(keys) and keys[at] == key else None

    def first_in_thread(self, thread: int) -> int | None:
        """Return the first message of a thread."""
        return self._first_in_thread.get(thread)

    def last_in_thread(self, thread: int) -> int | None:
        """Return the last message of a thread."""
        return self._last_in_thread.get(thread)

    def first_voice(self, thread: int) -> str | None:
        """Return who speaks first in a thread."""
        voice = self._first_voices.get(thread, NONE)
        return None if voice == NONE else self.speakers[voice]

    def speaker(self, name: str) -> int | None:
        """Return the number of a speaker."""
        return self._speaker_numbers.get(name)

    def _add_speaker(self, name: str | None) -> int:
        if name is None:
            return NONE
        number = self._speaker_numbers.setdefault(name, len(self.speakers))
        if number == len(self.speakers):
            self.speakers.append(name)
            for word in set(WORDS.findall(fold(name))) - _NO_NAMES:
                if len(word) > 1:
                    self.names.setdefault(word, []).append(number)
        return number

    def tokens(self, passages: "NDArray[Any]") -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return the tokens of passages, one after the other, and how many each has."""
        if not len(passages):
            return self._tokens.array[:0], numpy.zeros(0, dtype=numpy.int64)
        ends = self._token_ends.array
        starts = numpy.where(passages > 0, ends[passages - 1], 0)
        counts = ends[passages] - starts
        until = numpy.cumsum(counts)
        places = numpy.repeat(starts - until + counts, counts) + numpy.arange(until[-1])
        return self._tokens.array[places], counts

    def discount_tokens(self, passage: int) -> None:
        """Count the tokens of a passage no more."""
        self.token_items[self.tokens(numpy.array([passage]))[0]] -= 1

    def cut_thread(self, thread: int, *, before: int | None) -> None:
        """Let a message of a thread, or the next one, follow none here: those before it are elsewhere."""
        if before is None:
            self._first_in_thread.pop(thread, None)
            self._last_in_thread.pop(thread, None)
        else:
            self._first_in_thread[thread] = before
            self.group("previous")[before] = NONE

    def end_group(self) -> None:
        """Let the next row begin a new group."""
        self._last_group = None

    def add_vectors(self, passages: Sequence[int], packed: Sequence[bytes | None]) -> None:
        """Add the vectors of passages, in the order of their numbers; each has one at most."""
        known = [(at, vector) for at, vector in zip(passages, packed, strict=True) if vector]
        if not known:
            return
        matrix = unpack_vectors([vector for _, vector in known], sum(self._parts))
        positions = numpy.array([at for at, _ in known], dtype=numpy.int32)
        start = 0
        for width, (vectors, owners) in zip(self._parts, self._vectors, strict=True):
            part = matrix[:, start : start + width]
            used = part.any(axis=1)
            vectors.extend(part[used])
            owners.extend(positions[used])
            start += width

    def cosines(self, query: "NDArray[Any]") -> "NDArray[Any]":
        """Return the cosine of each passage with a query vector."""
        found = numpy.zeros(self.passages, dtype=numpy.float32)
        start = 0
        for width, (vectors, owners) in zip(self._parts, self._vectors, strict=True):
            part = query[start : start + width] / quantisation(self._parts)
            start += width
            if not part.any():
                continue
            matrix, rows = vectors.array, owners.array
            whole = len(rows) == self.passages
            step = BLOCK_VALUES // width
            buffer = numpy.empty((min(step, len(rows)), width), dtype=numpy.float32)  # a new one would be paged in
            for at in range(0, len(rows), step):
                block = buffer[: min(step, len(rows) - at)]
                numpy.copyto(block, matrix[at : at + step])
                products = block @ part
                if whole:
                    found[at : at + step] += products
                else:
                    found[rows[at : at + step]] += products
        return found

    def allowed(self, query: RecallQuery, *, thread: int | None, now: Millis) -> "NDArray[Any]":
        """Return which groups a query may find."""
        allowed = ~self.group("replaced").astype(bool)
        if not query.revised:
            allowed &= ~self.group("revised").astype(bool)
        if not query.inactive:
            expires = self.group("expires")
            allowed &= ~self.group("inactive").astype(bool) & ((expires == NONE) | (expires > now))
        if query.kinds != frozenset(RecallKind):
            allowed &= _one_of([_KINDS[kind.value] for kind in query.kinds], len(_KINDS))[self.group("kind")]
        if thread is not None:
            allowed &= self.group("thread") == thread
        if query.roles is not None:
            allowed &= _one_of([_ROLES[role.value] for role in query.roles], len(_ROLES))[self.group("role")]
        if query.since is not None:
            allowed &= self.group("at") >= millis(query.since)
        if query.until is not None:
            allowed &= self.group("at") <= millis(query.until)
        return allowed


def _one_of(numbers: Sequence[int], count: int) -> "NDArray[Any]":
    """Return for each of `count` numbers whether it is one of `numbers`; the last stands for -1."""
    found = numpy.zeros(count, dtype=bool)
    found[list(numbers)] = True
    return found


def quantisation(parts: tuple[int, ...]) -> float:
    """Return the steps that a component of length 1 is stored in."""
    return MAX_STEP * math.sqrt(min(parts)) / DEVIATIONS


def pack_vectors(vectors: "NDArray[Any]", parts: tuple[int, ...]) -> list[bytes]:
    """Encode normalised vectors, one a row: six bits a dimension, without the zeros at both ends, after the offset."""
    count, dims = vectors.shape
    quantised = numpy.clip(numpy.round(vectors * quantisation(parts)), -MAX_STEP, MAX_STEP).astype(numpy.int8)
    fours = numpy.zeros((count, (dims + 3) // 4 * 4), dtype=numpy.int8)
    fours[:, :dims] = quantised
    fours = fours.reshape(count, -1, 4)
    a, b, c, d = numpy.moveaxis((fours + _ZERO).astype(numpy.uint8), 2, 0)
    packed = numpy.stack([a << 2 | b >> 4, (b & 15) << 4 | c >> 2, (c & 3) << 6 | d], axis=2)
    used = (fours != 0).max(axis=2)
    starts, ends = used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)
    return [
        (4 * start).to_bytes(2, "little") + row[start:end].tobytes() if own[start] else b""
        for row, own, start, end in zip(packed, used, starts.tolist(), ends.tolist(), strict=True)
    ]


def unpack_vectors(packed: Sequence[bytes], dims: int) -> "NDArray[Any]":
    """Decode what `pack_vectors` encoded, one row for each; those of one form at once."""
    found = numpy.zeros((len(packed), dims + 3), dtype=numpy.int8)
    forms: dict[tuple[bytes, int], list[int]] = {}
    for row, vector in enumerate(packed):
        forms.setdefault((vector[:2], len(vector)), []).append(row)
    for (offset, size), rows in forms.items():
        start, end = int.from_bytes(offset, "little"), (size - 2) // 3 * 4
        whole = numpy.frombuffer(b"".join(packed[row][2:] for row in rows), dtype=numpy.uint8)
        a, b, c = whole.reshape(-1, 3).T
        values = numpy.stack([a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63], axis=1)
        found[rows, start : start + end] = values.reshape(len(rows), -1).astype(numpy.int8) - _ZERO
    return found[:, :dims]
