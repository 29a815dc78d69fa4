"""A reminder: what someone wants to be told again, and when.

    pending ──► triggered ──► completed · dismissed
       ▲            │
       └────────────┘   snoozed; or a recurring reminder was completed, and waits for its next time

A reminder is triggered at a time, by a condition on what happens in its space, or by a context: a message about it.
Each has a schedule with the same id, which records its firings.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from holdfast.domain.condition import (
    Condition,
    JudgeCondition,
    parse_condition,
    parse_context,
)
from holdfast.domain.cron import DEFAULT_TIMEZONE, check_cron, is_cron, parse_time, parse_timezone
from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.ids import ReminderId, RunId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.schedule import Misfire, RemindAction, RunAction, SchedulePlan, check_schedule_plan
from holdfast.domain.validation import check_text

MAX_CONTENT_CHARS: Final = 4_000
MAX_CONTEXT_CHARS: Final = 10_000
ALWAYS: Final = "always"
"""The `recurrence` of a condition or a context that is watched again after the reminder was completed."""


class TriggerType(StrEnum):
    """What triggers a reminder."""

    TIME = "time"
    CONDITION = "condition"
    CONTEXT = "context"


class ReminderPriority(StrEnum):
    """Priority of a reminder."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The position in the order of priorities, from 0."""
        return _PRIORITIES.index(self)


_PRIORITIES: Final = tuple(ReminderPriority)


def priority_of_rank(rank: int) -> ReminderPriority:
    """Return the priority with a rank."""
    return _PRIORITIES[rank]


class ReminderStatus(StrEnum):
    """Status of a reminder."""

    PENDING = "pending"
    TRIGGERED = "triggered"
    COMPLETED = "completed"
    DISMISSED = "dismissed"


TriggerValue: TypeAlias = str | dict[str, Any]
"""A time, a condition as a JSON object, or the words of a context."""


