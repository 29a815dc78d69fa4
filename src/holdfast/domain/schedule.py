"""A schedule: what is done when, and a firing for every time it was due.

    active ──► paused ──► active         ended: no due time is left

Firing, its effect and the next due time are one transaction. The next due time follows from the last one, not from the
clock, so that a clock that is set back fires nothing twice.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.condition import JudgeCondition
from holdfast.domain.content import Json
from holdfast.domain.cron import DEFAULT_TIMEZONE, check_cron, next_time, parse_timezone
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import FiringId, RunId, ScheduleId, SpaceId, ThreadId, check_client_id
from holdfast.domain.instant import Instant, Millis, instant, millis
from holdfast.domain.limits import Limits
from holdfast.domain.new_run import MAX_TAG_CHARS, MAX_TAGS
from holdfast.domain.run import Priority, RunStatus
from holdfast.domain.validation import check_text

ON_TIME_MS: Final = 30_000
"""A due time that is noticed within this time is on time; later, the misfire policy decides."""
MAX_MISSED_PER_FIRING: Final = 1_000
"""Missed times that one transaction records; the next transaction continues."""
MAX_QUEUED_FIRINGS: Final = 100
"""Active runs of a schedule with `overlap: queue`; a firing beyond them is skipped."""
KEEP_FIRINGS: Final = timedelta(days=30)
KEEP_NEWEST_FIRINGS: Final = 50
"""Firings of a schedule that are kept however old they are."""
MAX_JITTER_SECONDS: Final = 86_400
MAX_WINDOW_SECONDS: Final = 366 * 86_400
DEFAULT_WINDOW_SECONDS: Final = 86_400
MAX_NAME_CHARS: Final = 200
MAX_MESSAGE_CHARS: Final = 10_000


class ScheduleKind(StrEnum):
    """Origin of a schedule: the API, a heartbeat of a daemon, or a reminder."""

    SCHEDULE = "schedule"
    DAEMON = "daemon"
    REMINDER = "reminder"


class ScheduleState(StrEnum):
    """State of a schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"


class Overlap(StrEnum):
    """What happens at a due time while the run of the last one is still active."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class Misfire(StrEnum):
    """What happens to due times that passed while no process ran."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class FiringCause(StrEnum):
    """Reason why a schedule fired."""

    DUE = "due"
    MANUAL = "manual"
    HOOK = "hook"
    CONDITION = "condition"
    CONTEXT = "context"
    CHECK = "check"
    """The interval of a judge: the run answers its question."""


class FiringOutcome(StrEnum):
    """Outcome of a due time."""

    FIRED = "fired"
    SKIPPED = "skipped"
    """The overlap policy, or a person, left it out."""
    MISSED = "missed"
    """It passed while no process ran, and the misfire policy left it out."""
    FAILED = "failed"


_Seconds = Annotated[int, Meta(ge=0, le=MAX_WINDOW_SECONDS)]
_Name = Annotated[str, Meta(min_length=1, max_length=256)]


class RunAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="run"):
    """Start a run: on the schedule's own thread, on a given one, or on a new one each time."""

    agent: _Name | None = None
    """By default the agent of the thread, or the default agent of the workspace."""
    input: Json = None
    """Text, or any JSON value but null."""
    thread_id: ThreadId | None = None
    new_thread: bool = False
    model: _Name | None = None
    priority: Priority = Priority.NORMAL
    tags: list[Annotated[str, Meta(max_length=MAX_TAG_CHARS)]] = []
    limits: Limits = Limits()


class NotifyAction(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="notify"
):
    """Send the notification `schedule.fired`."""

    message: Annotated[str, Meta(min_length=1, max_length=MAX_MESSAGE_CHARS)]


class RemindAction(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="remind"
):
    """Trigger the reminder that the schedule belongs to, and start a run if the reminder asks for one."""

    run: RunAction | None = None
    judge: JudgeCondition | None = None
    """While it is set, a due time asks a model first."""


