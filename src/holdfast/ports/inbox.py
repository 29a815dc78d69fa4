"""The inbox, from outside."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.timer import TimerClaim


class Inbox(Protocol):
    """What reaches a run from outside."""

    async def put(
        self,
        space: SpaceId,
        run: RunId,
        *,
        kind: InboxKind,
        data: Json,
        by: str | None = None,
        fires: TimerClaim | None = None,
    ) -> int:
        """Add an item and return its number; a waiting run is queued in the same transaction.

        A run that has ended is refused (`Conflict`), and so is a message under an id that one of its chain has, or one
        that it has not read yet (`IdTaken`), also where both come at once. A timer that it `fires` is settled in the
        same transaction.
        """
