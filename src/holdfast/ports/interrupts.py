"""Interrupts: durable questions."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.domain.ids import InterruptId, RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Answer, Interrupt, InterruptStatus
from holdfast.domain.message import NewMessage
from holdfast.domain.page import DEFAULT_LIMIT, Page


class Interrupts(Protocol):
    """What runs ask people."""

    async def get(self, space: SpaceId, interrupt: InterruptId) -> Interrupt:
        """Return the interrupt, or raise `NotFound`."""

    async def of_run(self, space: SpaceId, run: RunId, *, below: bool = False) -> list[Interrupt]:
        """Return the interrupts of `run`, the oldest first; with `below` also those of all runs below it."""

    async def asked_by(self, space: SpaceId, run: RunId) -> list[Interrupt]:
        """Return the open questions of `run`, and those that it shows of children it waits for, the oldest first."""

    async def page(
        self,
        space: SpaceId,
        *,
        status: InterruptStatus | None = InterruptStatus.OPEN,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[Interrupt]:
        """Return the interrupts of a space, the newest first."""

    async def expire(self, *, limit: int = 100) -> list[InterruptId]:
        """Close those that nobody answered in time, give each run its default outcome, and return them.

        However many processes ask at once, each is closed once; an answer that comes first wins.
        """

    async def next_expiry(self) -> Instant | None:
        """Return when the next open one runs out."""

    async def answer(self, space: SpaceId, interrupt: InterruptId, answer: Answer) -> Interrupt:
        """Settle the interrupt, put the answer into its run's inbox and queue the run, in one transaction.

        Of many answers at once, one is accepted; the others are refused (`AlreadyAnswered`). Those above the run are
        told that the question is closed.
        """

    async def answer_all(
        self,
        space: SpaceId,
        run: RunId,
        answers: Mapping[InterruptId, Answer],
        *,
        segment: RunId | None = None,
        besides: Sequence[NewMessage] = (),
    ) -> int:
        """Settle interrupts of a run, or of those below it, all or none, and tell it what was said `besides`.

        Return the number of the event that ended the run's last segment.

        The segment after that is the one that the answers belong to. It is the `segment` that is named, unless the run
        is at work already. The name becomes another id of the run; one that was used before is refused (`IdTaken`), and
        so is an interrupt of another run (`NotFound`) and one that is not open (`AlreadyAnswered`).
        """
