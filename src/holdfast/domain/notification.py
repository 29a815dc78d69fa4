"""Notifications of a space about its runs, reminders, schedules and webhooks, numbered 1, 2, 3 per space."""

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.run import RunStatus


class NotificationKind(StrEnum):
    """Kind of a notification."""

    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_WAITING = "run.waiting"
    REMINDER_TRIGGERED = "reminder.triggered"
    SCHEDULE_FIRED = "schedule.fired"
    SCHEDULE_FAILED = "schedule.failed"
    """The first failure after a success; later ones are only in the firings."""
    WEBHOOK_DISABLED = "webhook.disabled"
    BUDGET_WARNING = "budget.warning"
    """80 % of the budget of the space is spent; once per period."""
    BUDGET_EXCEEDED = "budget.exceeded"
    """All of it is spent."""


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One notification."""

    number: int
    kind: NotificationKind
    run_id: RunId | None
    root_run_id: RunId | None
    """The root of the tree of `run_id`; null once the root is deleted."""
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
"""Statuses that cause a notification; a run that waits for a child or a timer causes none."""
