"""Messages: the history of a run along its chain."""

from typing import Protocol

from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_LIMIT


class Messages(Protocol):
    """What was said, as one run sees it."""

    async def history(
        self, space: SpaceId, run: RunId, *, limit: int = DEFAULT_LIMIT, before: int | MessageId | None = None
    ) -> list[Message]:
        """Return the last `limit` messages of `run`'s chain, or of those before a message, oldest first.

        A base that was cut shows only what is before the cut. Sequences ascend. Input that waits for its run to begin,
        or for one that must begin first, comes last, without a sequence. `before` is the sequence of a message, or its
        id, which it keeps when it enters; one that is not on this chain is refused (`Invalid`).
        The cost does not depend on how long the chain is.
        """

    async def of_run(self, space: SpaceId, run: RunId) -> list[Message]:
        """Return the messages of `run` alone, oldest first."""

    async def get(self, space: SpaceId, run: RunId, message: MessageId) -> Message:
        """Return the message with that id on `run`'s chain; where a revision has the same id, the one on this chain."""

    async def named(self, space: SpaceId, thread: ThreadId, message: MessageId) -> list[Message]:
        """Return the messages of `thread` with that id, one for each branch that has its own, the newest first."""
