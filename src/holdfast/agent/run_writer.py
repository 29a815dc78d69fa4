"""`RunWriter` collects the events, messages and steps of a run and commits them under its lease.

Deltas of one message between two commits become one event. Commits are serialised: anything emitted during a commit
goes into the next one. `commit_while` commits at a fixed interval while something runs; nothing is polled.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Self, TypeAlias, TypeVar

import msgspec

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
from holdfast.domain.events.custom import HoldfastEvent, StepChanged, from_custom, to_custom
from holdfast.domain.ids import InterruptId, MessageId, TimerId, ToolCallId
from holdfast.domain.instant import instant
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.limits import Usage
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
    """Says things and commits them, in the name of one lease."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        stream: StreamNormaliser,
        conversation: ConversationWindow,
        clock: Clock,
        *,
        last_event_seq: int,
    ) -> None:
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._deltas: list[str] = []
        self._delta_target: tuple[type[DeltaEvent], str] | None = None
        self._commit_lock = asyncio.Lock()
        self.has_pending = asyncio.Event()
        """Set while there is something to commit."""
        self._conversation = conversation
        self.stream = stream
        self.draft = CommitDraft()
        self.unread = 0
        self.spent: Usage | None = None
        """What was spent of the budget when that last changed and nobody has said so."""
        self.last_event_seq = last_event_seq

    def emit(self, *events: Event) -> None:
        """Say something; the stream makes it legal."""
        self._flush_delta()
        at = self._clock.now()
        for event in events:
            self.draft.events += self.stream.feed(event, at=at)
        self.has_pending.set()

    def emit_custom(self, *events: HoldfastEvent) -> None:
        """Say what AG-UI has no event for."""
        self.emit(*map(to_custom, events))

    def emit_delta(self, kind: type[DeltaEvent], name: MessageId | ToolCallId, delta: str) -> None:
        """Say more of a message, of what is thought, or of a call's arguments."""
        if self._delta_target != (kind, name):
            self._flush_delta()
            self._delta_target = (kind, name)
            self.has_pending.set()
        self._deltas.append(delta)

    def record_step(self, step: Step) -> Step:
        """Say where a step stands, and keep it in the ledger."""
        self.draft.steps[step.number] = step
        self.emit_custom(
            StepChanged(
                number=step.number,
                kind=step.kind,
                state=step.state,
                key=step.key,
                attempt=step.attempt,
                tool_call_id=msgspec.UNSET if step.tool_call_id is None else step.tool_call_id,
            )
        )
        return step

    def discard_step(self, step: Step) -> None:
        """Unsay a step that could not begin."""
        del self.draft.steps[step.number]
        self.draft.events = [event for event in self.draft.events if not _is_step_event(event, step)]

    def close_open_messages(self) -> None:
        """Close whatever a model was streaming."""
        self._flush_delta()
        self.draft.events += self.stream.close(at=self._clock.now())

    async def commit(self, move: Move | None = None, *, end: TerminalEvent | None = None) -> None:
        """Commit all that was said; messages enter the conversation, unless the run is moved: then it is let go of.

        Where the store refuses it for now, all of it but the move is kept for the next commit.
        """
        async with self._commit_lock:
            if move is None and self._delta_target is None and self.draft.empty:
                return
            ending = self._end_events(end)
            draft, self.draft = self.draft, CommitDraft()
            self.has_pending.clear()
            try:
                done = await self._journal.commit(draft.to_commit(self._lease, move=move, end=ending))
            except (InboxNotEmpty, BudgetExceeded, WouldDeadlock):
                self.draft.prepend(draft)
                if ending:
                    self.stream.undo_end()
                raise
            self.unread = done.unread
            self.spent = done.spent or self.spent
            self.last_event_seq = done.last_event_seq
            if move is None:
                entered = [self._stored_message(message, done, index) for index, message in enumerate(draft.messages)]
                self._conversation.add(entered)

    def _end_events(self, end: TerminalEvent | None) -> list[Event]:
        """Return the event that ends the segment; what it closes before is said already."""
        self._flush_delta()
        if end is None:
            return []
        *closing, terminal = self.stream.end(end, at=self._clock.now())
        self.draft.events += closing
        return [terminal]

    def _flush_delta(self) -> None:
        """Say what was gathered of a message as one event."""
        if self._delta_target is None:
            return
        (kind, name), delta = self._delta_target, "".join(self._deltas)
        self._delta_target = None
        self._deltas.clear()
        self.draft.events += self.stream.feed(_delta_event(kind, name, delta), at=self._clock.now())

    def _stored_message(self, message: NewMessage, done: Committed, index: int) -> Message:
        return Message(
            id=done.message_ids[index],
            thread_id=self._lease.thread_id,
            run_id=self._lease.run_id,
            role=message.role,
            content=message.content,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
            sequence=done.sequences[index],
            revises=message.revises,
            metadata=message.metadata,
            created_by=message.created_by,
            created_at=instant(self._clock.now()),
        )


