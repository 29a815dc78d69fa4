"""A timer: a row with a due time, which fires once across processes.

A process claims a due timer with a lease, and settles it in the transaction of its effect: a run created, an item put
into an inbox, a run ended.
"""

from enum import StrEnum

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId, TimerId, check_client_id
from holdfast.domain.instant import Instant, millis
from holdfast.domain.validation import check_text


class TimerState(StrEnum):
    """State of a timer."""

    SCHEDULED = "scheduled"
    PAUSED = "paused"
    """The deadline of a run that waits for a person: `due_at` is extended by the waiting time."""
    FIRED = "fired"
    CANCELLED = "cancelled"


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """One timer; with a `run_id` it ends with that run."""

    id: TimerId
    space_id: SpaceId
    run_id: RunId | None
    kind: str
    due_at: Instant
    data: Json
    state: TimerState
    fired_at: Instant | None
    created_at: Instant


class NewTimer(msgspec.Struct, frozen=True, kw_only=True):
    """A timer to create."""

    kind: str
    due_at: Instant
    id: TimerId | None = None
    data: Json = None


class TimerClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One process's claim of a due timer. An expired claim that another process took over settles nothing."""

    timer: Timer
    key: int
    number: int


def check_new_timer(new: NewTimer) -> None:
    """Raise if `new` is not a valid timer."""
    check_text(new.kind, field="kind", max_chars=64)
    if new.id is not None:
        check_client_id(new.id, field="id")
    millis(new.due_at)
