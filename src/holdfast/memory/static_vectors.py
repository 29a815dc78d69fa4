"""Static vectors: the default embedder, and the tokens that MaxSim compares.

English (and other spaced scripts) comes from the weights that the package `wordllama` installs, Japanese from a data
file that `holdfast.memory.japanese` makes of the chiVe vectors. Both are tables, so that a text costs microseconds:

    text ──► words ──► tokens (rows of the tables) ──► weighted mean of each half ──► vector

A vector has an English and a Japanese half. A text of one language leaves the other half zero.
"""

import asyncio
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.domain.packages import has_extra, install_command
from holdfast.memory.analyser import UNSPACED_CHARS, fold
from holdfast.memory.japanese import load_japanese

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from holdfast.ports.memory import Vectors

ENGLISH_DIMS: Final = 256
JAPANESE_DIMS: Final = 128
JAPANESE_TOKEN: Final = 32_768
"""Number of the first Japanese token; those below are English."""
MAX_TOKENS: Final = 512
"""Tokens of a passage that are compared."""
FREQUENCY_SMOOTHING: Final = 0.001
JAPANESE_FREQUENCY_SMOOTHING: Final = 0.0003
"""A token that is this frequent has half the weight of a rare one."""
MAX_TABLE_VALUE: Final = 127
MAX_INLINE_TEXTS: Final = 8
_EVERY_LANGUAGE: Final = "text 文章"
MAX_SERIAL_PRODUCTS: Final = 2**18
"""Multiplications of a product of matrices up to which BLAS uses one thread."""
_TOKENIZER_FILE: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS_FILE: Final = "weights/l2_supercat_256.safetensors"
_FIRST_WORD_TOKEN: Final = 259
"""The tokens before it are bytes and marks; those after it are sorted by frequency, roughly."""
_MEAN_ENGLISH_NORM: Final = 13.8
_MEAN_JAPANESE_NORM: Final = 1.7

_UNSPACED_RUN: Final = re.compile(f"[{UNSPACED_CHARS}]+")
_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Subjects(NamedTuple):
    """Tokens of subjects, prepared for comparisons."""

    number: int
    known: list[int]
    """Numbers of the subjects that have tokens."""
    starts: "NDArray[Any]"
    """Where the tokens of each known subject begin in `places`."""
    tokens: "NDArray[Any]"
    """The distinct tokens of all."""
    places: "NDArray[Any]"
    weights: "NDArray[Any]"


