"""The reminder tools: `set_reminder`, `list_reminders`, `complete_reminder` and `dismiss_reminder`.

The control plane runs them, because reminders belong to the space.
"""

from typing import Annotated, Final

from msgspec import Meta

from holdfast.domain.reminder import (
    MAX_CONTENT_CHARS,
    MAX_CONTEXT_CHARS,
    ReminderPriority,
    ReminderStatus,
    TriggerType,
    TriggerValue,
)
from holdfast.domain.tool import ToolClass
from holdfast.tools.typed_tool import ToolArguments, tool_spec


class SetReminderArguments(ToolArguments, frozen=True, kw_only=True):
    """Set a reminder, for a time, for when something happens, or for when a subject comes up again.

    When it is triggered, people are notified and you see it at the start of the next turn, until it is completed or
    dismissed.
    """

    content: Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS, description="What to be reminded of.")]
    trigger_type: Annotated[TriggerType, Meta(description="A time, a condition on events, or a context.")]
    trigger_value: Annotated[
        TriggerValue,
        Meta(
            description=(
                "time: `2026-01-31T09:00:00Z`, a local time with `timezone`, `in 2 h`, or a cron expression. "
                'condition: an object such as {"event": "run.failed", "agent": "bot", "count": 3, "within_seconds": '
                '3600}, {"metric": "cost_usd", "above": 5, "within_seconds": 86400} or {"silence": "run.completed", '
                '"for_seconds": 3600}. context: the words that a message must be about.'
            )
        ),
    ]
    priority: Annotated[ReminderPriority, Meta(description="How important it is.")] = ReminderPriority.NORMAL
    context: Annotated[
        Annotated[str, Meta(max_length=MAX_CONTEXT_CHARS)] | None, Meta(description="Background to read with it.")
    ] = None
    timezone: Annotated[str | None, Meta(description="The IANA time zone of a local time.")] = None
    recurrence: Annotated[
        str | None, Meta(description="time: a cron expression after the first time; otherwise `always`.")
    ] = None
    any_thread: Annotated[bool, Meta(description="Remind in the user's next thread, not only in this one.")] = False
    run: Annotated[bool, Meta(description="Also start a run of this agent when it is triggered.")] = False


class ListRemindersArguments(ToolArguments, frozen=True, kw_only=True):
    """List reminders, highest priority first."""

    status: Annotated[ReminderStatus | None, Meta(description="Only with this status.")] = None
    limit: Annotated[int, Meta(ge=1, le=50, description="How many.")] = 20


class SettleReminderArguments(ToolArguments, frozen=True, kw_only=True):
    """The reminder to settle."""

    reminder_id: Annotated[str, Meta(min_length=1, max_length=128, description="The id, such as `rem_…`.")]


class CompleteReminderArguments(SettleReminderArguments, frozen=True, kw_only=True):
    """Mark a reminder as done. A recurring one waits for its next time."""


class DismissReminderArguments(SettleReminderArguments, frozen=True, kw_only=True):
    """End a reminder that is not needed any more, also a recurring one."""


SET_REMINDER_SPEC: Final = tool_spec(SetReminderArguments, name="set_reminder", kind=ToolClass.IDEMPOTENT)
LIST_REMINDERS_SPEC: Final = tool_spec(
    ListRemindersArguments, name="list_reminders", kind=ToolClass.IDEMPOTENT, read_only=True
)
COMPLETE_REMINDER_SPEC: Final = tool_spec(
    CompleteReminderArguments, name="complete_reminder", kind=ToolClass.IDEMPOTENT
)
DISMISS_REMINDER_SPEC: Final = tool_spec(DismissReminderArguments, name="dismiss_reminder", kind=ToolClass.IDEMPOTENT)
