"""`RunWriter` collects the events, messages and steps of a run and commits them under its lease.

Deltas of one message between two commits become one event. Commits are serialised: anything emitted during a commit
goes into the next one. `commit_while` commits pending events at an interval while an awaitable runs, and the first
delta of a message at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self, TypeAlias, TypeVar

from holdfast.agent.context.conversation import ConversationWindow
from holdfast.concurrency import FirstErrorTaskGroup
from holdfast.domain.artifact import NewArtifact
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot
from holdfast.domain.errors import BudgetExceeded, InboxNotEmpty, WouldDeadlock
from holdfast.domain.events import (
    Custom,
    Event,
    ReasoningMessageContent,
    TerminalEvent,
    TextMessageContent,
    ToolCallArgs,
)
from holdfast.domain.events.custom import HoldfastEvent, StepChanged, from_custom, step_changed, to_custom
from holdfast.domain.ids import InterruptId, MessageId, TimerId, ToolCallId
from holdfast.domain.instant import Instant, instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.limits import Usage
from holdfast.domain.memory import NewMemory
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move
from holdfast.domain.step import Step
from holdfast.domain.stream import StreamNormaliser
from holdfast.domain.timer import NewTimer
from holdfast.ports.log import Journal
from holdfast.ports.runtime import Clock

DeltaEvent: TypeAlias = TextMessageContent | ReasoningMessageContent | ToolCallArgs


class RunWriter:
    """Emits the events of one run and commits its draft under one lease."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        stream: StreamNormaliser,
        conversation: ConversationWindow,
        clock: Clock,
        *,
        last_event_seq: int,
        commit_interval: Callable[[], float],
    ) -> None:
        """Create a writer. `commit_interval` returns the seconds until pending events are committed."""
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._deltas: list[str] = []
        self._delta_target: tuple[type[DeltaEvent], str] | None = None
        self._commit_lock = asyncio.Lock()
        self.has_committed = False
        self.has_pending = asyncio.Event()
        """Set while there is something to commit."""
        self.has_new_message = asyncio.Event()
        """Set while the first delta of a message is to be committed."""
        self._streamed_messages: set[str] = set()
        self.commit_interval = commit_interval
        self.before_move: Callable[[], Awaitable[None]] | None = None
        """What is done under the lease before a commit that gives it up."""
        self._conversation = conversation
        self.stream = stream
        self.draft = CommitDraft()
        self.unread = 0
        self.spent: Usage | None = None
        """The spent budget, if it has changed since it was last emitted."""
        self.last_event_seq = last_event_seq

    def now(self) -> Instant:
        """Return the time of the run's clock."""
        return instant(self._clock.now())

    def emit(self, *events: Event) -> None:
        """Add events to the draft, normalised into a valid AG-UI stream."""
        self._flush_delta()
        at = self._clock.now()
        for event in events:
            self.draft.events += self.stream.feed(event, at=at)
        self.has_pending.set()

    def emit_custom(self, *events: HoldfastEvent) -> None:
        """Emit events that AG-UI has no type for."""
        self.emit(*map(to_custom, events))

    def emit_delta(self, kind: type[DeltaEvent], name: MessageId | ToolCallId, delta: str) -> None:
        """Emit a delta of a message, of reasoning, or of a call's arguments; consecutive ones become one event."""
        if self._delta_target != (kind, name):
            self._flush_delta()
            self._delta_target = (kind, name)
            self.has_pending.set()
            if kind is not ToolCallArgs and name not in self._streamed_messages:
                self._streamed_messages.add(name)
                self.has_new_message.set()
        self._deltas.append(delta)

    def record_step(self, step: Step) -> Step:
        """Emit the state of a step, and add it to the draft."""
        self.draft.steps[step.number] = step
        self.emit_custom(step_changed(step))
        return step

    def discard_step(self, step: Step) -> None:
        """Remove a step that could not start, and its events, from the draft."""

        def is_of_step(event: Event) -> bool:
            custom = from_custom(event) if isinstance(event, Custom) else None
            return isinstance(custom, StepChanged) and custom.number == step.number

        del self.draft.steps[step.number]
        self.draft.events = [event for event in self.draft.events if not is_of_step(event)]

    def discard_custom(self, kind: type[HoldfastEvent]) -> None:
        """Remove the events of one kind from the draft."""
        self.draft.events = [
            event
            for event in self.draft.events
            if not (isinstance(event, Custom) and isinstance(from_custom(event), kind))
        ]

    def close_open_messages(self) -> None:
        """Close the messages that are still streaming."""
        self._flush_delta()
        self.draft.events += self.stream.close(at=self._clock.now())

    async def commit(self, move: Move | None = None, *, end: TerminalEvent | None = None) -> None:
        """Commit the draft; its messages enter the conversation, unless `move` ends the work on the run.

        If the store refuses it for now, the draft is kept for the next commit, without the move and its end event.
        """
        if move is not None and self.before_move is not None:
            await self.before_move()
        async with self._commit_lock:
            if move is None and self._delta_target is None and self.draft.empty:
                return
            self._flush_delta()
            terminal: list[Event] = []
            if end is not None:
                *closing, last = self.stream.end(end, at=self._clock.now())
                self.draft.events += closing
                terminal = [last]
            draft, self.draft = self.draft, CommitDraft()
            self.has_pending.clear()
            self.has_new_message.clear()
            try:
                committed = await self._journal.commit(draft.to_commit(self._lease, move=move, end=terminal))
            except (InboxNotEmpty, BudgetExceeded, WouldDeadlock):
                self.draft.prepend(draft)
                if terminal:
                    self.stream.undo_end()
                raise
            self.has_committed = True
            self.unread = committed.unread
            self.spent = committed.spent or self.spent
            self.last_event_seq = committed.last_event_seq
            if move is None:
                self._conversation.add(
                    [self._stored_message(message, committed, index) for index, message in enumerate(draft.messages)]
                )

    def _flush_delta(self) -> None:
        """Add the collected deltas to the draft as one event."""
        if self._delta_target is None:
            return
        (kind, name), delta = self._delta_target, "".join(self._deltas)
        self._delta_target = None
        self._deltas.clear()
        event: DeltaEvent
        if kind is ToolCallArgs:
            event = ToolCallArgs(tool_call_id=ToolCallId(name), delta=delta)
        elif kind is TextMessageContent:
            event = TextMessageContent(message_id=MessageId(name), delta=delta)
        else:
            event = ReasoningMessageContent(message_id=MessageId(name), delta=delta)
        self.draft.events += self.stream.feed(event, at=self._clock.now())

    def _stored_message(self, message: NewMessage, committed: Committed, index: int) -> Message:
        return Message(
            id=committed.message_ids[index],
            thread_id=self._lease.thread_id,
            run_id=self._lease.run_id,
            role=message.role,
            content=message.content,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
            sequence=committed.sequences[index],
            revises=message.revises,
            metadata=message.metadata,
            created_by=message.created_by,
            created_at=instant(self._clock.now()),
        )


