"""A commit: everything that the lease holder adds to its run's log at once."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.artifact import NewArtifact, check_new_artifact
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events import Event
from holdfast.domain.ids import MessageId, OwnerId, RunId, SpaceId, ThreadId, TimerId
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.message import NewMessage, Role, check_ids, open_calls
from holdfast.domain.run import Move, Run, RunStatus, check_own_move
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.timer import NewTimer, check_new_timer
from holdfast.domain.usage import Usage

VALUE_NAMES: Final = frozenset({"state", "plan", "todo", "compaction", "tools"})
"""The values a run has; it starts with those of its base."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to write one run's log, until somebody else has a lease with a higher number.

    The keys belong to the store that made it.
    """

    space_id: SpaceId
    run_id: RunId
    thread_id: ThreadId
    owner: OwnerId
    number: int
    expires_at: Instant
    space_key: int
    run_key: int
    thread_key: int
    parent_key: int | None
    run: Run
    """The run as it was claimed."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What to add, all of it or nothing.

    `usage` and `iterations` are added to the run's; `consumed` are inbox numbers.
    """

    lease: Lease
    events: Sequence[Event] = ()
    messages: Sequence[NewMessage] = ()
    steps: Sequence[Step] = ()
    values: Mapping[str, Json] = {}
    consumed: Sequence[int] = ()
    interrupts: Sequence[NewInterrupt] = ()
    artifacts: Sequence[NewArtifact] = ()
    timers: Sequence[NewTimer] = ()
    cancelled_timers: Sequence[TimerId] = ()
    usage: Usage | None = None
    iterations: int = 0
    move: Move | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """Where it went: the last event's number, and the messages as they entered."""

    last_event_seq: int
    message_ids: Sequence[MessageId] = ()
    sequences: Sequence[int] = ()


def check_commit(commit: Commit) -> None:
    """Raise if `commit` can never be made."""
    if commit.move is not None:
        check_own_move(commit.lease.run_id, commit.move)
    if commit.messages:
        check_ids(commit.messages)
        if commit.move is not None and commit.move.to.terminal and open_calls(commit.messages):
            raise Invalid("a run does not end with a call that nobody answered", field="messages")
    if commit.steps:
        _check_steps(commit)
    if not VALUE_NAMES.issuperset(commit.values):
        raise Invalid(f"a run has the values {', '.join(sorted(VALUE_NAMES))}", field="values")
    if len(set(commit.consumed)) != len(commit.consumed):
        raise Invalid("an inbox item is named twice", field="consumed")
    for artifact in commit.artifacts:
        check_new_artifact(artifact)
    for timer in commit.timers:
        check_new_timer(timer)
    if commit.interrupts and (commit.move is None or commit.move.to is not RunStatus.WAITING):
        raise Invalid("an interrupt opens in the commit that makes its run wait", field="interrupts")


def _check_steps(commit: Commit) -> None:
    if len({step.number for step in commit.steps}) != len(commit.steps):
        raise Invalid("a step is named twice in one commit", field="steps")
    answers = {message.tool_call_id for message in commit.messages if message.role is Role.TOOL}
    spoken = any(message.role is Role.ASSISTANT for message in commit.messages)
    for step in commit.steps:
        present = spoken if step.kind is StepKind.MODEL else step.tool_call_id in answers
        if step.state is StepState.DONE and not present:
            raise Invalid(f"step {step.number} is done, but its message is not in the same commit", field="steps")
