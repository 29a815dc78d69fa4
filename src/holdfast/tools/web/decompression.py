"""What a server compressed, taken apart piece by piece: what it grows to is bounded, and not only what is sent."""

import zlib
from collections.abc import Iterator
from typing import Final

from holdfast.domain.errors import Invalid, TooLarge, Unavailable

ACCEPTED: Final = "gzip, deflate"

_GZIP: Final = 16 + zlib.MAX_WBITS


class Decompression:
    """Gathers a body of at most `most` bytes."""

    def __init__(self, encoding: str, *, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self._inflater = _Inflater(encoding.strip().lower())

    def add(self, chunk: bytes) -> None:
        """Take in what came; raise `TooLarge` if it is too much."""
        for piece in self._inflater.inflated(chunk, most=self._most - self._size + 1):
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > self._most:
                raise TooLarge(f"it has more than {self._most} bytes", field="url")

    def whole(self) -> bytes:
        """Return all of it; raise `Unavailable` if the end is missing."""
        if not self._inflater.complete:
            raise Unavailable("what the server sent ends in the middle")
        return b"".join(self._pieces)


class _Inflater:
    """Undoes one encoding. `deflate` is sent with and without the header that it should have."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Invalid(f"the server sends `{encoding[:40]}`, which it was not asked for", field="url")
        self._encoding = encoding
        self._inside: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing at the end."""
        return self._inside is None or self._inside.eof

    def inflated(self, chunk: bytes, *, most: int) -> Iterator[bytes]:
        """Yield what a piece stands for, no more than `most` bytes of it."""
        if self._encoding in ("", "identity"):
            yield chunk[:most]
            return
        if self._inside is None and chunk:
            self._inside = zlib.decompressobj(self._window(chunk))
        if self._inside is None or self._inside.eof:
            return  # after the end there is only padding
        try:
            yield self._inside.decompress(chunk, most)
        except zlib.error as exc:
            raise Unavailable(f"what the server sent cannot be unpacked: {exc}") from exc

    def _window(self, chunk: bytes) -> int:
        if self._encoding != "deflate":
            return _GZIP
        return zlib.MAX_WBITS if chunk[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
