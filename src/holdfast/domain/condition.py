"""Conditions of reminders: predicates over what happens in a space, decided when it happens.

    {"event": "run.failed", "agent": "builder", "count": 3, "within_seconds": 3600}
    {"metric": "cost_usd", "above": 5, "within_seconds": 86400}
    {"silence": "run.completed", "for_seconds": 3600}
    {"judge": "Is the release out?", "schedule": "0 * * * *", "token_budget": 50000}
    {"about": "invoices", "threshold": 0.6}

Each condition names the event that may meet it, so that an index finds the few conditions that an event concerns.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.artifact import ArtifactType
from holdfast.domain.errors import Invalid
from holdfast.domain.forgetting import FORGOTTEN_TEXT
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.limits import MAX_EXACT_USD, MAX_SAFE_INTEGER
from holdfast.domain.memory import MemoryType
from holdfast.domain.validation import check_text

MAX_WINDOW_SECONDS: Final = 366 * 86_400
MAX_COUNT: Final = 1_000
MAX_QUESTION_CHARS: Final = 4_000
MAX_ABOUT_CHARS: Final = 4_000
WINDOW_BUCKETS: Final = 60
"""Parts of a window in which usage is added up: a sum is exact to one of them."""
DEFAULT_THRESHOLD: Final = 0.6
DEFAULT_CHECK_SCHEDULE: Final = "0 * * * *"


class ConditionEvent(StrEnum):
    """Events that a condition can name."""

    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    RUN_WAITING = "run.waiting"
    ARTIFACT_CREATED = "artifact.created"
    PLAN_COMPLETED = "plan.completed"
    MEMORY_CREATED = "memory.created"


USAGE_EVENT: Final = "usage"
"""The event of a threshold: a model call was charged."""
MESSAGE_EVENT: Final = "message"
"""The event of a context: a person said something."""
JUDGE_EVENT: Final = "judge"
"""No event has this name: a judge is asked by its schedule."""
ANY_EVENT: Final = "any"

_TYPES: Final[dict[str, type[StrEnum]]] = {
    ConditionEvent.ARTIFACT_CREATED: ArtifactType,
    ConditionEvent.MEMORY_CREATED: MemoryType,
}

_Agent = Annotated[str, Meta(min_length=1, max_length=256)]
_Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,128}\Z")]
_Label = Annotated[str, Meta(min_length=1, max_length=128)]
_Window = Annotated[int, Meta(ge=1, le=MAX_WINDOW_SECONDS)]


class EventCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event happened, `count` times within a window."""

    event: ConditionEvent
    agent: _Agent | None = None
    thread_id: _Id | None = None
    tag: _Label | None = None
    """A tag of the run."""
    type: _Label | None = None
    """The type of the artifact or memory."""
    count: Annotated[int, Meta(ge=1, le=MAX_COUNT)] = 1
    within_seconds: _Window | None = None


class ThresholdCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model calls of a space, an agent or a thread used at least `above` within a window."""

    metric: Literal["cost_usd", "tokens"]
    above: Annotated[float, Meta(gt=0, le=MAX_SAFE_INTEGER)]
    within_seconds: _Window
    agent: _Agent | None = None
    thread_id: _Id | None = None


class SilenceCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event did not happen for a duration; `any` is every event."""

    silence: Literal[
        "any",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.waiting",
        "artifact.created",
        "plan.completed",
        "memory.created",
    ]
    for_seconds: _Window
    agent: _Agent | None = None
    thread_id: _Id | None = None
    tag: _Label | None = None
    type: _Label | None = None


class JudgeCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model answers a question with yes, asked by a schedule within a budget."""

    judge: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION_CHARS)]
    schedule: str = DEFAULT_CHECK_SCHEDULE
    """A cron expression."""
    agent: _Agent | None = None
    token_budget: Annotated[int, Meta(gt=0, le=MAX_SAFE_INTEGER)] | None = None
    """Tokens that all checks together may use."""
    cost_budget_usd: Annotated[float, Meta(gt=0, le=MAX_EXACT_USD)] | None = None


class ContextCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person said something about a subject."""

    about: Annotated[str, Meta(min_length=1, max_length=MAX_ABOUT_CHARS)]
    threshold: Annotated[float, Meta(gt=0, le=1)] = DEFAULT_THRESHOLD
    """How much of `about` the message must contain, in its words or in words near to them."""
    thread_id: _Id | None = None

    @property
    def subject(self) -> str:
        """What is left of `about` after parts of it were forgotten."""
        return self.about.replace(FORGOTTEN_TEXT, " ")


Condition: TypeAlias = EventCondition | ThresholdCondition | SilenceCondition | JudgeCondition | ContextCondition

_BY_KEY: Final[dict[str, Any]] = {
    "event": EventCondition,
    "metric": ThresholdCondition,
    "silence": SilenceCondition,
    "judge": JudgeCondition,
}