class NewReminder(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder to set."""

    content: str
    trigger_type: TriggerType
    trigger_value: TriggerValue | None = None
    context: str | None = None
    timezone: str | None = None
    """The IANA zone of a local time or a cron expression."""
    priority: ReminderPriority = ReminderPriority.NORMAL
    recurrence: str | None = None
    """For a time, a cron expression; for a condition or a context, `always`."""
    action: RunAction | None = None
    thread_id: ThreadId | None = None
    id: ReminderId | None = None
    owner: str | None = None
    run_id: RunId | None = None
    taint: Sequence[str] = ()


class Reminder(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder, and where it stands."""

    id: ReminderId
    space_id: SpaceId
    content: str
    context: str | None
    trigger_type: TriggerType
    trigger_value: TriggerValue | None
    timezone: str | None
    priority: ReminderPriority
    status: ReminderStatus
    recurrence: str | None
    action: RunAction | None
    """The run to start when it is triggered; null sends a notification only."""
    thread_id: ThreadId | None
    """The thread whose next turn gets it; null is the next thread of its owner."""
    owner: str | None
    run_id: RunId | None
    """The run that set it, if an agent did."""
    taint: list[str]
    """Sources of untrusted text that the run which set it had read."""
    next_due_at: Instant | None
    snoozed_until: Instant | None
    triggered_at: Instant | None
    trigger_reason: str | None
    created_at: Instant
    updated_at: Instant


class ReminderPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a reminder; absent fields stay. Another trigger makes it pending again."""

    content: str | UnsetType = UNSET
    context: str | None | UnsetType = UNSET
    trigger_type: TriggerType | UnsetType = UNSET
    trigger_value: TriggerValue | None | UnsetType = UNSET
    timezone: str | None | UnsetType = UNSET
    priority: ReminderPriority | UnsetType = UNSET
    recurrence: str | None | UnsetType = UNSET
    action: RunAction | None | UnsetType = UNSET
    thread_id: ThreadId | None | UnsetType = UNSET

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that are set."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not UNSET}

    @property
    def changes_trigger(self) -> bool:
        """Whether it changes when the reminder is triggered."""
        return not {"trigger_type", "trigger_value", "timezone", "recurrence"}.isdisjoint(self.changes)


class ReminderFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which reminders to list."""

    status: ReminderStatus | None = None
    priority: ReminderPriority | None = None
    trigger_type: TriggerType | None = None
    thread_id: ThreadId | None = None


class ReminderTrigger(msgspec.Struct, frozen=True, kw_only=True):
    """When a reminder is triggered, as its schedule and its condition say it."""

    plan: SchedulePlan
    first_due: Millis | None = None
    """The first due time, if the plan does not give it."""
    condition: Condition | None = None


def check_new_reminder(new: NewReminder) -> None:
    """Raise if `new` is not a valid reminder, apart from its trigger."""
    check_text(new.content, field="content", max_chars=MAX_CONTENT_CHARS)
    if not new.content.strip():
        raise Invalid("`content` is empty: write what to be reminded of", field="content")
    if new.context is not None:
        check_text(new.context, field="context", max_chars=MAX_CONTEXT_CHARS)
    for field, value in (("id", new.id), ("thread_id", new.thread_id)):
        if value is not None:
            check_client_id(value, field=field)
    if new.timezone is not None:
        parse_timezone(new.timezone)


def patched_reminder(reminder: Reminder, patch: ReminderPatch | None = None) -> NewReminder:
    """Return a reminder as it would be set again, with the changes of `patch`."""
    fields = {name: value for name, value in asdict(reminder).items() if name in NewReminder.__struct_fields__}
    if reminder.trigger_type is TriggerType.TIME and reminder.recurrence == reminder.trigger_value:
        fields["recurrence"] = None  # a cron expression recurs by itself
    return NewReminder(**fields | ({} if patch is None else patch.changes))


def reminder_run(new: NewReminder) -> RunAction | None:
    """Return the run that a reminder starts: on its thread, unless another is given."""
    action = new.action
    if action is not None and action.thread_id is None and not action.new_thread:
        return replace(action, thread_id=new.thread_id)
    return action


def reminder_trigger(new: NewReminder, *, now: Millis) -> ReminderTrigger:
    """Return the trigger of a reminder, or raise `Invalid`: a time in the past is refused as it was understood."""
    condition: Condition | None = None
    cron: str | None = None
    at: Instant | None = None
    first_due: Millis | None = None
    if new.trigger_type is TriggerType.TIME:
        cron, at = _time_trigger(new, now=now)
        if at is not None and cron is not None:
            first_due = millis(at)
            at = None
    else:
        condition = _condition_of(new)
        if new.recurrence not in (None, ALWAYS):
            message = f"the `recurrence` of a {new.trigger_type} is `{ALWAYS}` or null"
            raise Invalid(message, field="recurrence")
        if isinstance(condition, JudgeCondition):
            cron = condition.schedule
            check_cron(cron, timezone=new.timezone or DEFAULT_TIMEZONE, field="trigger_value")
    plan = SchedulePlan(
        action=RemindAction(run=reminder_run(new), judge=condition if isinstance(condition, JudgeCondition) else None),
        at=at,
        cron=cron,
        timezone=new.timezone or DEFAULT_TIMEZONE,
        misfire=Misfire.ONCE,
        misfire_window_seconds=None,  # a late reminder is better than none
    )
    check_schedule_plan(plan)
    return ReminderTrigger(plan=plan, first_due=first_due, condition=condition)


def _time_trigger(new: NewReminder, *, now: Millis) -> tuple[str | None, Instant | None]:
    """Return the cron expression and the first instant of a reminder at a time."""
    value = new.trigger_value
    if not isinstance(value, str) or not value.strip():
        raise Invalid("`trigger_value` of a time is text, such as `in 2 h` or `0 9 * * 1-5`", field="trigger_value")
    zone = new.timezone or DEFAULT_TIMEZONE
    if is_cron(value):
        if new.recurrence is not None and new.recurrence != value:
            raise Invalid("a cron expression recurs by itself: remove `recurrence`", field="recurrence")
        return check_cron(value.strip(), timezone=zone, field="trigger_value"), None
    at = parse_time(value, timezone=new.timezone, now=now)
    if millis(at) <= now:
        message = f"`{value[:100]}` is in the past: it was understood as {at}, and now it is {instant(now)}"
        raise Invalid(message, field="trigger_value", understood=at)
    if new.recurrence is None:
        return None, at
    return check_cron(new.recurrence, timezone=zone, field="recurrence"), at


def _condition_of(new: NewReminder) -> Condition:
    if new.trigger_type is TriggerType.CONDITION:
        return parse_condition(new.trigger_value)
    return parse_context(new.content if new.trigger_value is None else new.trigger_value, thread_id=new.thread_id)


def snooze_until(text: str, *, timezone: str | None, now: Millis) -> Millis:
    """Return the end of a snooze, which must be in the future."""
    try:
        until = millis(parse_time(text, timezone=timezone, now=now))
    except Invalid as exc:
        raise Invalid(exc.message, field="until") from exc
    if until <= now:
        message = f"`{text[:100]}` is in the past: it was understood as {instant(until)}, and now it is {instant(now)}"
        raise Invalid(message, field="until", understood=instant(until))
    return until


def check_open(reminder: ReminderId, status: ReminderStatus) -> None:
    """Raise `Conflict` if a reminder was completed or dismissed."""
    if status in (ReminderStatus.COMPLETED, ReminderStatus.DISMISSED):
        message = f"reminder `{reminder}` was {status}: give it another `trigger_value` to use it again"
        raise Conflict(message, id=reminder)


def settled_status(reminder: Reminder, to: ReminderStatus) -> ReminderStatus:
    """Return the status after a reminder is completed or dismissed.

    Completing a recurring reminder waits for its next time; dismissing one ends it. Both may be repeated.
    """
    if reminder.status is to:
        return to
    check_open(reminder.id, reminder.status)
    recurs = reminder.recurrence is not None and to is ReminderStatus.COMPLETED
    return ReminderStatus.PENDING if recurs else to


def describe_reminder(reminder: Reminder) -> str:
    """Return a reminder as one line for a model."""
    context = "" if reminder.context is None else f" (context: {' '.join(reminder.context.split())})"
    reason = "" if reminder.trigger_reason is None else f"; {reminder.trigger_reason}"
    since = reminder.triggered_at or reminder.created_at
    content = " ".join(reminder.content.split())
    return f"- `{reminder.id}` [{reminder.priority}, since {since}{reason}] {content}{context}"
