"""A commit encoded as rows by its caller, so that the writer has nothing left to encode.

Values that cannot be stored are refused here, before the commit joins a batch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from holdfast.domain.commit import Commit, Lease, check_commit
from holdfast.domain.content import Json
from holdfast.domain.context import RECALL_VALUE, recalled_memory_ids, strip_texts
from holdfast.domain.errors import TooLarge
from holdfast.domain.events import Event, encode_event, event_type
from holdfast.domain.ids import RunId
from holdfast.domain.instant import millis
from holdfast.domain.limits import ZERO_USAGE, Usage, nanodollars
from holdfast.domain.message import NewMessage
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.run_skills import SKILLS_VALUE, read_run_skills
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.store.encoding import dump_json, dump_optional_json
from holdfast.store.transaction import JournalEntry

MAX_EVENT_CHARS: Final = 8 * 1024 * 1024
MAX_MESSAGE_CHARS: Final = 16 * 1024 * 1024

_rare_parts: Final = attrgetter(
    *("interrupts", "withdrawn", "children", "artifacts", "memories", "follow_ups", "timers", "cancelled_timers")
)
_parts_besides_events: Final = attrgetter(
    *(name for name in Commit.__struct_fields__ if name not in ("lease", "events"))
)


class MessageRow(msgspec.Struct, frozen=True):
    """An encoded message without a sequence. `id` is `None` if the store should generate one."""

    id: str | None
    role: str
    content: str
    tool_calls: str | None
    tool_call_id: str | None
    revises: str | None
    metadata: str
    created_by: str | None


class PreparedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit with its rows encoded."""

    commit: Commit
    lease: Lease
    entry: JournalEntry
    events_only: bool = False
    """Whether it adds events and nothing else."""
    messages: Sequence[MessageRow] = ()
    steps: Sequence[tuple[Any, ...]] = ()
    """Values of the statement `put_steps` for each step, from `number` to `first_token_at`."""
    values: Sequence[tuple[str, str]] = ()
    uses: Sequence[tuple[str, str]] = ()
    """Kind and name of each memory that comes into the prompt, and of each skill that becomes active."""
    contexts: Sequence[tuple[int, str]] = ()
    """Step number and encoded snapshot."""
    texts: Sequence[tuple[str, str]] = ()
    """Digest and content of the snapshots' texts that are not stored yet."""
    has_rare_parts: bool = False
    """Whether it has interrupts, children, artifacts, memories or timers, which most commits have not."""
    move: Move | None = None
    starts_model_call: bool = False
    """Whether a model call starts, which needs a budget."""

    @property
    def ends(self) -> bool:
        """Whether this is the run's last commit."""
        return self.move is not None and self.move.to.terminal

    @property
    def notifies_parent(self) -> bool:
        """Whether the parent run is notified of it."""
        return self.move is not None and (self.move.to.terminal or bool(self.move.asks))

    @property
    def waits_on(self) -> Sequence[RunId]:
        """The runs that must end before this one continues."""
        return () if self.move is None else self.move.waits_on


def prepare_commit(commit: Commit, *, known_texts: Collection[tuple[int, str]] = ()) -> PreparedCommit:
    """Validate `commit` and encode its rows, without the texts that the space is known to hold."""
    lease, events = commit.lease, list(map(event_row, commit.events))
    if not any(_parts_besides_events(commit)):  # most commits only add events, and need no validation
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
        steps=list(map(_step_values, commit.steps)),
        values=[(name, dump_json(value)) for name, value in commit.values.items()],
        uses=[*dict.fromkeys(_uses(commit.values))] if commit.values else (),
        contexts=[(context.step, dump_json(strip_texts(context))) for context in commit.contexts],
        texts=[
            (digest, text)
            for context in commit.contexts
            for digest, text in context.texts.items()
            if (lease.space_key, digest) not in known_texts
        ],
        has_rare_parts=any(_rare_parts(commit)),
        move=commit.move,
        starts_model_call=any(step.kind is StepKind.MODEL and step.state is StepState.STARTED for step in commit.steps),
    )


def _uses(values: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    if SKILLS_VALUE in values and (skills := read_run_skills(values)) is not None:
        yield from (("skill", skill.name) for skill in skills.active)
    if RECALL_VALUE in values:
        yield from (("memory", name) for name in recalled_memory_ids(values))


def event_row(event: Event) -> tuple[str, str]:
    """Return the type and JSON of an event."""
    data = encode_event(event).decode()
    if len(data) > MAX_EVENT_CHARS:
        raise TooLarge(f"an event may have at most {MAX_EVENT_CHARS} characters")
    return event_type(event), data


def message_row(message: NewMessage) -> MessageRow:
    """Encode a message as a row."""
    content = dump_json(message.content)
    if len(content) > MAX_MESSAGE_CHARS:
        raise TooLarge(f"a message may have at most {MAX_MESSAGE_CHARS} characters", field="messages.content")
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
    """Return the tokens and the cost to add; an unknown cost (`None`) makes the sum unknown."""
    usage = ZERO_USAGE if usage is None else usage
    cost = None if usage.cost_usd is None else nanodollars(usage.cost_usd)
    return usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, cost


def _step_values(step: Step) -> tuple[Any, ...]:
    return (
        step.number,
        step.kind.value,
        step.name,
        step.key,
        step.state.value,
        step.attempt,
        step.tool_call_id,
        int(step.effectful),
        step.request_digest,
        step.waits_for and step.waits_for.value,
        dump_optional_json(step.usage),
        step.lane and step.lane.value,
        None if step.first_token_at is None else millis(step.first_token_at),
    )