def _is_step_event(event: Event, step: Step) -> bool:
    told = from_custom(event) if isinstance(event, Custom) else None
    return isinstance(told, StepChanged) and told.number == step.number


def _delta_event(kind: type[DeltaEvent], name: str, delta: str) -> DeltaEvent:
    if kind is ToolCallArgs:
        return ToolCallArgs(tool_call_id=ToolCallId(name), delta=delta)
    if kind is TextMessageContent:
        return TextMessageContent(message_id=MessageId(name), delta=delta)
    return ReasoningMessageContent(message_id=MessageId(name), delta=delta)


class CommitDraft:
    """The next commit, while it grows."""

    __slots__ = (
        "artifacts",
        "cancelled_timers",
        "children",
        "consumed",
        "contexts",
        "events",
        "interrupts",
        "iterations",
        "messages",
        "steps",
        "timers",
        "usage",
        "values",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.messages: list[NewMessage] = []
        self.steps: dict[int, Step] = {}
        self.values: dict[str, Json] = {}
        self.consumed: list[int] = []
        self.interrupts: list[NewInterrupt] = []
        self.withdrawn: list[InterruptId] = []
        self.artifacts: list[NewArtifact] = []
        self.children: list[NewRun] = []
        self.timers: list[NewTimer] = []
        self.cancelled_timers: list[TimerId] = []
        self.contexts: list[ContextSnapshot] = []
        self.usage: Usage | None = None
        self.iterations = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(getattr(self, name) for name in self.__slots__)

    def add(
        self,
        *,
        messages: Sequence[NewMessage] = (),
        values: Mapping[str, Json] | None = None,
        consumed: Sequence[int] = (),
        interrupts: Sequence[NewInterrupt] = (),
        withdrawn: Sequence[InterruptId] = (),
        artifacts: Sequence[NewArtifact] = (),
        children: Sequence[NewRun] = (),
        timers: Sequence[NewTimer] = (),
        contexts: Sequence[ContextSnapshot] = (),
    ) -> None:
        """Add more to it."""
        self.messages += messages
        self.values.update(values or {})
        self.consumed += consumed
        self.interrupts += interrupts
        self.withdrawn += withdrawn
        self.artifacts += artifacts
        self.children += children
        self.timers += timers
        self.contexts += contexts

    def add_usage(self, usage: Usage) -> None:
        """Add what a call used."""
        self.usage = usage if self.usage is None else self.usage + usage

    def to_commit(self, lease: Lease, *, move: Move | None = None, end: Sequence[Event] = ()) -> Commit:
        """Return it as a commit; `end` comes after all events."""
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
            children=self.children,
            timers=self.timers,
            cancelled_timers=self.cancelled_timers,
            contexts=self.contexts,
            usage=self.usage,
            iterations=self.iterations,
            move=move,
        )

    def prepend(self, earlier: Self) -> None:
        """Put what an earlier draft held, which could not be committed, in front of what this one holds."""
        self.events[:0] = earlier.events
        self.messages[:0] = earlier.messages
        self.steps = earlier.steps | self.steps
        self.values = earlier.values | self.values
        for name in (
            "consumed",
            "interrupts",
            "withdrawn",
            "artifacts",
            "children",
            "timers",
            "cancelled_timers",
            "contexts",
        ):
            getattr(self, name)[:0] = getattr(earlier, name)
        if earlier.usage is not None:
            self.add_usage(earlier.usage)
        self.iterations += earlier.iterations


T = TypeVar("T")


async def commit_while(writer: RunWriter, awaitable: Awaitable[T], *, interval: float) -> T:
    """Return what comes of `work`, and commit what is said meanwhile; an error of a commit ends the work."""
    over = asyncio.Event()
    commits: list[asyncio.Task[None]] = []
    async with FirstErrorTaskGroup() as group:
        # What is over before anything else could run needs no task.
        begin = asyncio.get_running_loop().call_soon(
            lambda: commits.append(group.create_task(_commit_periodically(writer, over, interval)))
        )
        try:
            return await awaitable
        except Exception:
            _stop_committing(begin, writer, over)
            if commits:
                await asyncio.wait(commits)  # what is said next must know whether a commit on its way is there
            raise
        finally:
            _stop_committing(begin, writer, over)


def _stop_committing(begin: asyncio.Handle, writer: RunWriter, done: asyncio.Event) -> None:
    begin.cancel()
    done.set()
    writer.has_pending.set()


async def _commit_periodically(writer: RunWriter, done: asyncio.Event, interval: float) -> None:
    while True:
        await writer.has_pending.wait()
        if done.is_set():
            return
        await writer.commit()
        with suppress(TimeoutError):
            async with asyncio.timeout(interval):
                await done.wait()
