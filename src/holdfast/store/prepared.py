"""A commit in the form of rows, made by its caller so that the writer has nothing left to encode.

What cannot be stored is refused here, before it meets any other commit.
"""

from typing import Any, Final

import msgspec

from holdfast.domain.commit import Commit, Lease, check_commit
from holdfast.domain.errors import TooLarge
from holdfast.domain.events import Event, encode, event_type
from holdfast.domain.instant import Millis
from holdfast.domain.message import NewMessage
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import Step, StepState
from holdfast.domain.usage import NOTHING, Usage, nanodollars
from holdfast.store.encoding import dump, dump_optional

MAX_EVENT: Final = 8 * 1024 * 1024
MAX_MESSAGE: Final = 16 * 1024 * 1024


class MessageRow(msgspec.Struct, frozen=True):
    """A message whose place is not known yet. `id` is `None` where the store is to choose one."""

    id: str | None
    role: str
    content: str
    tool_calls: str | None
    tool_call_id: str | None
    revises: str | None
    metadata: str
    created_by: str | None


class StepRow(msgspec.Struct, frozen=True):
    """A step of a run whose key the lease has."""

    number: int
    kind: str
    name: str
    key: str
    state: str
    attempt: int
    tool_call_id: str | None
    effectful: int
    request_digest: str | None
    usage: str | None
    settled: bool


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, ready to be written."""

    commit: Commit
    lease: Lease
    events: list[tuple[str, str]]
    """Type and JSON."""
    messages: list[MessageRow]
    steps: list[StepRow]
    values: list[tuple[str, str]]
    move: Move | None
    settles: bool
    """Whether a step settled, so that the run is making progress."""

    @property
    def ends(self) -> bool:
        """Whether this is the run's last commit."""
        return self.move is not None and self.move.to.terminal

    @property
    def stops(self) -> bool:
        """Whether the run stops reading its inbox."""
        return self.move is not None and self.move.to is not RunStatus.QUEUED


def prepare(commit: Commit) -> Prepared:
    """Check `commit` and put it into rows."""
    check_commit(commit)
    return Prepared(
        commit=commit,
        lease=commit.lease,
        events=list(map(event_row, commit.events)),
        messages=list(map(message_row, commit.messages)),
        steps=list(map(_step_row, commit.steps)),
        values=[(name, dump(value)) for name, value in commit.values.items()] if commit.values else [],
        move=commit.move,
        settles=any(step.state is not StepState.STARTED for step in commit.steps) if commit.steps else False,
    )


def event_row(event: Event) -> tuple[str, str]:
    """Return the type and the JSON of an event."""
    data = encode(event).decode()
    if len(data) > MAX_EVENT:
        raise TooLarge(f"an event may have at most {MAX_EVENT} bytes")
    return event_type(event), data


def message_row(message: NewMessage) -> MessageRow:
    """Return a message as a row."""
    content = dump(message.content)
    if len(content) > MAX_MESSAGE:
        raise TooLarge(f"a message may have at most {MAX_MESSAGE} bytes", field="messages.content")
    return MessageRow(
        id=message.id,
        role=message.role.value,
        content=content,
        tool_calls=dump(message.tool_calls) if message.tool_calls else None,
        tool_call_id=message.tool_call_id,
        revises=message.revises,
        metadata=dump(message.metadata),
        created_by=message.created_by,
    )


def usage_row(usage: Usage | None) -> tuple[int, int, int, int | None]:
    """Return tokens and cost to be added; an unknown cost makes the sum unknown."""
    usage = NOTHING if usage is None else usage
    cost = None if usage.cost_usd is None else nanodollars(usage.cost_usd)
    return usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, cost


def _step_row(step: Step) -> StepRow:
    return StepRow(
        number=step.number,
        kind=step.kind.value,
        name=step.name,
        key=step.key,
        state=step.state.value,
        attempt=step.attempt,
        tool_call_id=step.tool_call_id,
        effectful=int(step.effectful),
        request_digest=step.request_digest,
        usage=dump_optional(step.usage),
        settled=step.state is not StepState.STARTED,
    )


def step_values(run_key: int, step: StepRow, now: Millis) -> tuple[Any, ...]:
    """Return a step as the values of its statement."""
    return (
        run_key,
        step.number,
        step.kind,
        step.name,
        step.key,
        step.state,
        step.attempt,
        step.tool_call_id,
        step.effectful,
        step.request_digest,
        step.usage,
        now,
        now if step.settled else None,
    )
