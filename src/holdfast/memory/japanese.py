"""Japanese word vectors: chiVe, made smaller and kept in one data file.

chiVe (Works Applications, Apache-2.0) comes inside the wheel of `ja-ginza`. `python -m holdfast.memory.japanese WHEEL`
writes the data file from that wheel, whose hash is checked: the vectors are centred, reduced to 128 dimensions and
stored in one byte each; words are stored in their order, with the row of each. See NOTICE for the licence.
"""

import hashlib
import io
import json
import lzma
import re
import sys
import zipfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.memory.analyser import UNSPACED_CHARS

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

DATA_FILE: Final = Path(__file__).with_name("japanese.bin")
WHEEL_NAME: Final = "ja_ginza-5.3.0-py3-none-any.whl"
WHEEL_SHA256: Final = "ac6479a805c5c5c23c270554934c1c1f344039560ef3a7e4b15a4275bea3c685"
DIMS: Final = 128
MAX_WORD_CHARS: Final = 12
MIN_HIRAGANA_CHARS: Final = 3
"""Shorter words of hiragana are mostly grammar."""
_VOCABULARY: Final = "ja_ginza/ja_ginza-5.3.0/vocab/"
_MAGIC: Final = b"HFJA0001"
_WORD: Final = re.compile(f"[{UNSPACED_CHARS}]{{1,{MAX_WORD_CHARS}}}")
_HIRAGANA: Final = re.compile("[\u3041-\u309f\u30fc]+")
_HASH_FACTOR: Final = 0xC6A4A7935BD1E995
_HASH_MASK: Final = (1 << 64) - 1


class JapaneseVectors:
    """The words and vectors of a data file, which is read on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError(f"`{path.name}` is not a data file of Japanese vectors: build it again")
            self.id = f"chive-{file.read(4).hex()}"

    def rows(self, run: str) -> list[int]:
        """Return the rows of the words of unspaced text: at each place the longest word that is known."""
        words = self._words
        found: list[int] = []
        at = 0
        while at < len(run):
            for length in range(min(MAX_WORD_CHARS, len(run) - at), 0, -1):
                row = words.get(run[at : at + length])
                if row is not None:
                    if row >= 0:
                        found.append(row)
                    at += length
                    break
            else:
                at += 1
        return found

    @property
    def table(self) -> "tuple[NDArray[numpy.int8], float]":
        """The vectors, the most frequent word first, and what to multiply them by."""
        return self._content[1:]

    @property
    def _words(self) -> dict[str, int]:
        return self._content[0]

    @cached_property
    def _content(self) -> "tuple[dict[str, int], NDArray[numpy.int8], float]":
        import numpy

        data = self._path.read_bytes()[len(_MAGIC) + 4 :]
        size = int.from_bytes(data[:4], "little")
        header = json.loads(data[4 : 4 + size])
        at = 4 + size
        text = lzma.decompress(data[at : at + header["words"]]).decode()
        at += header["words"]
        rows = numpy.frombuffer(lzma.decompress(data[at : at + header["rows"]]), dtype=numpy.uint16)
        at += header["rows"]
        table = numpy.frombuffer(data[at:], dtype=numpy.int8).reshape(-1, DIMS)
        words = dict(zip(text.split("\n"), rows.tolist(), strict=True))
        for word in words:
            if len(word) < MIN_HIRAGANA_CHARS and _HIRAGANA.fullmatch(word):
                words[word] = -1  # a word to step over
        return words, table, header["scale"]


def load_japanese() -> JapaneseVectors | None:
    """Return the Japanese vectors, if the data file was built."""
    return JapaneseVectors(DATA_FILE) if DATA_FILE.exists() else None


def build(wheel: Path, target: Path = DATA_FILE) -> None:
    """Write the data file from the wheel of `ja-ginza`."""
    import numpy

    content = wheel.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != WHEEL_SHA256:
        raise SystemExit(f"`{wheel.name}` has the hash {digest}, not the expected one: nothing was written")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        strings = json.loads(archive.read(f"{_VOCABULARY}strings.json"))
        keys = _read_key_rows(archive.read(f"{_VOCABULARY}key2row"))
        vectors = numpy.load(io.BytesIO(archive.read(f"{_VOCABULARY}vectors")))
    words = sorted((word, keys[key]) for word in strings if _WORD.fullmatch(word) and (key := _hash(word)) in keys)
    table = _reduce(vectors)
    scale = float(numpy.abs(table).max()) / 127
    text = lzma.compress("\n".join(word for word, _ in words).encode(), preset=9 | lzma.PRESET_EXTREME)
    rows = lzma.compress(numpy.array([row for _, row in words], dtype=numpy.uint16).tobytes(), preset=9)
    header = json.dumps({"words": len(text), "rows": len(rows), "scale": scale}).encode()
    quantised = numpy.round(table / scale).astype(numpy.int8).tobytes()
    body = len(header).to_bytes(4, "little") + header + text + rows + quantised
    target.write_bytes(_MAGIC + hashlib.sha256(body).digest()[:4] + body)


def _reduce(vectors: "NDArray[numpy.float32]") -> "NDArray[numpy.float32]":
    """Return the main components of centred vectors, the strong ones damped so that they do not hide the others."""
    import numpy

    centred = vectors - vectors.mean(axis=0)
    _, axes = numpy.linalg.eigh(centred.T @ centred)
    reduced = centred @ axes[:, ::-1][:, :DIMS]
    return reduced / numpy.sqrt(reduced.std(axis=0))  # type: ignore[no-any-return]


def _read_key_rows(data: bytes) -> dict[int, int]:
    """Decode the map from word hashes to rows, a MessagePack map of integers."""
    import msgspec

    return msgspec.msgpack.decode(data, type=dict[int, int])


def _hash(word: str) -> int:
    """Return the key of a word in the vocabulary: MurmurHash64A with seed 1."""
    data = word.encode()
    value = 1 ^ (len(data) * _HASH_FACTOR & _HASH_MASK)
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        part = int.from_bytes(data[at : at + 8], "little") * _HASH_FACTOR & _HASH_MASK
        part = (part ^ part >> 47) * _HASH_FACTOR & _HASH_MASK
        value = (value ^ part) * _HASH_FACTOR & _HASH_MASK
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _HASH_FACTOR & _HASH_MASK
    value = (value ^ value >> 47) * _HASH_FACTOR & _HASH_MASK
    return value ^ value >> 47


if __name__ == "__main__":
    build(Path(sys.argv[1]))