ScheduleAction: TypeAlias = RunAction | NotifyAction | RemindAction


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a schedule is due and what it does then, as its owner set it."""

    action: ScheduleAction
    at: Instant | None = None
    """One instant; or a `cron` expression; or neither, for a schedule that only a hook or a person fires."""
    cron: str | None = None
    timezone: str = DEFAULT_TIMEZONE
    overlap: Overlap = Overlap.SKIP
    misfire: Misfire = Misfire.ONCE
    misfire_window_seconds: _Seconds | None = DEFAULT_WINDOW_SECONDS
    """Times that were due longer ago than this are missed under every policy; null is no limit."""
    jitter_seconds: Annotated[int, Meta(ge=0, le=MAX_JITTER_SECONDS)] = 0
    """Each firing is delayed by up to this, by an amount that depends only on the schedule and the due time."""
    ends_at: Instant | None = None


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """One due time of a schedule, and what came of it."""

    id: FiringId
    schedule_id: ScheduleId
    due_at: Instant
    cause: FiringCause
    outcome: FiringOutcome
    reason: str | None
    run_id: RunId | None
    run_status: RunStatus | None
    """The status of the run now; null if it was deleted."""
    created_at: Instant


class Schedule(SchedulePlan, frozen=True, kw_only=True):
    """A schedule: its plan, and where it stands."""

    id: ScheduleId
    space_id: SpaceId
    kind: ScheduleKind
    name: str | None
    state: ScheduleState
    next_due_at: Instant | None
    """The next due time, without jitter; null while the schedule is not active."""
    thread_id: ThreadId | None
    """Its own thread, once it has fired."""
    has_hook: bool
    created_by: str | None
    created_at: Instant
    updated_at: Instant

    @property
    def plan(self) -> SchedulePlan:
        """The plan without the rest."""
        return SchedulePlan(**{name: getattr(self, name) for name in SchedulePlan.__struct_fields__})


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to create."""

    plan: SchedulePlan
    id: ScheduleId | None = None
    kind: ScheduleKind = ScheduleKind.SCHEDULE
    name: str | None = None
    hook_hash: bytes | None = None
    """The digest of the token of its hook address."""
    created_by: str | None = None


class SchedulePatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a schedule; absent fields stay."""

    name: str | None | UnsetType = UNSET
    plan: SchedulePlan | UnsetType = UNSET
    hook_hash: bytes | None | UnsetType = UNSET


class FiringInput(msgspec.Struct, frozen=True, kw_only=True):
    """What the run of a firing is told: which schedule, due when, and what came of the last time."""

    schedule_id: ScheduleId
    name: str | None
    cause: FiringCause
    due_at: Instant
    last: Firing | None = None
    reminder: str | UnsetType = UNSET
    """The text of the reminder, if the schedule belongs to one."""
    reason: str | UnsetType = UNSET
    """Why the condition of the reminder is met."""


class FiringDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What happens at a look at a schedule: times that are missed, the time to fire, and the next due time."""

    missed: Sequence[tuple[Millis, str]] = ()
    fires: Millis | None = None
    next_due: Millis | None = None


def check_new_schedule(new: NewSchedule, *, now: Millis) -> None:
    """Raise if `new` is not a valid schedule."""
    if new.id is not None:
        check_client_id(new.id, field="id")
    check_schedule_name(new.name)
    check_schedule_plan(new.plan, now=now)


def check_schedule_name(name: str | None) -> None:
    """Raise if `name` is not a valid name of a schedule."""
    if name is not None:
        check_text(name, field="name", max_chars=MAX_NAME_CHARS)
        if not name.strip():
            raise Invalid("`name` is empty: give a name, or leave it out", field="name")


def check_schedule_plan(plan: SchedulePlan, *, now: Millis | None = None) -> None:
    """Raise if `plan` is not valid; with `now`, also if its only time is in the past."""
    if plan.at is not None and plan.cron is not None:
        raise Invalid("a schedule has either `at` or `cron`: remove one of them", field="cron")
    parse_timezone(plan.timezone)
    if plan.cron is not None:
        check_cron(plan.cron, timezone=plan.timezone)
    if plan.at is not None:
        at = millis(plan.at, field="at")
        if now is not None and at < now:
            raise Invalid(f"`at` is in the past: {instant(at)}, and now it is {instant(now)}", field="at")
    if plan.ends_at is not None:
        ends = millis(plan.ends_at, field="ends_at")
        if now is not None and ends <= now:
            raise Invalid(f"`ends_at` is in the past: {instant(ends)}", field="ends_at")
        if plan.at is not None and millis(plan.at) > ends:
            raise Invalid("`at` is after `ends_at`", field="ends_at")
        if now is not None and plan.cron is not None and next_due(plan, after=now) is None:
            raise Invalid(f"no time is due before `ends_at`: {instant(ends)}", field="ends_at")
    if plan.misfire_window_seconds == 0 and plan.misfire is not Misfire.SKIP:
        raise Invalid("a window of 0 seconds is `misfire: skip`", field="misfire_window_seconds")
    _check_action(plan)


