"""A commit: everything that a lease holder adds to its run's log in one transaction.

This module also defines the lease, and the snapshot from which a worker starts or resumes a run.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.domain.artifact import NewArtifact, check_new_artifact
from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot
from holdfast.domain.errors import Invalid
from holdfast.domain.events import Event
from holdfast.domain.ids import InterruptId, MessageId, OwnerId, RunId, SpaceId, ThreadId, TimerId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import Interrupt, NewInterrupt
from holdfast.domain.limits import Usage
from holdfast.domain.memory import NewMemory, check_new_memory
from holdfast.domain.message import Message, NewMessage, Role, check_message_ids, unanswered_calls
from holdfast.domain.new_run import NewRun, check_new_run
from holdfast.domain.run import Move, Run, RunStatus, check_value_names, check_worker_move
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.thread import NewThread, Thread
from holdfast.domain.timer import NewTimer, check_new_timer


class RunSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker needs to start or resume a run."""

    thread: Thread
    messages: Sequence[Message]
    """The latest messages of the conversation, up to the thread's `context_window`, oldest first.

    The worker reads earlier ones in pages, as far as they fit into a model call.
    """
    steps: Sequence[Step]
    values: dict[str, Json]
    inbox: Sequence[InboxItem]
    interrupts: Sequence[Interrupt]
    events: Sequence[Event]
    """Events of `STRUCTURAL_TYPES`, in order, which define the state of the run's stream."""
    last_event_seq: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to write one run's log, until a lease with a higher number exists.

    The `…_key` fields are internal to the store.
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
    budget_keys: tuple[int, ...] = ()
    """Budgets that the run spends from, the nearest first."""
    run: Run
    snapshot: RunSnapshot | None = None
    """The state of the run in the transaction of the claim, if the claim read it."""
    space_limited: bool = False
    """Whether the space has a limit of runs at work: when this one stops, another may start."""
    reminders_due: bool = True
    """Whether a reminder may have been due at the time of the claim, for this run or another one."""


class LeaseRef(msgspec.Struct, frozen=True, kw_only=True):
    """The public name of a lease."""

    space_id: SpaceId
    run_id: RunId
    number: int


class CommitNumber(msgspec.Struct, frozen=True, kw_only=True):
    """The number of a commit among those of its lease, from 1, and the digest of what it holds."""

    number: int
    digest: bytes


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """An atomic addition to a run's log.

    `usage` and `iterations` are added to the run's; `consumed` are inbox numbers; `children` are runs that this one
    spawns, each on its own thread; `withdrawn` are open interrupts that no longer need a response.
    """

    lease: Lease
    number: CommitNumber | None = None
    """A numbered commit can be sent again: it is applied once, and has the same result."""
    events: Sequence[Event] = ()
    messages: Sequence[NewMessage] = ()
    steps: Sequence[Step] = ()
    values: Mapping[str, Json] = {}
    consumed: Sequence[int] = ()
    interrupts: Sequence[NewInterrupt] = ()
    withdrawn: Sequence[InterruptId] = ()
    children: Sequence[NewRun] = ()
    artifacts: Sequence[NewArtifact] = ()
    memories: Sequence[NewMemory] = ()
    follow_ups: Sequence[NewRun] = ()
    """Runs on threads of their own that start with this commit and are not children."""
    timers: Sequence[NewTimer] = ()
    cancelled_timers: Sequence[TimerId] = ()
    contexts: Sequence[ContextSnapshot] = ()
    usage: Usage | None = None
    iterations: int = 0
    move: Move | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a commit: the number of the last event, and the ids and sequences of its messages."""

    last_event_seq: int
    unread: int = 0
    spent: Usage | None = None
    """Usage of the nearest budget, if the commit added usage; `input_tokens` counts all tokens."""
    message_ids: Sequence[MessageId] = ()
    sequences: Sequence[int] = ()


def check_commit(commit: Commit) -> None:
    """Raise if `commit` is not valid."""
    if commit.move is not None:
        check_worker_move(commit.lease.run_id, commit.move)
    if commit.messages:
        check_message_ids(commit.messages)
        if commit.move is not None and commit.move.to.terminal and unanswered_calls(commit.messages):
            raise Invalid("a run cannot end with an unanswered tool call", field="messages")
    if commit.steps:
        _check_steps(commit)
    check_value_names(commit.values)
    if len(set(commit.consumed)) != len(commit.consumed):
        raise Invalid("`consumed` names an inbox item twice", field="consumed")
    _check_created(commit)
    if commit.interrupts and (commit.move is None or commit.move.to is not RunStatus.WAITING):
        raise Invalid("an interrupt requires a commit that moves the run to `waiting`", field="interrupts")


def _check_created(commit: Commit) -> None:
    for artifact in commit.artifacts:
        check_new_artifact(artifact)
    for memory in commit.memories:
        check_new_memory(memory)
    for timer in commit.timers:
        check_new_timer(timer)
    for child in commit.children:
        _check_child(commit.lease, child)
    for run in commit.follow_ups:
        _check_follow_up(run)


def _check_child(lease: Lease, child: NewRun) -> None:
    check_new_run(child)
    if child.parent_run_id != lease.run_id or not isinstance(child.thread, NewThread):
        raise Invalid("a child run must name its parent and start a new thread", field="children")
    if child.idempotency_key is not None:
        raise Invalid("a child run takes no idempotency key: its commit is atomic", field="children")


def _check_follow_up(run: NewRun) -> None:
    check_new_run(run)
    if run.parent_run_id is not None or not isinstance(run.thread, NewThread) or run.idempotency_key is not None:
        raise Invalid("a follow-up has no parent and no idempotency key, and starts a new thread", field="follow_ups")


def _check_steps(commit: Commit) -> None:
    if len({step.number for step in commit.steps}) != len(commit.steps):
        raise Invalid("`steps` names a step twice", field="steps")
    answered = {message.tool_call_id for message in commit.messages if message.role is Role.TOOL}
    has_assistant_message = any(message.role is Role.ASSISTANT for message in commit.messages)
    for step in commit.steps:
        has_message = has_assistant_message if step.kind is StepKind.MODEL else step.tool_call_id in answered
        if step.state is StepState.DONE and not has_message:
            raise Invalid(f"step {step.number} is done, but its message is not in the same commit", field="steps")
