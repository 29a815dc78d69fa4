"""Routes for schedules and their firings, hook addresses, and daemons."""

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, keyed_response
from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.daemons import DaemonControl, DaemonDetail, DaemonList
from holdfast.control.schedules import MAX_HOOK_BODY_BYTES, MadeSchedule, ScheduleControl
from holdfast.domain.cron import DEFAULT_TIMEZONE
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ScheduleId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.schedule import (
    DEFAULT_WINDOW_SECONDS,
    MAX_JITTER_SECONDS,
    MAX_NAME_CHARS,
    MAX_WINDOW_SECONDS,
    Firing,
    FiringOutcome,
    Misfire,
    NewSchedule,
    NotifyAction,
    Overlap,
    RunAction,
    Schedule,
    ScheduleKind,
    SchedulePlan,
    ScheduleState,
)
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.ports.schedules import Schedules

_TAGS = ["schedules"]
_ONE = space_paths("/schedules/{schedule_id:str}")
_Id = Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]{1,128}$"})
_Window = Annotated[int, Meta(ge=0, le=MAX_WINDOW_SECONDS)]
_Jitter = Annotated[int, Meta(ge=0, le=MAX_JITTER_SECONDS)]
_Name = Annotated[str, Meta(extra_json_schema={"maxLength": MAX_NAME_CHARS})]
_State = Annotated[ScheduleState | None, QueryParameter(name="state", description="Only in this state.")]
"""`state` is a reserved name of the framework."""
SHOWN_TIMES: Final = 5


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new schedule: due `at` one instant or by a `cron` expression, or only fired by its hook or by hand."""

    action: RunAction | NotifyAction
    id: Annotated[ScheduleId, _Id] | None = None
    name: _Name | None = None
    at: Instant | None = None
    cron: str | None = None
    timezone: str = DEFAULT_TIMEZONE
    overlap: Overlap = Overlap.SKIP
    misfire: Misfire = Misfire.ONCE
    misfire_window_seconds: _Window | None = DEFAULT_WINDOW_SECONDS
    jitter_seconds: _Jitter = 0
    ends_at: Instant | None = None
    hook: bool = False
    """Whether to make a hook address; its token is in the response, once."""

    def new_schedule(self) -> NewSchedule:
        """Convert to the domain type."""
        fields = SchedulePlan.__struct_fields__
        if self.at is None and self.cron is None and not self.hook:
            raise Invalid("a schedule needs `at`, `cron` or a `hook`", field="cron")
        return NewSchedule(id=self.id, name=self.name, plan=SchedulePlan(**{f: getattr(self, f) for f in fields}))


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a schedule; an absent field stays as it is."""

    name: _Name | None | UnsetType = UNSET
    action: RunAction | NotifyAction | UnsetType = UNSET
    at: Instant | None | UnsetType = UNSET
    cron: str | None | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    misfire: Misfire | UnsetType = UNSET
    misfire_window_seconds: _Window | None | UnsetType = UNSET
    jitter_seconds: _Jitter | UnsetType = UNSET
    ends_at: Instant | None | UnsetType = UNSET
    hook: bool | UnsetType = UNSET
    """True makes a new token for the hook address, false removes the address."""

    def plan_changes(self) -> dict[str, Any]:
        """Return the given fields of the plan."""
        fields = SchedulePlan.__struct_fields__
        return {name: value for name in fields if (value := getattr(self, name)) is not UNSET}


class ScheduleDetail(Schedule, frozen=True, kw_only=True):
    """A schedule with its next due times."""

    upcoming: list[Instant]


@get(space_paths("/schedules"), summary="List schedules", tags=_TAGS)
async def list_schedules(
    schedule_store: PortDependency[Schedules],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    kind: FromQuery[ScheduleKind] = ScheduleKind.SCHEDULE,
    only_state: _State = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Schedule]:
    """Return the schedules of one kind, newest first: of the API, of daemons, or of reminders."""
    return await schedule_store.page(space_id, kind=kind, state=only_state, limit=limit, cursor=cursor)


