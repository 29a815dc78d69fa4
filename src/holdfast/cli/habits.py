"""`holdfast reminder …`, `schedule …`, `daemon …` and `webhook …`: what happens by itself, and who is told."""

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.arguments import (
    LimitOption,
    complete_agents,
    complete_items,
    complete_threads,
    decode_json,
)
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import print_json
from holdfast.cli.tables import one_line, print_done, print_list, print_object, short_time
from holdfast.domain.content import Json
from holdfast.domain.reminder import ReminderPriority, ReminderStatus, TriggerType
from holdfast.domain.schedule import Misfire, Overlap
from holdfast.domain.webhook import DeliveryState

if TYPE_CHECKING:
    from holdfast.client.sync.client import SyncClient

MAX_PAGE: Final = 100
reminder: Final = new_group("Set, list, snooze and settle reminders.")
schedule: Final = new_group("Create, list, run and pause schedules.")
daemon: Final = new_group("See, start, stop and trigger daemons.")
webhook: Final = new_group("Create, list and repair webhooks.")


def _call(hf: "SyncClient", method: str, path: str, *, body: Json = msgspec.UNSET, **query: Json) -> Any:
    """Send a request; a path without a leading slash is one of the space."""
    key = uuid.uuid4().hex if method == "POST" else None
    given = {name: value for name, value in query.items() if value is not None}
    target = path if path.startswith("/") else hf.path(f"/{path}")
    return msgspec.json.decode(hf.request(method, target, query=given, body=body, key=key) or b"null")


def _list(hf: "SyncClient", path: str, *, limit: int, **query: Json) -> Iterator[Any]:
    """Yield the items of a list, page by page."""
    cursor = None
    while limit > 0:
        page = _call(hf, "GET", path, limit=min(limit, MAX_PAGE), cursor=cursor, **query)
        yield from page["items"]
        limit -= len(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _one(noun: str, id: str, suffix: str = "") -> str:
    return f"{noun}s/{quote(id, safe='')}{suffix}"


def _given(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}


def _show(value: Mapping[str, Any]) -> None:
    print_object(value, list(value.items()))


def _print_made(value: Mapping[str, Any], *lines: str) -> None:
    """Print what a command made: its id and its secrets on stdout, or the object as JSON."""
    if options().as_json:
        print_json(value)
    else:
        typer.echo("\n".join(lines))


ReminderArgument = Annotated[
    str,
    typer.Argument(
        metavar="REMINDER_ID", autocompletion=complete_items("reminders", text="content"), help="The id of a reminder."
    ),
]
ScheduleArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE_ID", autocompletion=complete_items("schedules", text="name"), help="The id of a schedule."
    ),
]
DaemonArgument = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        autocompletion=complete_items("daemons", key="name", text="state"),
        help="The name of a daemon.",
    ),
]
WebhookArgument = Annotated[
    str,
    typer.Argument(
        metavar="WEBHOOK_ID", autocompletion=complete_items("webhooks", text="url"), help="The id of a webhook."
    ),
]
ZoneOption = Annotated[str | None, typer.Option(metavar="ZONE", help="The IANA zone of a local time or of cron.")]


