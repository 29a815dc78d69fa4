"""The input of a command that is talked with while it runs."""

from collections.abc import Callable


class LiveInput:
    """Takes what is written until whoever runs the command takes that. Whether the command reads it is its business."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._told: Callable[[], None] = lambda: None
        self.closed = False

    def __len__(self) -> int:
        """Return how many bytes nobody has taken yet."""
        return len(self._waiting)

    def write(self, text: bytes) -> None:
        """Write more."""
        self._waiting += text
        self._told()

    def close(self) -> None:
        """Write no more: the command reads the end of its input after what is there."""
        self.closed = True
        self._told()

    def tell(self, of_change: Callable[[], None]) -> None:
        """Have somebody told whenever there is something to do."""
        self._told = of_change

    def peek(self) -> bytes:
        """Return all that nobody has taken yet."""
        return bytes(self._waiting)

    def take(self, length: int) -> None:
        """Take that many bytes away."""
        del self._waiting[:length]