@dataclass(slots=True, eq=False)
class CommitDraft:
    """The content of the next commit."""

    events: list[Event] = field(default_factory=list)
    messages: list[NewMessage] = field(default_factory=list)
    steps: dict[int, Step] = field(default_factory=dict)
    values: dict[str, Json] = field(default_factory=dict)
    consumed: list[int] = field(default_factory=list)
    interrupts: list[NewInterrupt] = field(default_factory=list)
    withdrawn: list[InterruptId] = field(default_factory=list)
    artifacts: list[NewArtifact] = field(default_factory=list)
    memories: list[NewMemory] = field(default_factory=list)
    children: list[NewRun] = field(default_factory=list)
    follow_ups: list[NewRun] = field(default_factory=list)
    timers: list[NewTimer] = field(default_factory=list)
    cancelled_timers: list[TimerId] = field(default_factory=list)
    contexts: list[ContextSnapshot] = field(default_factory=list)
    usage: Usage | None = None
    iterations: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(getattr(self, name) for name in self.__slots__)

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of a model call."""
        self.usage = usage if self.usage is None else self.usage + usage

    def to_commit(self, lease: Lease, *, move: Move | None = None, end: Sequence[Event] = ()) -> Commit:
        """Return the draft as a commit, with `end` after its events."""
        return Commit(
            lease=lease,
            events=[*self.events, *end] if end else self.events,
            messages=self.messages,
            steps=list(self.steps.values()),
            values=self.values,
            consumed=self.consumed,
            interrupts=self.interrupts,
            withdrawn=self.withdrawn,
            artifacts=self.artifacts,
            memories=self.memories,
            children=self.children,
            follow_ups=self.follow_ups,
            timers=self.timers,
            cancelled_timers=self.cancelled_timers,
            contexts=self.contexts,
            usage=self.usage,
            iterations=self.iterations,
            move=move,
        )

    def prepend(self, earlier: Self) -> None:
        """Put the content of an earlier draft, which was not committed, before the content of this one."""
        for name in self.__slots__:
            if isinstance(content := getattr(earlier, name), list):
                getattr(self, name)[:0] = content
        self.steps = earlier.steps | self.steps
        self.values = earlier.values | self.values
        if earlier.usage is not None:
            self.add_usage(earlier.usage)
        self.iterations += earlier.iterations


T = TypeVar("T")


async def commit_while(writer: RunWriter, awaitable: Awaitable[T]) -> T:
    """Await `awaitable`, committing pending events at the writer's interval; a failed commit cancels it."""
    done = asyncio.Event()
    commits: list[asyncio.Task[None]] = []

    async def commit_periodically() -> None:
        while True:
            await writer.has_pending.wait()
            if done.is_set():
                return
            await writer.commit()
            if done.is_set():  # a commit that waited for another one has cleared the events
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(writer.commit_interval()):
                    await writer.has_new_message.wait()

    def stop_committing() -> None:
        start.cancel()
        done.set()
        writer.has_new_message.set()
        writer.has_pending.set()

    writer.has_new_message.clear()
    async with FirstErrorTaskGroup() as group:
        # An awaitable that ends before the event loop runs anything else needs no task.
        start = asyncio.get_running_loop().call_soon(lambda: commits.append(group.create_task(commit_periodically())))
        try:
            return await awaitable
        except Exception:
            stop_committing()
            if commits:
                await asyncio.wait(commits)  # the caller must know whether a commit in flight has succeeded
            raise
        finally:
            stop_committing()
