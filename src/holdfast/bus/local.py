"""The bus of one process."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.ports.bus import Hear, Wake


class LocalBus:
    """`Bus` within one event loop."""

    def __init__(self) -> None:
        self._readers: list[Hear] = []

    def publish(self, wake: Wake) -> None:
        """Hand a hint to every reader."""
        for hear in self._readers:
            hear(wake)

    @contextmanager
    def subscribe(self, hear: Hear) -> Iterator[None]:
        """Call `hear` with each hint from now on while the block runs."""
        self._readers.append(hear)
        try:
            yield
        finally:
            self._readers.remove(hear)
