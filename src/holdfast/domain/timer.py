"""A timer: a row with a due time, which fires once across processes.

Whoever claims a due timer has a lease on it, and settles it in the same transaction as what it does: a run created,
an item put into an inbox, a run ended.
"""

from enum import StrEnum

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SpaceId, TimerId, check_client_id
from holdfast.domain.instant import Instant, millis
from holdfast.domain.validation import check_text


class TimerState(StrEnum):
    """Whether it will fire."""

    SCHEDULED = "scheduled"
    PAUSED = "paused"
    """The deadline of a run that waits for a person: its `due_at` moves as long as that takes."""
    FIRED = "fired"
    CANCELLED = "cancelled"


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done at a time; with a `run_id` it ends with that run."""

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
    """A timer to be set."""

    kind: str
    due_at: Instant
    id: TimerId | None = None
    data: Json = None


class TimerClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A due timer in the hands of one process. A claim that ran out and was taken over settles nothing."""

    timer: Timer
    key: int
    number: int


def check_new_timer(new: NewTimer) -> None:
    """Raise if `new` can never be a timer."""
    check_text(new.kind, field="kind", max_chars=64)
    if new.id is not None:
        check_client_id(new.id, field="id")
    millis(new.due_at)
