"""Reminders in SQL. Whatever changes one locks its schedule first; `store/firings.py` triggers them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.domain.cron import is_cron
from holdfast.domain.errors import IdTaken
from holdfast.domain.ids import ReminderId, ScheduleId, SpaceId, ThreadId
from holdfast.domain.instant import Millis, instant, maybe_instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.reminder import (
    NewReminder,
    Reminder,
    ReminderFilter,
    ReminderPatch,
    ReminderStatus,
    ReminderTrigger,
    TriggerType,
    check_new_reminder,
    check_open,
    patched_reminder,
    priority_of_rank,
    reminder_trigger,
    settled_status,
    snooze_until,
)
from holdfast.domain.schedule import NewSchedule, RunAction, ScheduleKind, ScheduleState, first_due
from holdfast.ports.reminders import MAX_REMINDERS_PER_TURN
from holdfast.store.conditions import arm_condition
from holdfast.store.encoding import dump_json, dump_optional_json, load_json, load_optional_json, parse_cursor, to_page
from holdfast.store.firings import load_plan
from holdfast.store.schedules import add_schedule, arm_schedule, drop_schedule
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, store_time, writes

_action_decoder = msgspec.json.Decoder(RunAction)


class SqlReminders(SqlPort):
    """Implements `Reminders`."""

    @writes
    async def create(self, tx: Transaction, space: SpaceId, new: NewReminder) -> Reminder:
        """Set a reminder with its schedule."""
        key = await lock_space_shared(tx, space)
        check_new_reminder(new)
        now = await store_time(tx)
        trigger = reminder_trigger(new, now=now)
        reminder_id = new.id or ReminderId(tx.new_id("rem"))
        values = _values(new)
        row = await tx.one(
            "add_reminder",
            space_key=key,
            id=reminder_id,
            owner=new.owner,
            run_id=new.run_id,
            taint=dump_json(list(new.taint)),
            now=tx.now,
            **values,
        )
        if row is None:
            raise IdTaken(f"there is a reminder `{reminder_id}` already: choose another id", id=reminder_id)
        schedule = NewSchedule(
            id=ScheduleId(reminder_id), kind=ScheduleKind.REMINDER, plan=trigger.plan, created_by=new.owner
        )
        await add_schedule(tx, key, schedule, decided_at=now)
        await _arm(tx, await find_row(tx, "lock_reminder", "reminder", space=space, id=reminder_id), trigger)
        return to_reminder(await find_row(tx, "reminder", "reminder", space=space, id=reminder_id))

    @reads
    async def get(self, tx: Transaction, space: SpaceId, reminder: ReminderId) -> Reminder:
        """Return the reminder."""
        return to_reminder(await find_row(tx, "reminder", "reminder", space=space, id=reminder))

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        *,
        where: ReminderFilter | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Reminder]:
        """Return reminders, highest priority first."""
        check_page_size(limit)
        rank, before = parse_cursor(cursor, first_page=[9, 2**62])
        where = where or ReminderFilter()
        rows = await tx.all(
            "list_reminders",
            space_key=await space_key(tx, space),
            rank=rank,
            before=before,
            status=where.status and where.status.value,
            priority=None if where.priority is None else where.priority.rank,
            trigger_type=where.trigger_type and where.trigger_type.value,
            thread_id=where.thread_id,
            limit=limit + 1,
        )
        return to_page(rows, limit, value=to_reminder, cursor=lambda row: f"{row['priority']}.{row['reminder_key']}")

    async def of_turn(self, space: SpaceId, thread: ThreadId, *, owner: str | None) -> list[Reminder]:
        """Return the reminders that a turn of a thread gets."""

        async def read(tx: Transaction) -> list[Reminder]:
            rows = await tx.all(
                "reminders_of_turn",
                space_key=await space_key(tx, space),
                thread_id=thread,
                owner=owner,
                limit=MAX_REMINDERS_PER_TURN,
            )
            return [to_reminder(row) for row in rows]

        return await self._database.read(read, quick=True)

    @writes
    async def update(self, tx: Transaction, space: SpaceId, reminder: ReminderId, patch: ReminderPatch) -> Reminder:
        """Change the fields that `patch` sets."""
        row = await find_row(tx, "lock_reminder", "reminder", space=space, id=reminder)
        new = patched_reminder(to_reminder(row), patch)
        check_new_reminder(new)
        # A time that has passed stays valid as long as the trigger is not changed.
        now = await store_time(tx) if patch.changes_trigger else row["created_at"]
        trigger = reminder_trigger(new, now=Millis(now))
        plan = trigger.plan if patch.changes_trigger else replace(load_plan(row), action=trigger.plan.action)
        await tx.run("update_reminder", reminder_key=row["reminder_key"], now=tx.now, **_values(new))
        await tx.run("set_schedule_plan", schedule_key=row["schedule_key"], plan=dump_json(plan), now=tx.now)
        if patch.changes_trigger:
            await _set_status(tx, row, ReminderStatus.PENDING)
            await _arm(tx, row, trigger)
        return to_reminder(await find_row(tx, "reminder", "reminder", space=space, id=reminder))

    @writes
    async def snooze(
        self, tx: Transaction, space: SpaceId, reminder: ReminderId, *, until: str, timezone: str | None = None
    ) -> Reminder:
        """Make a reminder pending until a time."""
        row = await find_row(tx, "lock_reminder", "reminder", space=space, id=reminder)
        check_open(reminder, ReminderStatus(row["status"]))
        at = snooze_until(until, timezone=timezone or row["timezone"], now=await store_time(tx))
        await tx.run("disarm_condition", reminder_key=row["reminder_key"])
        await _set_status(tx, row, ReminderStatus.PENDING, snoozed_until=at)
        await arm_schedule(tx, row, at)
        return to_reminder(await find_row(tx, "reminder", "reminder", space=space, id=reminder))

    @writes
    async def settle(self, tx: Transaction, space: SpaceId, reminder: ReminderId, *, to: ReminderStatus) -> Reminder:
        """Complete or dismiss a reminder."""
        row = await find_row(tx, "lock_reminder", "reminder", space=space, id=reminder)
        found = to_reminder(row)
        status = settled_status(found, to)
        if status is found.status:
            return found
        await _set_status(tx, row, status)
        if status is not ReminderStatus.PENDING:
            await tx.run("disarm_condition", reminder_key=row["reminder_key"])
            state = ScheduleState.ENDED.value
            await tx.run("advance_schedule", schedule_key=row["schedule_key"], state=state, due_at=None)
            await tx.run("disarm_timer", space_key=row["space_key"], id=row["id"])
        elif found.trigger_type is not TriggerType.TIME:  # a recurring time has its next due time already
            await _arm(tx, row, reminder_trigger(patched_reminder(found), now=await store_time(tx)))
        return to_reminder(await find_row(tx, "reminder", "reminder", space=space, id=reminder))

    @writes
    async def delete(self, tx: Transaction, space: SpaceId, reminder: ReminderId) -> None:
        """Delete a reminder with its schedule and its firings."""
        row = await find_row(tx, "lock_reminder", "reminder", space=space, id=reminder)
        for statement in ("drop_reminder_terms", "drop_condition", "drop_reminder"):
            await tx.run(statement, reminder_key=row["reminder_key"])
        await drop_schedule(tx, row)


async def _set_status(
    tx: Transaction, row: Row, status: ReminderStatus, *, snoozed_until: Millis | None = None
) -> None:
    key = row["reminder_key"]
    await tx.run("set_reminder_status", reminder_key=key, status=status.value, snoozed_until=snoozed_until, now=tx.now)


async def _arm(tx: Transaction, row: Row, trigger: ReminderTrigger) -> None:
    """Let a reminder wait for its trigger: for a time, a condition, or both."""
    due = trigger.first_due or first_due(trigger.plan, now=await store_time(tx))
    if trigger.condition is None:
        for statement in ("drop_reminder_terms", "drop_condition"):
            await tx.run(statement, reminder_key=row["reminder_key"])
    else:
        due = await arm_condition(tx, row, trigger.condition) or due
    await arm_schedule(tx, row, due)


def _values(new: NewReminder) -> dict[str, Any]:
    return {
        "content": new.content,
        "context": new.context,
        "trigger_type": new.trigger_type.value,
        "trigger_value": dump_optional_json(new.trigger_value),
        "timezone": new.timezone,
        "priority": new.priority.rank,
        "recurrence": _recurrence(new),
        "action": dump_optional_json(new.action),
        "thread_id": new.thread_id,
    }


def _recurrence(new: NewReminder) -> str | None:
    """Return the recurrence of a reminder; a cron expression as the time is one."""
    value = new.trigger_value
    cron = new.trigger_type is TriggerType.TIME and isinstance(value, str) and is_cron(value)
    return value.strip() if cron and isinstance(value, str) else new.recurrence


def to_reminder(row: Row) -> Reminder:
    """Return the reminder of a row."""
    action = row["action"]
    return Reminder(
        id=row["id"],
        space_id=row["space_id"],
        content=row["content"],
        context=row["context"],
        trigger_type=TriggerType(row["trigger_type"]),
        trigger_value=load_optional_json(row["trigger_value"]),
        timezone=row["timezone"],
        priority=priority_of_rank(row["priority"]),
        status=ReminderStatus(row["status"]),
        recurrence=row["recurrence"],
        action=None if action is None else _action_decoder.decode(action),
        thread_id=row["thread_id"],
        owner=row["owner"],
        run_id=row["run_id"],
        taint=load_json(row["taint"]),
        next_due_at=maybe_instant(row["due_at"]),
        snoozed_until=maybe_instant(row["snoozed_until"]),
        triggered_at=maybe_instant(row["triggered_at"]),
        trigger_reason=row["trigger_reason"],
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )
