"""A notification: news for the people of a space, numbered 1, 2, 3 in it."""

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.run import RunStatus


class NotificationKind(StrEnum):
    """What happened."""

    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_WAITING = "run.waiting"


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of news."""

    number: int
    kind: NotificationKind
    run_id: RunId | None
    root_run_id: RunId | None
    """The run that somebody started, of whose tree `run_id` is; none once that run is deleted."""
    thread_id: ThreadId | None
    data: Json
    created_at: Instant
    read_at: Instant | None


NOTIFICATION_KINDS: Final = {
    RunStatus.COMPLETED: NotificationKind.RUN_COMPLETED,
    RunStatus.FAILED: NotificationKind.RUN_FAILED,
    RunStatus.CANCELLED: NotificationKind.RUN_CANCELLED,
    RunStatus.WAITING: NotificationKind.RUN_WAITING,
}
"""Which moves are news. A run that waits for its child or for a timer is not."""