@post(
    space_paths("/schedules"),
    summary="Create a schedule",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def create_schedule(
    schedules: NamedDependency[ScheduleControl],
    data: JSONBody[ScheduleBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[MadeSchedule]:
    """Create a schedule. The run that it starts is checked now: an unknown agent or thread is refused."""
    request = keyed_request("create_schedule", key, [data])
    return keyed_response(await schedules.create(space_id, data.new_schedule(), hook=data.hook, request=request))


@get(_ONE, summary="Read a schedule", tags=_TAGS)
async def read_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> ScheduleDetail:
    """Return a schedule with its next five due times."""
    found, upcoming = await schedules.detail(space_id, schedule_id, count=SHOWN_TIMES)
    return ScheduleDetail(**msgspec.structs.asdict(found), upcoming=upcoming)


@patch(_ONE, summary="Change a schedule", tags=_TAGS)
async def update_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    data: JSONBody[ScheduleChanges],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> MadeSchedule:
    """Change the given fields; with another time, the next due time is counted from now."""
    hook = None if data.hook is UNSET else data.hook
    return await schedules.update(space_id, schedule_id, name=data.name, changes=data.plan_changes(), hook=hook)


@delete(_ONE, summary="Delete a schedule", tags=_TAGS)
async def delete_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> None:
    """Delete a schedule with its firings; its runs stay."""
    await schedules.delete(space_id, schedule_id)


@post(
    space_paths("/schedules/{schedule_id:str}/run"),
    summary="Fire a schedule now",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def run_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[Firing]:
    """Fire a schedule now; its next due time stays. The overlap policy may skip it."""
    request = keyed_request("run_schedule", key, [schedule_id])
    return keyed_response(await schedules.run(space_id, schedule_id, request=request))


@post(space_paths("/schedules/{schedule_id:str}/pause"), summary="Pause a schedule", tags=_TAGS, status_code=200)
async def pause_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Schedule:
    """Pause a schedule: it is not due, and its hook is closed, until it is resumed."""
    return await schedules.set_paused(space_id, schedule_id, paused=True)


@post(space_paths("/schedules/{schedule_id:str}/resume"), summary="Resume a schedule", tags=_TAGS, status_code=200)
async def resume_schedule(
    schedules: NamedDependency[ScheduleControl],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
) -> Schedule:
    """Resume a schedule; the next due time is counted from now."""
    return await schedules.set_paused(space_id, schedule_id, paused=False)


@get(space_paths("/schedules/{schedule_id:str}/firings"), summary="List the firings of a schedule", tags=_TAGS)
async def list_firings(
    schedule_store: PortDependency[Schedules],
    schedule_id: FromPath[ScheduleId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    outcome: FromQuery[FiringOutcome | None] = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[Firing]:
    """Return what came of each due time, newest first: fired, skipped, missed or failed, with the reason."""
    return await schedule_store.firings(space_id, schedule_id, outcome=outcome, limit=limit, cursor=cursor)


ROUTES: list[HTTPRouteHandler] = [
    list_schedules,
    create_schedule,
    read_schedule,
    update_schedule,
    delete_schedule,
    run_schedule,
    pause_schedule,
    resume_schedule,
    list_firings,
]

_WebhookId = Annotated[
    str | None,
    HeaderParameter(
        name="webhook-id",
        min_length=1,
        max_length=255,
        description="The id of the delivery: the same id starts one run.",
    ),
]


@post(
    "/hooks/{token:str}",
    summary="Deliver to a hook address",
    tags=_TAGS,
    status_code=202,
    request_max_body_size=MAX_HOOK_BODY_BYTES,
    opt={"body": {"application/octet-stream": bytes}},
)
async def deliver_hook(
    schedules: NamedDependency[ScheduleControl],
    request: Request[Any, Any, Any],
    token: FromPath[str],
    delivery: _WebhookId = None,
) -> Firing:
    """Fire the schedule of a hook address, with the body as untrusted input of its run."""
    raw = await request.body()
    try:
        body = raw.decode()
    except UnicodeDecodeError as exc:
        raise Invalid("the body is not in UTF-8", field="body") from exc
    if "\x00" in body:
        raise Invalid("the body contains a NUL character", field="body")
    return await schedules.deliver(token, body, delivery=delivery)


_DAEMON_TAGS = ["daemons"]


class TriggerBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The heartbeat to run."""

    heartbeat: str | None = None
    """Needed only if the daemon has several."""


_ANY_HEARTBEAT = TriggerBody()


@get("/daemons", summary="List daemons", tags=_DAEMON_TAGS)
async def list_daemons(daemons: NamedDependency[DaemonControl]) -> DaemonList:
    """Return the agents with heartbeats, and when each is due."""
    return await daemons.all()


@get("/daemons/{name:str}", summary="Read a daemon", tags=_DAEMON_TAGS)
async def read_daemon(daemons: NamedDependency[DaemonControl], name: FromPath[str]) -> DaemonDetail:
    """Return a daemon with its last 50 firings."""
    return await daemons.get(name)


@post("/daemons/{name:str}/start", summary="Start a daemon", tags=_DAEMON_TAGS, status_code=200)
async def start_daemon(daemons: NamedDependency[DaemonControl], name: FromPath[str]) -> DaemonDetail:
    """Start a daemon that was stopped; its heartbeats are due from now on."""
    return await daemons.set_stopped(name, stopped=False)


@post("/daemons/{name:str}/stop", summary="Stop a daemon", tags=_DAEMON_TAGS, status_code=200)
async def stop_daemon(daemons: NamedDependency[DaemonControl], name: FromPath[str]) -> DaemonDetail:
    """Stop a daemon until it is started, also over restarts of the server. Active runs continue."""
    return await daemons.set_stopped(name, stopped=True)


@post(
    "/daemons/{name:str}/trigger",
    summary="Run a heartbeat now",
    tags=_DAEMON_TAGS,
    status_code=202,
    opt={"headers": {"202": REPLAYED_HEADER}},
)
async def trigger_daemon(
    daemons: NamedDependency[DaemonControl],
    name: FromPath[str],
    data: JSONBody[TriggerBody] = _ANY_HEARTBEAT,
    key: IdempotencyKey = None,
) -> Response[Firing]:
    """Run a heartbeat now, also of a stopped daemon."""
    request = keyed_request("trigger_daemon", key, [name, data])
    return keyed_response(await daemons.trigger(name, heartbeat=data.heartbeat, request=request))


HOOK_ROUTES: list[HTTPRouteHandler] = [
    deliver_hook,
    list_daemons,
    read_daemon,
    start_daemon,
    stop_daemon,
    trigger_daemon,
]