def parse_condition(value: object) -> Condition:
    """Return the condition of a JSON object, or raise `Invalid` with the field that is wrong."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            value = None
    keys = [key for key in _BY_KEY if isinstance(value, dict) and key in value]
    if len(keys) != 1:
        message = "a condition is a JSON object with one of `event`, `metric`, `silence` and `judge`"
        raise Invalid(message, field="trigger_value")
    try:
        condition: Condition = msgspec.convert(value, _BY_KEY[keys[0]])
    except msgspec.ValidationError as exc:
        raise Invalid(f"the condition is not valid: {str(exc).lower()}", field="trigger_value") from exc
    match condition:
        case EventCondition(count=count, within_seconds=None) if count > 1:
            raise Invalid("`count` needs a window: add `within_seconds`", field="trigger_value")
        case JudgeCondition(token_budget=None, cost_budget_usd=None):
            message = "a judge needs a budget: add `token_budget` or `cost_budget_usd`"
            raise Invalid(message, field="trigger_value")
        case JudgeCondition(judge=question):
            check_text(question, field="trigger_value", max_chars=MAX_QUESTION_CHARS)
        case EventCondition(event=event, type=str(type_)) | SilenceCondition(silence=event, type=str(type_)):
            _check_type(event, type_)
        case _:
            pass
    return condition


def _check_type(event: str, type_: str) -> None:
    """Raise if an event never has this type."""
    types = _TYPES.get(event)
    if types is None:
        named = " and ".join(f"`{each}`" for each in _TYPES)
        raise Invalid(f"only {named} have a `type`: leave it out", field="trigger_value")
    if type_ not in [*types]:
        known = ", ".join(f"`{each}`" for each in types)
        raise Invalid(f"`{type_}` is not a type of `{event}`: there are {known}", field="trigger_value")


def parse_context(value: object, *, thread_id: ThreadId | None) -> ContextCondition:
    """Return the context of a text, or of an object with `about` and a `threshold`."""
    if isinstance(value, str):
        value = {"about": value}
    if not isinstance(value, dict):
        raise Invalid("the `trigger_value` of a context is text: what a message must be about", field="trigger_value")
    if thread_id is not None:
        value = {"thread_id": thread_id, **value}
    try:
        context = msgspec.convert(value, ContextCondition)
    except msgspec.ValidationError as exc:
        raise Invalid(f"the context is not valid: {str(exc).lower()}", field="trigger_value") from exc
    check_text(context.about, field="trigger_value", max_chars=MAX_ABOUT_CHARS)
    if not any(character.isalnum() for character in context.about):
        raise Invalid("a context needs a word that a message can contain", field="trigger_value")
    return context


def load_condition(value: dict[str, Any]) -> Condition:
    """Return a stored condition."""
    key = next((key for key in _BY_KEY if key in value), None)
    condition: Condition = msgspec.convert(value, ContextCondition if key is None else _BY_KEY[key])
    return condition


def indexed_event(condition: Condition) -> str:
    """Return the event under which a condition is indexed."""
    match condition:
        case EventCondition(event=event):
            return event.value
        case ThresholdCondition():
            return USAGE_EVENT
        case SilenceCondition(silence=silence):
            return silence
        case JudgeCondition():
            return JUDGE_EVENT
        case ContextCondition():
            return MESSAGE_EVENT


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a space, as conditions see it."""

    event: str
    agent: str = ""
    thread_id: str = ""
    tags: Sequence[str] = ()
    type: str | None = None
    run_id: RunId | None = None
    tokens: int = 0
    cost_usd: float = 0.0
    text: str = ""
    """What a person said."""

    def concerns(self, reminder: str, event: str, agent: str, thread_id: str) -> bool:
        """Return whether this may meet a condition that is indexed so; a reminder's own runs do not count."""
        return (
            (event == self.event or (event == ANY_EVENT and self.event not in (USAGE_EVENT, MESSAGE_EVENT)))
            and agent in ("", self.agent)
            and thread_id in ("", self.thread_id)
            and f"reminder:{reminder}" not in self.tags
            and f"judge:{reminder}" not in self.tags
        )


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a condition is met, after an occurrence."""

    matches: Sequence[Any]
    """Times of counted events, or pairs of a time and the usage from then on."""
    reason: str | None = None
    """Why the condition is met; null if it is not."""


def count_occurrence(condition: Condition, what: Occurrence, *, matches: Sequence[Any], now: Millis) -> Progress | None:
    """Return the progress of a condition that an occurrence concerns, or `None` if its filters leave it out."""
    match condition:
        case EventCondition() | SilenceCondition():
            if condition.tag is not None and condition.tag not in what.tags:
                return None
            if condition.type is not None and condition.type != what.type:
                return None
            if isinstance(condition, SilenceCondition):
                return Progress(matches=[now])
            return _count_event(condition, what, matches=matches, now=now)
        case ThresholdCondition():
            return _add_usage(condition, what, matches=matches, now=now)
        case _:
            return None


def _count_event(condition: EventCondition, what: Occurrence, *, matches: Sequence[Any], now: Millis) -> Progress:
    start = 0 if condition.within_seconds is None else now - condition.within_seconds * 1000
    counted = [*(at for at in matches if at > start), now][-condition.count :]
    if len(counted) < condition.count:
        return Progress(matches=counted)
    times = "" if condition.count == 1 else f" {condition.count} times within {condition.within_seconds} s"
    run = "" if what.run_id is None else f", run `{what.run_id}`"
    return Progress(matches=[], reason=f"`{what.event}`{times}{run}")


def _add_usage(condition: ThresholdCondition, what: Occurrence, *, matches: Sequence[Any], now: Millis) -> Progress:
    window = condition.within_seconds * 1000
    bucket = max(window // WINDOW_BUCKETS, 1)
    start = now - now % bucket
    amount = what.cost_usd if condition.metric == "cost_usd" else what.tokens
    kept = [[at, used] for at, used in matches if at + bucket > now - window]
    if kept and kept[-1][0] == start:
        kept[-1][1] += amount
    else:
        kept.append([start, amount])
    total = sum(used for _, used in kept)
    if total < condition.above:
        return Progress(matches=kept)
    shown = f"{total:g}" if condition.metric == "cost_usd" else f"{total:.0f}"
    return Progress(matches=[], reason=f"`{condition.metric}` reached {shown} within {condition.within_seconds} s")


def overlap_score(about: Iterable[str], said: Iterable[str]) -> float:
    """Return the part of the terms of a subject that a message contains."""
    wanted = set(about)
    return len(wanted.intersection(said)) / len(wanted) if wanted else 0.0
