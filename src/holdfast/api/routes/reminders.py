"""Routes for reminders."""

from typing import Annotated

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.bodies import Id
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import Cursor, IdQuery, Limit, PortDependency, space_paths
from holdfast.control.reminders import ReminderControl
from holdfast.domain.ids import ReminderId, SpaceId, ThreadId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.reminder import (
    MAX_CONTENT_CHARS,
    MAX_CONTEXT_CHARS,
    NewReminder,
    Reminder,
    ReminderFilter,
    ReminderPatch,
    ReminderPriority,
    ReminderStatus,
    TriggerType,
    TriggerValue,
)
from holdfast.domain.schedule import RunAction
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.reminders import Reminders

_TAGS = ["reminders"]
_ONE = space_paths("/reminders/{reminder_id:str}")
_Content = Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS)]
_Context = Annotated[str, Meta(max_length=MAX_CONTEXT_CHARS)]


class ReminderBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new reminder."""

    content: _Content
    trigger_type: TriggerType
    trigger_value: TriggerValue | None = None
    """A time, a condition as an object, or the words of a context; a context without it is about the content."""
    context: _Context | None = None
    timezone: str | None = None
    priority: ReminderPriority = ReminderPriority.NORMAL
    recurrence: str | None = None
    action: RunAction | None = None
    thread_id: Annotated[ThreadId, Id] | None = None
    id: Annotated[ReminderId, Id] | None = None


class ReminderChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a reminder; an absent field stays as it is."""

    content: _Content | UnsetType = UNSET
    context: _Context | None | UnsetType = UNSET
    trigger_type: TriggerType | UnsetType = UNSET
    trigger_value: TriggerValue | None | UnsetType = UNSET
    timezone: str | None | UnsetType = UNSET
    priority: ReminderPriority | UnsetType = UNSET
    recurrence: str | None | UnsetType = UNSET
    action: RunAction | None | UnsetType = UNSET
    thread_id: Annotated[ThreadId, Id] | None | UnsetType = UNSET


class SnoozeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to snooze."""

    until: str
    """A time as for a reminder, such as `in 10 min`."""
    timezone: str | None = None


@get(space_paths("/reminders"), summary="List reminders", tags=_TAGS)
async def list_reminders(
    reminder_store: PortDependency[Reminders],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    status: FromQuery[ReminderStatus | None] = None,
    priority: FromQuery[ReminderPriority | None] = None,
    trigger: Annotated[TriggerType | None, QueryParameter(description="Only with this trigger.")] = None,
    thread_id: IdQuery = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Reminder]:
    """Return reminders, highest priority first, then newest."""
    thread = None if thread_id is None else ThreadId(thread_id)
    where = ReminderFilter(status=status, priority=priority, trigger_type=trigger, thread_id=thread)
    return await reminder_store.page(space_id, where=where, limit=limit, cursor=cursor)


@post(space_paths("/reminders"), summary="Set a reminder", tags=_TAGS, opt={"headers": {"201": REPLAYED_HEADER}})
async def create_reminder(
    reminders: NamedDependency[ReminderControl],
    data: JSONBody[ReminderBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Reminder]:
    """Set a reminder for a time, a condition or a context. A time in the past is refused as it was understood."""
    request = keyed_request("create_reminder", key, [data])
    new = NewReminder(**msgspec.structs.asdict(data))
    return keyed_response(await reminders.create(space_id, new, request=request))


@get(_ONE, summary="Read a reminder", tags=_TAGS)
async def read_reminder(
    reminder_store: PortDependency[Reminders],
    reminder_id: FromPath[ReminderId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Reminder:
    """Return a reminder. Its firings are those of the schedule with the same id."""
    return await reminder_store.get(space_id, reminder_id)


@patch(_ONE, summary="Change a reminder", tags=_TAGS)
async def update_reminder(
    reminders: NamedDependency[ReminderControl],
    reminder_id: FromPath[ReminderId],
    data: JSONBody[ReminderChanges],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Reminder:
    """Change the given fields; another trigger makes the reminder pending again."""
    return await reminders.update(space_id, reminder_id, ReminderPatch(**msgspec.structs.asdict(data)))


@delete(_ONE, summary="Delete a reminder", tags=_TAGS)
async def delete_reminder(
    reminder_store: PortDependency[Reminders],
    reminder_id: FromPath[ReminderId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> None:
    """Delete a reminder with its firings; its runs stay."""
    await reminder_store.delete(space_id, reminder_id)


@post(
    space_paths("/reminders/{reminder_id:str}/trigger"),
    summary="Trigger a reminder",
    tags=_TAGS,
    status_code=200,
    opt={"headers": {"200": REPLAYED_HEADER}},
)
async def trigger_reminder(
    reminders: NamedDependency[ReminderControl],
    reminder_id: FromPath[ReminderId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Reminder]:
    """Trigger a reminder now, whatever it waits for."""
    request = keyed_request("trigger_reminder", key, [reminder_id])
    return keyed_response(await reminders.trigger(space_id, reminder_id, request=request))


@post(space_paths("/reminders/{reminder_id:str}/snooze"), summary="Snooze a reminder", tags=_TAGS, status_code=200)
async def snooze_reminder(
    reminder_store: PortDependency[Reminders],
    reminder_id: FromPath[ReminderId],
    data: JSONBody[SnoozeBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Reminder:
    """Make a reminder pending until a time, at which it is triggered again."""
    return await reminder_store.snooze(space_id, reminder_id, until=data.until, timezone=data.timezone)


@post(space_paths("/reminders/{reminder_id:str}/complete"), summary="Complete a reminder", tags=_TAGS, status_code=200)
async def complete_reminder(
    reminder_store: PortDependency[Reminders],
    reminder_id: FromPath[ReminderId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Reminder:
    """Mark a reminder as done; a recurring one waits for its next time."""
    return await reminder_store.settle(space_id, reminder_id, to=ReminderStatus.COMPLETED)


@post(space_paths("/reminders/{reminder_id:str}/dismiss"), summary="Dismiss a reminder", tags=_TAGS, status_code=200)
async def dismiss_reminder(
    reminder_store: PortDependency[Reminders],
    reminder_id: FromPath[ReminderId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Reminder:
    """End a reminder, also a recurring one."""
    return await reminder_store.settle(space_id, reminder_id, to=ReminderStatus.DISMISSED)


ROUTES: list[HTTPRouteHandler] = [
    list_reminders,
    create_reminder,
    read_reminder,
    update_reminder,
    delete_reminder,
    trigger_reminder,
    snooze_reminder,
    complete_reminder,
    dismiss_reminder,
]