@command(reminder, "set")
def set_reminder(
    content: Annotated[str, typer.Argument(metavar="CONTENT", help="What to be reminded of.")],
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="A time, a delay such as `in 2 h`, or a cron expression.")
    ] = None,
    when: Annotated[str | None, typer.Option(metavar="JSON", help="A condition, as a JSON object.")] = None,
    about: Annotated[str | None, typer.Option(metavar="WORDS", help="What a message must be about.")] = None,
    priority: Annotated[ReminderPriority, typer.Option(help="How important it is.")] = ReminderPriority.NORMAL,
    timezone: ZoneOption = None,
    thread: Annotated[
        str | None,
        typer.Option(metavar="THREAD_ID", autocompletion=complete_threads, help="Remind in this thread only."),
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="TEXT", help="Background to read with it.")] = None,
    recurrence: Annotated[
        str | None, typer.Option(metavar="CRON", help="Repeat by this cron expression, or `always` for a condition.")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="AGENT", autocompletion=complete_agents, help="Also start a run of this agent."),
    ] = None,
) -> None:
    """Set a reminder for a time, a condition or a context, and print its id."""
    triggers: list[tuple[TriggerType, Json]] = [
        (TriggerType.TIME, at),
        (TriggerType.CONDITION, None if when is None else decode_json(when, option="--when")),
        (TriggerType.CONTEXT, about),
    ]
    given = [(kind, value) for kind, value in triggers if value is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of `--at`, `--when` and `--about`", param_hint="--at")
    fields = {"timezone": timezone, "thread_id": thread, "context": context, "recurrence": recurrence}
    action = None if run is None else {"type": "run", "agent": run}
    body = {"content": content, "trigger_type": given[0][0], "trigger_value": given[0][1], "priority": priority}
    with connect() as hf:
        made = _call(hf, "POST", "reminders", body={**body, **_given({**fields, "action": action})})
    _print_made(made, made["id"])


@command(reminder, "list")
def list_reminders(
    status: Annotated[ReminderStatus | None, typer.Option(help="Only with this status.")] = None,
    priority: Annotated[ReminderPriority | None, typer.Option(help="Only with this priority.")] = None,
    trigger: Annotated[TriggerType | None, typer.Option(help="Only with this trigger.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List reminders, highest priority first."""
    with connect() as hf:
        print_list(
            _list(hf, "reminders", limit=limit, status=status, priority=priority, trigger=trigger),
            [
                ("reminder", lambda each: each["id"]),
                ("status", lambda each: each["status"]),
                ("priority", lambda each: each["priority"]),
                ("trigger", lambda each: each["trigger_type"]),
                ("due", lambda each: short_time(each["next_due_at"])),
                ("content", lambda each: one_line(each["content"])),
            ],
            empty="no reminders",
        )


@command(reminder, "show")
def show_reminder(reminder_id: ReminderArgument) -> None:
    """Show a reminder."""
    with connect() as hf:
        _show(_call(hf, "GET", _one("reminder", reminder_id)))


@command(reminder, "snooze")
def snooze_reminder(
    reminder_id: ReminderArgument,
    until: Annotated[str, typer.Argument(metavar="TIME", help="Until when, such as `in 10 min`.")],
    timezone: ZoneOption = None,
) -> None:
    """Snooze a reminder: it is triggered again at that time."""
    body = {"until": until, **_given({"timezone": timezone})}
    with connect() as hf:
        changed = _call(hf, "POST", _one("reminder", reminder_id, "/snooze"), body=body)
    print_done(changed, f"snoozed until {changed['snoozed_until']}")


def _settle(reminder_id: str, verb: str) -> None:
    with connect() as hf:
        changed = _call(hf, "POST", _one("reminder", reminder_id, f"/{verb}"))
    print_done(changed, f"{reminder_id} is {changed['status']}")


@command(reminder, "trigger")
def trigger_reminder(reminder_id: ReminderArgument) -> None:
    """Trigger a reminder now."""
    _settle(reminder_id, "trigger")


@command(reminder, "complete")
def complete_reminder(reminder_id: ReminderArgument) -> None:
    """Mark a reminder as done; a recurring one waits for its next time."""
    _settle(reminder_id, "complete")


@command(reminder, "dismiss")
def dismiss_reminder(reminder_id: ReminderArgument) -> None:
    """End a reminder, also a recurring one."""
    _settle(reminder_id, "dismiss")


@command(reminder, "delete")
def delete_reminder(reminder_id: ReminderArgument) -> None:
    """Delete a reminder with its firings."""
    with connect() as hf:
        _call(hf, "DELETE", _one("reminder", reminder_id))
    print_done({"deleted": reminder_id}, f"deleted {reminder_id}")


@command(schedule, "create")
def create_schedule(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="The agent to run.")] = None,
    input: Annotated[str | None, typer.Argument(metavar="INPUT", help="What it is told.")] = None,
    cron: Annotated[str | None, typer.Option(metavar="CRON", help="A cron expression, such as `0 9 * * 1-5`.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="One instant, such as `2026-01-31T09:00Z`.")] = None,
    timezone: ZoneOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name.")] = None,
    notify: Annotated[str | None, typer.Option(metavar="TEXT", help="Send a notification, not a run.")] = None,
    hook: Annotated[bool, typer.Option("--hook", help="Also make a hook address; its token is printed once.")] = False,
    overlap: Annotated[Overlap, typer.Option(help="While the last run is active.")] = Overlap.SKIP,
    misfire: Annotated[Misfire, typer.Option(help="For times that passed while no server ran.")] = Misfire.ONCE,
    new_thread: Annotated[bool, typer.Option("--new-thread", help="Begin a thread each time.")] = False,
) -> None:
    """Create a schedule that runs AGENT with INPUT, or sends a notification, and print its id."""
    if (agent is None) == (notify is None):
        raise typer.BadParameter("give an AGENT or `--notify`", param_hint="AGENT")
    action: dict[str, Json] = {"type": "notify", "message": notify}
    if agent is not None:
        action = {"type": "run", "agent": agent, "new_thread": new_thread, **_given({"input": input})}
    body = _given({"cron": cron, "at": at, "timezone": timezone, "name": name})
    body |= {"action": action, "hook": hook, "overlap": overlap, "misfire": misfire}
    with connect() as hf:
        made = _call(hf, "POST", "schedules", body=body)
    _print_made(made, made["id"], *([] if made["hook_token"] is None else [f"/hooks/{made['hook_token']}"]))


@command(schedule, "list")
def list_schedules(
    state: Annotated[str | None, typer.Option(metavar="STATE", help="active, paused or ended.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="schedule, daemon or reminder.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List schedules, newest first."""
    with connect() as hf:
        print_list(
            _list(hf, "schedules", limit=limit, state=state, kind=kind),
            [
                ("schedule", lambda each: each["id"]),
                ("state", lambda each: each["state"]),
                ("due", lambda each: short_time(each["next_due_at"])),
                ("when", lambda each: each["cron"] or each["at"]),
                ("name", lambda each: one_line(each["name"])),
            ],
            empty="no schedules",
        )


@command(schedule, "show")
def show_schedule(schedule_id: ScheduleArgument) -> None:
    """Show a schedule and its next due times."""
    with connect() as hf:
        _show(_call(hf, "GET", _one("schedule", schedule_id)))


@command(schedule, "firings")
def list_firings(
    schedule_id: ScheduleArgument,
    outcome: Annotated[str | None, typer.Option(metavar="OUTCOME", help="fired, skipped, missed or failed.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List what came of each due time, newest first."""
    with connect() as hf:
        _print_firings(_list(hf, _one("schedule", schedule_id, "/firings"), limit=limit, outcome=outcome))


def _print_firings(firings: Iterator[Any]) -> None:
    print_list(
        firings,
        [
            ("due", lambda each: short_time(each["due_at"])),
            ("outcome", lambda each: each["outcome"]),
            ("cause", lambda each: each["cause"]),
            ("run", lambda each: each["run_id"]),
            ("status", lambda each: each["run_status"]),
            ("reason", lambda each: one_line(each["reason"])),
        ],
        empty="no firings",
    )


@command(schedule, "run")
def run_schedule(schedule_id: ScheduleArgument) -> None:
    """Fire a schedule now."""
    with connect() as hf:
        fired = _call(hf, "POST", _one("schedule", schedule_id, "/run"))
    print_done(fired, f"{fired['outcome']} {fired['run_id'] or fired['reason'] or ''}".rstrip())


@command(schedule, "pause")
def pause_schedule(schedule_id: ScheduleArgument) -> None:
    """Pause a schedule."""
    with connect() as hf:
        print_done(_call(hf, "POST", _one("schedule", schedule_id, "/pause")), f"paused {schedule_id}")


@command(schedule, "resume")
def resume_schedule(schedule_id: ScheduleArgument) -> None:
    """Resume a schedule; its next due time counts from now."""
    with connect() as hf:
        changed = _call(hf, "POST", _one("schedule", schedule_id, "/resume"))
    print_done(changed, f"due at {changed['next_due_at']}")


@command(schedule, "delete")
def delete_schedule(schedule_id: ScheduleArgument) -> None:
    """Delete a schedule with its firings."""
    with connect() as hf:
        _call(hf, "DELETE", _one("schedule", schedule_id))
    print_done({"deleted": schedule_id}, f"deleted {schedule_id}")


@command(daemon, "list")
def list_daemons() -> None:
    """List daemons."""
    with connect() as hf:
        print_list(
            _call(hf, "GET", "/daemons")["daemons"],
            [
                ("daemon", lambda each: each["name"]),
                ("state", lambda each: each["state"]),
                ("due", lambda each: ", ".join(short_time(beat["next_due_at"]) for beat in each["heartbeats"])),
                ("description", lambda each: one_line(each["description"])),
            ],
            empty="no daemons",
        )


@command(daemon, "show")
def show_daemon(name: DaemonArgument) -> None:
    """Show a daemon and its latest firings."""
    with connect() as hf:
        found = _call(hf, "GET", f"/daemons/{quote(name, safe='')}")
    if options().as_json:
        _show(found)
    else:
        _print_firings(iter(found["firings"]))


def _daemon(name: str, verb: str, body: Json = msgspec.UNSET) -> Any:
    with connect() as hf:
        return _call(hf, "POST", f"/daemons/{quote(name, safe='')}/{verb}", body=body)


@command(daemon, "start")
def start_daemon(name: DaemonArgument) -> None:
    """Start a daemon that was stopped."""
    print_done(_daemon(name, "start"), f"{name} is running")


@command(daemon, "stop")
def stop_daemon(name: DaemonArgument) -> None:
    """Stop a daemon until it is started, also over restarts."""
    print_done(_daemon(name, "stop"), f"{name} is stopped")


@command(daemon, "trigger")
def trigger_daemon(
    name: DaemonArgument,
    heartbeat: Annotated[str | None, typer.Option(metavar="NAME", help="The heartbeat, if there are several.")] = None,
) -> None:
    """Run a heartbeat of a daemon now."""
    fired = _daemon(name, "trigger", _given({"heartbeat": heartbeat}))
    print_done(fired, f"{fired['outcome']} {fired['run_id'] or fired['reason'] or ''}".rstrip())


@command(webhook, "create")
def create_webhook(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The URL that events are posted to.")],
    event: Annotated[
        list[str] | None, typer.Option(metavar="EVENT", help="An event, such as `run.*`; may be repeated.")
    ] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="A description.")] = None,
) -> None:
    """Create a webhook, and print its id and its secret, which is shown once."""
    body = {"url": address, "events": event or ["*"], **_given({"description": description})}
    with connect() as hf:
        made = _call(hf, "POST", "webhooks", body=body)
    _print_made(made, made["id"], made["secret"])


@command(webhook, "list")
def list_webhooks(limit: LimitOption = 50) -> None:
    """List webhooks, newest first."""
    with connect() as hf:
        print_list(
            _list(hf, "webhooks", limit=limit),
            [
                ("webhook", lambda each: each["id"]),
                ("state", lambda each: each["state"]),
                ("events", lambda each: " ".join(each["events"])),
                ("url", lambda each: one_line(each["url"])),
            ],
            empty="no webhooks",
        )


@command(webhook, "show")
def show_webhook(webhook_id: WebhookArgument) -> None:
    """Show a webhook, without its secret."""
    with connect() as hf:
        _show(_call(hf, "GET", _one("webhook", webhook_id)))


@command(webhook, "enable")
def enable_webhook(webhook_id: WebhookArgument) -> None:
    """Enable a webhook; what is still pending is sent."""
    with connect() as hf:
        print_done(_call(hf, "PATCH", _one("webhook", webhook_id), body={"enabled": True}), f"enabled {webhook_id}")


@command(webhook, "disable")
def disable_webhook(webhook_id: WebhookArgument) -> None:
    """Disable a webhook."""
    with connect() as hf:
        print_done(_call(hf, "PATCH", _one("webhook", webhook_id), body={"enabled": False}), f"disabled {webhook_id}")


@command(webhook, "delete")
def delete_webhook(webhook_id: WebhookArgument) -> None:
    """Delete a webhook with its deliveries."""
    with connect() as hf:
        _call(hf, "DELETE", _one("webhook", webhook_id))
    print_done({"deleted": webhook_id}, f"deleted {webhook_id}")


@command(webhook, "deliveries")
def list_deliveries(
    webhook_id: WebhookArgument,
    state: Annotated[DeliveryState | None, typer.Option(help="Only in this state.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List deliveries, newest first."""
    with connect() as hf:
        print_list(
            _list(hf, _one("webhook", webhook_id, "/deliveries"), limit=limit, state=state),
            [
                ("delivery", lambda each: each["id"]),
                ("event", lambda each: each["event"]),
                ("state", lambda each: each["state"]),
                ("attempts", lambda each: each["attempts"]),
                ("status", lambda each: each["last_status"]),
                ("error", lambda each: one_line(each["last_error"])),
            ],
            empty="no deliveries",
        )


@command(webhook, "resend")
def resend_delivery(
    webhook_id: WebhookArgument,
    delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY_ID", help="The id of a delivery.")],
) -> None:
    """Send a delivery again."""
    path = _one("webhook", webhook_id, f"/deliveries/{quote(delivery_id, safe='')}/resend")
    with connect() as hf:
        print_done(_call(hf, "POST", path), f"{delivery_id} is sent again")
