"""Port of reminders."""

from typing import Final, Protocol

from holdfast.domain.ids import ReminderId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.reminder import NewReminder, Reminder, ReminderFilter, ReminderPatch, ReminderStatus

MAX_REMINDERS_PER_TURN: Final = 100
"""Reminders that a turn reads; how many of them the model gets depends on their length."""


class Reminders(Protocol):
    """Reminders of a space. Each method is one transaction. `Schedules` fires them."""

    async def create(self, space: SpaceId, new: NewReminder) -> Reminder:
        """Set a reminder with its schedule; a taken id is refused (`IdTaken`), and so is a time in the past."""

    async def get(self, space: SpaceId, reminder: ReminderId) -> Reminder:
        """Return the reminder, or raise `NotFound`."""

    async def page(
        self,
        space: SpaceId,
        *,
        where: ReminderFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Reminder]:
        """Return reminders, highest priority first, then newest."""

    async def of_turn(self, space: SpaceId, thread: ThreadId, *, owner: str | None) -> list[Reminder]:
        """Return the triggered reminders of a thread, and those of `owner` without a thread; highest priority first.

        Within a priority, the one that was triggered last comes first. A reminder whose context a message has met is
        among them from the transaction that stored the message.
        """

    async def update(self, space: SpaceId, reminder: ReminderId, patch: ReminderPatch) -> Reminder:
        """Change the fields that `patch` sets; another trigger makes the reminder pending again."""

    async def snooze(
        self, space: SpaceId, reminder: ReminderId, *, until: str, timezone: str | None = None
    ) -> Reminder:
        """Make a reminder pending until a time, at which it is triggered whatever its condition is."""

    async def settle(self, space: SpaceId, reminder: ReminderId, *, to: ReminderStatus) -> Reminder:
        """Complete or dismiss a reminder. A recurring one that is completed waits for its next time."""

    async def delete(self, space: SpaceId, reminder: ReminderId) -> None:
        """Delete a reminder with its schedule and its firings."""
