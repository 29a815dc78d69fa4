"""The run's log, as its worker writes it: what is said gathers, and a commit takes all of it.

Deltas of one message that come between two commits become one event. Commits follow each other: what is said while
one is on its way goes into the next.
"""

import asyncio
from typing import TypeAlias

import msgspec

from holdfast.agent.conversation import Conversation
from holdfast.agent.draft import Draft
from holdfast.domain.commit import Committed, Lease
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
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.instant import instant
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage
from holdfast.domain.run import Move
from holdfast.domain.step import Step
from holdfast.domain.stream import StreamNormaliser
from holdfast.ports.log import Journal
from holdfast.ports.runtime import Clock

Delta: TypeAlias = TextMessageContent | ReasoningMessageContent | ToolCallArgs


class Log:
    """Says things and commits them, in the name of one lease."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        stream: StreamNormaliser,
        conversation: Conversation,
        clock: Clock,
        *,
        last_event_seq: int,
    ) -> None:
        self._journal = journal
        self._lease = lease
        self._clock = clock
        self._deltas: list[str] = []
        self._delta_of: tuple[type[Delta], str] | None = None
        self._one_at_a_time = asyncio.Lock()
        self.spoken = asyncio.Event()
        """Set while there is something to commit."""
        self._conversation = conversation
        self.stream = stream
        self.draft = Draft()
        self.unread = 0
        self.spent: Usage | None = None
        """What was spent of the budget when that last changed and nobody has said so."""
        self.last_event_seq = last_event_seq

    def say(self, *events: Event) -> None:
        """Say something; the stream makes it legal."""
        self._end_delta()
        at = self._clock.now()
        for event in events:
            self.draft.events += self.stream.feed(event, at=at)
        self.spoken.set()

    def tell(self, *events: HoldfastEvent) -> None:
        """Say what AG-UI has no event for."""
        self.say(*map(to_custom, events))

    def say_more(self, kind: type[Delta], name: MessageId | ToolCallId, delta: str) -> None:
        """Say more of a message, of what is thought, or of a call's arguments."""
        if self._delta_of != (kind, name):
            self._end_delta()
            self._delta_of = (kind, name)
            self.spoken.set()
        self._deltas.append(delta)

    def step(self, step: Step) -> Step:
        """Say where a step stands, and keep it in the ledger."""
        self.draft.steps[step.number] = step
        self.tell(
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

    def take_back(self, step: Step) -> None:
        """Unsay a step that could not begin."""
        del self.draft.steps[step.number]
        self.draft.events = [event for event in self.draft.events if not _is_about(event, step)]

    def close(self) -> None:
        """Close whatever a model was streaming."""
        self._end_delta()
        self.draft.events += self.stream.close(at=self._clock.now())

    async def commit(self, move: Move | None = None, *, end: TerminalEvent | None = None) -> None:
        """Commit all that was said; messages enter the conversation, unless the run is moved: then it is let go of.

        Where the store refuses it for now, all of it but the move is kept for the next commit.
        """
        async with self._one_at_a_time:
            if move is None and self._delta_of is None and self.draft.empty:
                return
            ending = self._ending(end)
            draft, self.draft = self.draft, Draft()
            self.spoken.clear()
            try:
                done = await self._journal.commit(draft.commit(self._lease, move=move, end=ending))
            except (InboxNotEmpty, BudgetExceeded, WouldDeadlock):
                self.draft.follow(draft)
                if ending:
                    self.stream.take_back_end()
                raise
            self.unread = done.unread
            self.spent = done.spent or self.spent
            self.last_event_seq = done.last_event_seq
            if move is None:
                entered = [self._entered(message, done, index) for index, message in enumerate(draft.messages)]
                self._conversation.add(entered)

    def _ending(self, end: TerminalEvent | None) -> list[Event]:
        """Return the event that ends the segment; what it closes before is said already."""
        self._end_delta()
        if end is None:
            return []
        *closing, terminal = self.stream.end(end, at=self._clock.now())
        self.draft.events += closing
        return [terminal]

    def _end_delta(self) -> None:
        """Say what was gathered of a message as one event."""
        if self._delta_of is None:
            return
        (kind, name), delta = self._delta_of, "".join(self._deltas)
        self._delta_of = None
        self._deltas.clear()
        self.draft.events += self.stream.feed(_delta_event(kind, name, delta), at=self._clock.now())

    def _entered(self, message: NewMessage, done: Committed, index: int) -> Message:
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


def _is_about(event: Event, step: Step) -> bool:
    told = from_custom(event) if isinstance(event, Custom) else None
    return isinstance(told, StepChanged) and told.number == step.number


def _delta_event(kind: type[Delta], name: str, delta: str) -> Delta:
    if kind is ToolCallArgs:
        return ToolCallArgs(tool_call_id=ToolCallId(name), delta=delta)
    if kind is TextMessageContent:
        return TextMessageContent(message_id=MessageId(name), delta=delta)
    return ReasoningMessageContent(message_id=MessageId(name), delta=delta)