def _check_action(plan: SchedulePlan) -> None:
    action = plan.action.run if isinstance(plan.action, RemindAction) else plan.action
    if isinstance(action, NotifyAction):
        check_text(action.message, field="message", max_chars=MAX_MESSAGE_CHARS)
    if not isinstance(action, RunAction):
        return
    if action.thread_id is not None and action.new_thread:
        raise Invalid("a run has either a `thread_id` or a `new_thread`: remove one of them", field="thread_id")
    if plan.overlap is Overlap.QUEUE and action.new_thread:
        raise Invalid("`overlap: queue` needs one thread: remove `new_thread`", field="overlap")
    if action.thread_id is not None:
        check_client_id(action.thread_id, field="thread_id")
    if len(action.tags) > MAX_TAGS:
        raise Invalid(f"a run may have at most {MAX_TAGS} tags", field="tags")


def first_due(plan: SchedulePlan, *, now: Millis) -> Millis | None:
    """Return the first due time of a plan from `now` on."""
    if plan.at is not None:
        return millis(plan.at)
    return next_due(plan, after=now)


def next_due(plan: SchedulePlan, *, after: Millis) -> Millis | None:
    """Return the first due time of a plan after `after`, if there is one before it ends."""
    if plan.cron is None:
        return None
    found = next_time(plan.cron, timezone=plan.timezone, after=after)
    return None if found is None or (plan.ends_at is not None and found > millis(plan.ends_at)) else found


def jitter_ms(schedule: ScheduleId, plan: SchedulePlan, due: Millis) -> int:
    """Return the delay of a due time: the same for every process."""
    if plan.jitter_seconds == 0:
        return 0
    digest = sha256(f"{schedule}.{due}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (plan.jitter_seconds * 1000 + 1)


def decide_firing(schedule: ScheduleId, plan: SchedulePlan, *, due: Millis, now: Millis) -> FiringDecision:
    """Decide about the due times of a schedule from `due` to `now`: at most one fires at a time."""
    missed: list[tuple[Millis, str]] = []
    window = None if plan.misfire_window_seconds is None else plan.misfire_window_seconds * 1000
    current: Millis | None = due
    while current is not None and current <= now:
        if len(missed) == MAX_MISSED_PER_FIRING:
            return FiringDecision(missed=missed, next_due=current)
        following = next_due(plan, after=current)
        late = now - current - jitter_ms(schedule, plan, current)
        if late <= ON_TIME_MS:
            return FiringDecision(missed=missed, fires=current, next_due=following)
        reason = None
        if plan.misfire is Misfire.SKIP:
            reason = f"it was noticed {late // 1000} s late, and `misfire` is `skip`"
        elif window is not None and late > window:
            reason = f"it was noticed {late // 1000} s late, after the window of {window // 1000} s"
        elif plan.misfire is Misfire.ONCE and following is not None and following <= now:
            reason = f"`misfire` is `once`, and {instant(following)} was due too"
        if reason is None:
            return FiringDecision(missed=missed, fires=current, next_due=following)
        missed.append((current, reason))
        current = following
    return FiringDecision(missed=missed, next_due=current)


def upcoming(plan: SchedulePlan, *, after: Millis, count: int) -> list[Instant]:
    """Return the next due times of a plan."""
    times: list[Instant] = []
    due = first_due(plan, now=after)
    while due is not None and len(times) < count:
        times.append(instant(due))
        due = next_due(plan, after=due)
    return times


def describe_firing(told: FiringInput) -> str:
    """Return the text of a firing, which precedes the prompt of its run."""
    named = "" if told.name is None else f" `{told.name}`"
    lines = [f"Schedule{named} ({told.cause}), due at {told.due_at}."]
    if told.last is not None:
        status = "" if told.last.run_status is None else f", its run is {told.last.run_status}"
        reason = "" if told.last.reason is None else f" ({told.last.reason})"
        lines.append(f"The last firing was due at {told.last.due_at}: {told.last.outcome}{reason}{status}.")
    return "\n".join(lines)
