"""A commit encoded as rows by its caller, so that the writer has nothing left to encode.

Values that cannot be stored are refused here, before the commit joins a batch.
"""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from holdfast.domain.commit import Commit, Lease, check_commit
from holdfast.domain.context import strip_texts
from holdfast.domain.errors import TooLarge
from holdfast.domain.events import Event, encode_event, event_type
from holdfast.domain.ids import RunId
from holdfast.domain.instant import Millis
from holdfast.domain.limits import ZERO_USAGE, Usage, nanodollars
from holdfast.domain.message import NewMessage
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.transaction import JournalEntry

MAX_EVENT_CHARS: Final = 8 * 1024 * 1024
MAX_MESSAGE_CHARS: Final = 16 * 1024 * 1024

_rare_parts: Final = attrgetter("interrupts", "withdrawn", "children", "artifacts", "timers", "cancelled_timers")
_parts_besides_events: Final = attrgetter(
    *(name for name in Commit.__struct_fields__ if name not in ("lease", "events"))
)


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
    waits_for: str | None
    usage: str | None
    settled: bool


class PreparedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, ready to be written."""

    commit: Commit
    lease: Lease
    entry: JournalEntry
    events_only: bool = False
    """Whether it adds events and nothing else."""
    messages: Sequence[MessageRow] = ()
    steps: Sequence[StepRow] = ()
    values: Sequence[tuple[str, str]] = ()
    contexts: Sequence[tuple[int, str]] = ()
    """Step and snapshot."""
    texts: Sequence[tuple[str, str]] = ()
    """Digest and content of what the snapshots name and is not kept yet."""
    has_rare_parts: bool = False
    """Whether it has something of what most commits have not: questions, children, artifacts, timers."""
    move: Move | None = None
    starts_model_call: bool = False
    """Whether a model call begins, so that there must be a budget left."""

    @property
    def ends(self) -> bool:
        """Whether this is the run's last commit."""
        return self.move is not None and self.move.to.terminal

    @property
    def notifies_parent(self) -> bool:
        """Whether the run that spawned it hears of it."""
        return self.move is not None and (self.move.to.terminal or bool(self.move.asks))

    @property
    def waits_on(self) -> Sequence[RunId]:
        """The runs that must end before this one goes on."""
        return () if self.move is None else self.move.waits_on


def prepare_commit(commit: Commit, *, known_texts: Collection[tuple[int, str]] = ()) -> PreparedCommit:
    """Check `commit` and put it into rows; texts that the space is known to have are left out."""
    lease, events = commit.lease, list(map(event_row, commit.events))
    if not any(_parts_besides_events(commit)):  # as most commits are, and then there is nothing to check
        entry = JournalEntry(run_key=lease.run_key, lease_number=lease.number, events=events)
        return PreparedCommit(commit=commit, lease=lease, entry=entry, events_only=True)
    check_commit(commit)
    waits = commit.move is not None and commit.move.to is RunStatus.WAITING
    return PreparedCommit(
        commit=commit,
        lease=lease,
        entry=JournalEntry(
            run_key=lease.run_key,
            lease_number=lease.number,
            events=events,
            consumed=len(commit.consumed),
            makes_progress=waits or any(step.state.settled for step in commit.steps),
            stops=commit.move is not None and commit.move.to is not RunStatus.QUEUED,
        ),
        messages=list(map(message_row, commit.messages)),
        steps=list(map(_step_row, commit.steps)),
        values=[(name, dump_json(value)) for name, value in commit.values.items()],
        contexts=[(context.step, dump_json(strip_texts(context))) for context in commit.contexts],
        texts=[
            (digest, text)
            for context in commit.contexts
            for digest, text in context.texts.items()
            if (lease.space_key, digest) not in known_texts
        ],
        has_rare_parts=any(_rare_parts(commit)),
        move=commit.move,
        starts_model_call=any(map(_starts_model_call, commit.steps)),
    )


def event_row(event: Event) -> tuple[str, str]:
    """Return the type and the JSON of an event."""
    data = encode_event(event).decode()
    if len(data) > MAX_EVENT_CHARS:
        raise TooLarge(f"an event may have at most {MAX_EVENT_CHARS} bytes")
    return event_type(event), data


def message_row(message: NewMessage) -> MessageRow:
    """Return a message as a row."""
    content = dump_json(message.content)
    if len(content) > MAX_MESSAGE_CHARS:
        raise TooLarge(f"a message may have at most {MAX_MESSAGE_CHARS} bytes", field="messages.content")
    return MessageRow(
        id=message.id,
        role=message.role.value,
        content=content,
        tool_calls=dump_json(message.tool_calls) if message.tool_calls else None,
        tool_call_id=message.tool_call_id,
        revises=message.revises,
        metadata=dump_json(message.metadata),
        created_by=message.created_by,
    )


def usage_values(usage: Usage | None) -> tuple[int, int, int, int | None]:
    """Return tokens and cost to be added; an unknown cost makes the sum unknown."""
    usage = ZERO_USAGE if usage is None else usage
    cost = None if usage.cost_usd is None else nanodollars(usage.cost_usd)
    return usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, cost


def _starts_model_call(step: Step) -> bool:
    return step.kind is StepKind.MODEL and step.state is StepState.STARTED


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
        waits_for=step.waits_for and step.waits_for.value,
        usage=dump_optional_json(step.usage),
        settled=step.state.settled,
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
        step.waits_for,
        step.usage,
        now,
        now if step.settled else None,
    )
