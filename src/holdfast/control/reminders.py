"""Reminders: commands of people and clients, and the tools with which agents set and settle them."""

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.control.schedules import FiringControl
from holdfast.domain.commit import Lease
from holdfast.domain.condition import JudgeCondition, parse_condition
from holdfast.domain.content import Json
from holdfast.domain.errors import IdTaken, Invalid
from holdfast.domain.idempotency import KeyedRequest, KeyedResult, derived_id
from holdfast.domain.ids import ReminderId, ScheduleId, SpaceId, ThreadId
from holdfast.domain.permission import RIGHTS_VALUE
from holdfast.domain.reminder import (
    NewReminder,
    Reminder,
    ReminderFilter,
    ReminderPatch,
    ReminderStatus,
    TriggerType,
    check_new_reminder,
    check_open,
    patched_reminder,
    reminder_run,
    reminder_trigger,
)
from holdfast.domain.schedule import Firing, FiringCause, RunAction
from holdfast.domain.thread import check_not_deleted
from holdfast.domain.tool import ToolReply
from holdfast.domain.untrusted import read_taint, taint_source_name
from holdfast.ports.log import Values
from holdfast.ports.reminders import Reminders
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import Threads
from holdfast.ports.runtime import Clock
from holdfast.ports.schedules import Schedules
from holdfast.tools.arguments import parse_arguments
from holdfast.tools.builtin.reminders import ListRemindersArguments, SetReminderArguments, SettleReminderArguments


