"""A chunk: some events that came together, and what is made of them once for all who follow."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

MOST: Final = 64 * 1024
"""Bytes of a chunk, unless it is a single item: it is written at once, so this is what a slow reader can hold up."""

T = TypeVar("T")


class Item(Protocol):
    """Something with a number, one higher than the one before it; `data` is its JSON."""

    @property
    def seq(self) -> int:
        """Its number."""

    @property
    def type(self) -> str:
        """What it is."""

    @property
    def data(self) -> bytes:
        """Its JSON."""


class Chunk:
    """Items without a gap, and the bytes that their followers share."""

    __slots__ = ("_rendered", "first", "items", "last", "size")

    def __init__(self, items: Sequence[Any]) -> None:
        """Make a chunk of at least one item."""
        self.items = items
        self.first: int = items[0].seq
        self.last: int = items[-1].seq
        self.size = sum([len(item.data) for item in items])
        self._rendered: dict[Any, Any] = {}

    def after(self, position: int) -> "Chunk":
        """Return what of it is above `position`, which is below its end."""
        return self if position < self.first else Chunk(self.items[position - self.first + 1 :])

    def rendered(self, render: Callable[[Sequence[Any]], T]) -> T:
        """Return what `render` makes of the items, made once."""
        found: T | None = self._rendered.get(render)
        if found is None:
            found = self._rendered[render] = render(self.items)
        return found


def chunks_of(items: Sequence[Any], *, most: int = MOST) -> Iterator[Chunk]:
    """Yield items without a gap as chunks of at most so many bytes, or of a single item."""
    start = size = 0
    for number, item in enumerate(items):
        size += len(item.data)
        if size > most and number > start:
            yield Chunk(items[start:number])
            start, size = number, len(item.data)
    if items:
        yield Chunk(items[start:])