class StaticVectors:
    """Implements `Embedder` with tables that are read on first use."""

    def __init__(self) -> None:
        english = has_extra("memory")
        self._folder = _package_folder("wordllama") if english else None
        self._japanese_words = load_japanese()
        self._read = False
        """Whether the tables are in memory."""

    @property
    def id(self) -> str:
        """Name and version."""
        return f"static-2:{self.vocabulary}"

    @property
    def vocabulary(self) -> str:
        """Name of the tables that tokens are rows of."""
        names = ["wordllama-256"] if self._folder else []
        names += [self._japanese_words.id] if self._japanese_words else []
        return "+".join(names) or "none"

    @property
    def dims(self) -> int:
        """Length of each vector."""
        return ENGLISH_DIMS + JAPANESE_DIMS

    @property
    def parts(self) -> tuple[int, ...]:
        """Lengths of the halves."""
        return (ENGLISH_DIMS, JAPANESE_DIMS)

    @property
    def notice(self) -> str | None:
        """What is missing, if something is."""
        missing = [
            *([f"English (run `{install_command('memory')}`)"] if self._folder is None else []),
            *(["Japanese (the data file was not built: `make japanese`)"] if self._japanese_words is None else []),
        ]
        return f"recall compares words only, without vectors, in {' and '.join(missing)}" if missing else None

    def drop_words(self) -> None:
        """Drop the words whose tokens the tokenizer keeps, so that no word of a forgotten text stays in memory."""
        if "_tokenizer" in self.__dict__:
            model = self._tokenizer.model
            getattr(model, "_clear_cache", lambda: None)()  # an old `tokenizers` keeps its 10,000 latest words

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one normalised row per text; a few of them on the event loop, once the tables are there."""
        if self._read and len(texts) <= MAX_INLINE_TEXTS:
            return self.vectors([self.tokens(text) for text in texts])
        rows = await asyncio.to_thread(lambda: self.vectors([self.tokens(text) for text in [*texts, _EVERY_LANGUAGE]]))
        self._read = True
        return rows[:-1]

    def vectors(self, tokens: "Sequence[NDArray[Any]]") -> "Vectors":
        """Return one normalised row for the tokens of each text."""
        import numpy

        rows = numpy.zeros((len(tokens), self.dims), dtype=numpy.float32)
        for row, own in zip(rows, tokens, strict=True):
            english, japanese = own[own < JAPANESE_TOKEN], own[own >= JAPANESE_TOKEN]
            if len(english):
                row[:ENGLISH_DIMS] = self._english.mean(english)
            if len(japanese):
                row[ENGLISH_DIMS:] = self._japanese.mean(japanese - JAPANESE_TOKEN)
        norms = numpy.linalg.norm(rows, axis=1, keepdims=True)
        rows /= numpy.where(norms > 0, norms, 1)
        return rows

    def tokens(self, text: str) -> "NDArray[Any]":
        """Return the tokens of a text in its order, words of spaced scripts first."""
        import numpy

        text = fold(text)
        found: list[int] = []
        if self._folder is not None:
            spaced = " ".join(_WORD.findall(_UNSPACED_RUN.sub(" ", text)))
            if spaced:
                found += self._tokenizer.encode(spaced, add_special_tokens=False).ids
        if self._japanese_words is not None and not text.isascii():
            for run in _UNSPACED_RUN.findall(text):
                found += [JAPANESE_TOKEN + row for row in self._japanese_words.rows(run)]
        return numpy.array(found[:MAX_TOKENS], dtype=numpy.uint16)

    def token_cosines(self, wanted: "NDArray[Any]", tokens: "NDArray[Any]") -> "NDArray[Any]":
        """Return the cosine of each wanted token with each token; that of different languages is 0."""
        import numpy

        found = numpy.zeros((len(wanted), len(tokens)), dtype=numpy.float32)
        for japanese in (False, True):
            rows = numpy.flatnonzero((wanted >= JAPANESE_TOKEN) == japanese)
            columns = numpy.flatnonzero((tokens >= JAPANESE_TOKEN) == japanese)
            if len(rows) and len(columns):
                table, first = (self._japanese, JAPANESE_TOKEN) if japanese else (self._english, 0)
                found[rows[:, None], columns] = table.cosines(wanted[rows] - first, tokens[columns] - first)
        return found

    def subjects(self, subjects: "Sequence[NDArray[Any]]") -> "Subjects":
        """Prepare the tokens of subjects for comparisons with texts."""
        import numpy

        known = [number for number, tokens in enumerate(subjects) if len(tokens)]
        every = numpy.concatenate([numpy.empty(0, dtype=numpy.uint16), *(subjects[number] for number in known)])
        starts = numpy.cumsum([0, *(len(subjects[number]) for number in known[:-1])])
        tokens, places = numpy.unique(every, return_inverse=True)
        return Subjects(len(subjects), known, starts, tokens, places, self._weights(tokens)[places])

    def similarities(self, subjects: "Subjects", text: "NDArray[Any]") -> list[float]:
        """Return how much of each subject a text, given as tokens, is about, from 0 to 1.

        Each token of a subject counts by its best cosine with a token of the text, weighted by its rarity (MaxSim).
        """
        import numpy

        found = [0.0] * subjects.number
        if subjects.known and len(text):
            cosines = self.token_cosines(subjects.tokens, numpy.unique(text))
            best = cosines.max(axis=1).clip(min=0)[subjects.places]
            weights, starts = subjects.weights, subjects.starts
            scores = numpy.add.reduceat(best * weights, starts) / numpy.add.reduceat(weights, starts)
            for number, score in zip(subjects.known, scores.tolist(), strict=True):
                found[number] = min(score, 1.0)
        return found

    def _weights(self, tokens: "NDArray[Any]") -> "NDArray[Any]":
        """Return the weights of tokens."""
        import numpy

        weights = numpy.zeros(len(tokens), dtype=numpy.float32)
        english = tokens < JAPANESE_TOKEN
        if english.any():
            weights[english] = self._english.rarity[tokens[english]]
        if not english.all():
            weights[~english] = self._japanese.rarity[tokens[~english] - JAPANESE_TOKEN]
        return weights

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        assert self._folder is not None
        tokenizer = Tokenizer.from_file(str(self._folder / _TOKENIZER_FILE))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _english(self) -> "_Table":
        import numpy
        from safetensors.numpy import load_file

        assert self._folder is not None
        (floats,) = load_file(str(self._folder / _WEIGHTS_FILE)).values()
        scales = numpy.abs(floats).max(axis=1).astype(numpy.float32) / MAX_TABLE_VALUE
        scales = numpy.where(scales > 0, scales, 1)
        ranks = numpy.maximum(numpy.arange(len(floats)) - _FIRST_WORD_TOKEN, 0)
        rarity = _rarity(ranks, FREQUENCY_SMOOTHING) / _MEAN_ENGLISH_NORM
        return _Table(numpy.round(floats / scales[:, None]).astype(numpy.int8), scales, rarity)

    @cached_property
    def _japanese(self) -> "_Table":
        import numpy

        assert self._japanese_words is not None  # else no text has a Japanese token
        rows, scale = self._japanese_words.table
        rarity = _rarity(numpy.arange(len(rows)), JAPANESE_FREQUENCY_SMOOTHING) / _MEAN_JAPANESE_NORM
        return _Table(rows, numpy.full(len(rows), scale, dtype=numpy.float32), rarity)


class _Table:
    """Vectors of tokens, a byte a dimension; a row times its scale is the vector."""

    def __init__(self, rows: "NDArray[Any]", scales: "NDArray[Any]", rarity: "NDArray[Any]") -> None:
        import numpy

        self._rows = rows
        self.rarity = rarity
        """Weight of each token."""
        self._weights = rarity * scales
        norms = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows, dtype=numpy.int32), dtype=numpy.float32)
        self._units = 1 / numpy.where(norms > 0, norms, 1)

    def mean(self, tokens: "NDArray[Any]") -> "NDArray[Any]":
        """Return the mean of the vectors of tokens by their weights, times their number."""
        return self._weights[tokens] @ self._floats(tokens)  # type: ignore[no-any-return]

    def cosines(self, wanted: "NDArray[Any]", tokens: "NDArray[Any]") -> "NDArray[Any]":
        """Return the cosine of each wanted token with each token."""
        ours = self._floats(wanted) * self._units[wanted, None]
        return small_products(ours, self._floats(tokens)) * self._units[tokens]  # type: ignore[no-any-return]

    def _floats(self, tokens: "NDArray[Any]") -> "NDArray[Any]":
        import numpy

        return self._rows[tokens].astype(numpy.float32)  # type: ignore[no-any-return]


def small_products(ours: "NDArray[Any]", others: "NDArray[Any]") -> "NDArray[Any]":
    """Return the products of all pairs of rows, in tiles that BLAS multiplies on one thread.

    Above a size it starts a thread for each processor, and these spin: on a busy machine that costs ten times as much.
    """
    import numpy

    width = ours.shape[1]
    high = max(1, min(len(ours), MAX_SERIAL_PRODUCTS // (32 * width)))
    wide = max(1, MAX_SERIAL_PRODUCTS // (high * width))
    found = numpy.empty((len(ours), len(others)), dtype=numpy.float32)
    for top in range(0, len(ours), high):
        for left in range(0, len(others), wide):
            tile = ours[top : top + high] @ others[left : left + wide].T
            found[top : top + high, left : left + wide] = tile
    return found


def _rarity(ranks: "NDArray[Any]", smoothing: float) -> "NDArray[Any]":
    """Return the weight of tokens of these ranks, whose frequency follows Zipf's law."""
    import numpy

    frequency = 1 / ((ranks + 10) * 11)
    return (smoothing / (smoothing + frequency)).astype(numpy.float32)


def _package_folder(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


@lru_cache(maxsize=1)
def static_vectors() -> StaticVectors:
    """Return the tables of this process, which are read once."""
    return StaticVectors()