class ReminderControl:
    """Commands for reminders."""

    def __init__(
        self,
        *,
        reminders: Reminders,
        schedules: Schedules,
        threads: Threads,
        firing: FiringControl,
        requests: KeyedRequests,
        clock: Clock,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the owner of new reminders."""
        self._reminders = reminders
        self._schedules = schedules
        self._threads = threads
        self._firing = firing
        self._requests = requests
        self._clock = clock
        self._principal = principal

    async def create(
        self, space: SpaceId, new: NewReminder, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Reminder]:
        """Set a reminder. Its thread and the run that it would start are checked now."""
        earlier = await self._requests.find(space, request, kind=str)
        if earlier is not None:
            return KeyedResult(value=await self._reminders.get(space, ReminderId(earlier)), replayed=True)
        await self.check(space, new)
        owned = replace(new, owner=self._principal) if new.owner is None else new

        async def create(ports: RequestPorts) -> str:
            return (await ports.reminders.create(space, owned)).id

        done = await self._requests.once(space, request, kind=str, create=create)
        return KeyedResult(value=await self._reminders.get(space, ReminderId(done.value)), replayed=done.replayed)

    async def check(self, space: SpaceId, new: NewReminder) -> None:
        """Raise if a reminder is not valid, or could not do now what it asks for."""
        check_new_reminder(new)
        trigger = reminder_trigger(new, now=self._clock.now())
        if new.thread_id is not None:
            thread = await self._threads.get(space, new.thread_id)
            check_not_deleted(thread.id, thread.status)
        await self._firing.check_plan(space, trigger.plan)
        if trigger.condition is not None:
            await self._firing.check_condition(space, trigger.condition)

    async def update(self, space: SpaceId, reminder: ReminderId, patch: ReminderPatch) -> Reminder:
        """Change a reminder; what changes is checked as for a new one."""
        new = patched_reminder(await self._reminders.get(space, reminder), patch)
        if patch.changes_trigger:
            await self.check(space, new)
        elif isinstance(patch.action, RunAction) and (action := reminder_run(new)) is not None:
            await self._firing.check_run(space, action)
        if isinstance(patch.thread_id, str):
            thread = await self._threads.get(space, patch.thread_id)
            check_not_deleted(thread.id, thread.status)
        return await self._reminders.update(space, reminder, patch)

    async def trigger(
        self, space: SpaceId, reminder: ReminderId, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Reminder]:
        """Trigger a reminder now, whatever it waits for."""
        earlier = await self._requests.find(space, request, kind=Firing)
        if earlier is None:
            check_open(reminder, (await self._reminders.get(space, reminder)).status)
        schedule = await self._schedules.get(space, ScheduleId(reminder))
        fired = await self._firing.trigger(schedule, cause=FiringCause.MANUAL, request=request)
        return KeyedResult(value=await self._reminders.get(space, reminder), replayed=fired.replayed)


class ReminderTools:
    """The tools `set_reminder`, `list_reminders`, `complete_reminder` and `dismiss_reminder`."""

    def __init__(self, *, control: ReminderControl, reminders: Reminders, values: Values) -> None:
        self._control = control
        self._reminders = reminders
        self._values = values

    async def set(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Set a reminder; a repeated call finds the one that the first call set."""
        given = parse_arguments(arguments, SetReminderArguments)
        run, values = lease.run, await self._values.of_run(lease.space_id, lease.run_id)
        condition = parse_condition(given.trigger_value) if given.trigger_type is TriggerType.CONDITION else None
        judge = condition if isinstance(condition, JudgeCondition) else None
        if (given.run or judge) and (run.parent_run_id is not None or RIGHTS_VALUE in values):
            field = "run" if given.run else "trigger_value"
            raise Invalid("a sub-agent may not start runs with a reminder: leave out `run` and `judge`", field=field)
        if judge is not None and judge.agent not in (None, run.agent_type):
            message = f"an agent can only ask itself: leave out `agent`, or write `{run.agent_type}`"
            raise Invalid(message, field="trigger_value")
        own = None if judge is None else msgspec.to_builtins(replace(judge, agent=run.agent_type))
        taint = read_taint(values).names()
        new = NewReminder(
            id=ReminderId(derived_id("rem", key=key)),
            content=given.content,
            context=given.context,
            trigger_type=given.trigger_type,
            trigger_value=given.trigger_value if own is None else own,
            timezone=given.timezone,
            priority=given.priority,
            recurrence=given.recurrence,
            action=RunAction(agent=run.agent_type, limits=run.limits) if given.run else None,
            thread_id=None if given.any_thread else ThreadId(run.root_thread_id),
            owner=run.created_by,
            run_id=run.id,
            taint=taint,
        )
        await self._control.check(lease.space_id, new)
        try:
            reminder = await self._reminders.create(lease.space_id, new)
        except IdTaken:
            assert new.id is not None
            reminder = await self._reminders.get(lease.space_id, new.id)
        return ToolReply(content=_shown(reminder))

    async def list(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Return reminders of the space, highest priority first."""
        given = parse_arguments(arguments, ListRemindersArguments)
        where = ReminderFilter(status=given.status)
        page = await self._reminders.page(lease.space_id, where=where, limit=given.limit)
        tainted = next((reminder for reminder in page.items if reminder.taint), None)
        return ToolReply(
            content={"reminders": [_shown(reminder) for reminder in page.items]},
            untrusted=None if tainted is None else taint_source_name("reminder", tainted.id),
        )

    async def complete(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """Mark a reminder as done."""
        return await self._settle(lease, arguments, to=ReminderStatus.COMPLETED)

    async def dismiss(self, lease: Lease, arguments: dict[str, Json], *, key: str) -> ToolReply:
        """End a reminder that is not needed any more."""
        return await self._settle(lease, arguments, to=ReminderStatus.DISMISSED)

    async def _settle(self, lease: Lease, arguments: dict[str, Json], *, to: ReminderStatus) -> ToolReply:
        given = parse_arguments(arguments, SettleReminderArguments)
        settled = await self._reminders.settle(lease.space_id, ReminderId(given.reminder_id), to=to)
        return ToolReply(content={"reminder_id": settled.id, "status": settled.status.value})


def _shown(reminder: Reminder) -> dict[str, Any]:
    """Return the fields of a reminder that a model needs."""
    shown: dict[str, Any] = msgspec.to_builtins(reminder)
    names = ("content", "context", "status", "priority", "trigger_type", "trigger_value", "next_due_at", "recurrence")
    return {"reminder_id": reminder.id, **{name: shown[name] for name in names if shown[name] is not None}}
