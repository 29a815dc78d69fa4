"""What is kept of an output that may be endless: its beginning and its end."""


class Kept:
    """Keeps up to `limit` bytes: the first half as it came, and the latest of the rest."""

    def __init__(self, limit: int) -> None:
        self._first = limit - limit // 2
        self._last = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the output."""
        self._seen += len(piece)
        room = self._first - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._last:  # not each time, so that a byte is moved once
            self._trim()

    @property
    def dropped(self) -> int:
        """How many bytes were thrown away."""
        return max(0, self._seen - self._first - self._last)

    def bytes(self) -> bytes:
        """Return what was kept."""
        self._trim()
        return bytes(self._head + self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._last)]
