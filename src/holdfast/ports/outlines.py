"""The port of thread outlines: a projection of what was said, with a cursor for each thread."""

from collections.abc import Sequence
from typing import Final, Protocol

from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import Usage
from holdfast.domain.outline import ThreadOutline, ThreadToOutline
from holdfast.domain.thread import Thread

MAX_WORDS: Final = 6
"""Words of a query that are looked for in outlines."""


class ThreadOutlines(Protocol):
    """The outlines of all threads. Each method is one transaction."""

    async def pending(self, *, limit: int, messages: int) -> list[ThreadToOutline]:
        """Return threads without a queued or running run whose outline is behind, with at most so many `messages`."""

    async def put(
        self, thread: ThreadToOutline, outline: ThreadOutline, *, model: str | None = None, usage: Usage | None = None
    ) -> bool:
        """Store the outline of a thread, and move its cursor to `thread.through`.

        Return false, and change nothing, if another process did so or something of the thread was forgotten since it
        was read. A title that a person gave the thread stays. The usage of a `model` counts in any case.
        """

    async def with_words(
        self, space: SpaceId, words: Sequence[str], *, least: int, limit: int
    ) -> list[tuple[Thread, int]]:
        """Return threads whose search text holds at least so many of the folded words, and how many."""
