"""A segment for one AG-UI client: log events up to its end, plus snapshots of messages and state."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.ag_ui.messages import read_chain, to_ag_ui_messages
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.content import Json
from holdfast.domain.events import (
    Event,
    MessagesSnapshot,
    StateSnapshot,
    TextMessageStart,
    ToolCallResult,
    ToolCallStart,
    decode_event,
)
from holdfast.domain.ids import MessageId, RunId, SpaceId, ToolCallId
from holdfast.domain.instant import millis
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run
from holdfast.ports.log import EventLog, LoggedEvent, Messages

_MESSAGE_ID_TYPES: Final = ("TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT")
"""Events that name the messages which a run says."""
_EVENT_PAGE_SIZE: Final = 1000


class ComputedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is in no log: it is sent behind the one whose number it has."""

    seq: int
    type: str
    data: bytes


class Snapshots:
    """Makes snapshots."""

    def __init__(self, *, messages: Messages, events: EventLog) -> None:
        self._messages = messages
        self._events = events

    async def conversation(self, space: SpaceId, run: RunId, *, at: LoggedEvent) -> ComputedEvent:
        """Return the whole chain of a run as it was at an event of its log."""
        said = await self._said(space, run, through=at.seq)
        kept = _messages_until(await read_chain(self._messages, space, run), run, said)
        return _computed_event(MessagesSnapshot(timestamp=millis(at.created_at), messages=to_ag_ui_messages(kept)), at)

    def state(self, state: Json, *, at: LoggedEvent) -> ComputedEvent:
        """Return a state."""
        return _computed_event(StateSnapshot(timestamp=millis(at.created_at), snapshot=state), at)

    async def _said(self, space: SpaceId, run: RunId, *, through: int) -> set[MessageId]:
        """Return the ids of the messages that a run had said up to an event."""
        said: set[MessageId] = set()
        seq = 0
        while page := await self._events.after(space, run, seq=seq, limit=_EVENT_PAGE_SIZE, types=_MESSAGE_ID_TYPES):
            said.update(
                name for event in page if event.seq <= through for name in _message_ids(decode_event(event.data))
            )
            seq = page[-1].seq
            if seq >= through:
                break
        return said


def _message_ids(event: Event) -> Iterator[MessageId]:
    match event:
        case TextMessageStart(message_id=name) | ToolCallResult(message_id=name):
            yield name
        case ToolCallStart(parent_message_id=str(name)):
            yield name
        case _:
            pass


def _messages_until(chain: list[Message], run: RunId, said: set[MessageId]) -> Iterator[Message]:
    """Yield the messages of a chain up to the first that its last run had not said yet."""
    for message in chain:
        if message.run_id == run and message.role in (Role.ASSISTANT, Role.TOOL) and message.id not in said:
            return
        yield message


def _computed_event(event: MessagesSnapshot | StateSnapshot, at: LoggedEvent) -> ComputedEvent:
    return ComputedEvent(seq=at.seq, type=str(event.__struct_config__.tag), data=msgspec.json.encode(event))


SegmentEvent: TypeAlias = LoggedEvent | ComputedEvent

_END_TYPES: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_SPECIAL_TYPES: Final = _END_TYPES | {"RUN_STARTED", "TOOL_CALL_RESULT"}
_ABANDONED_NAME: Final = b'"holdfast.abandoned"'


class SegmentProjection:
    """What one client is sent of a run."""

    def __init__(
        self,
        snapshots: Snapshots,
        space: SpaceId,
        run: RunId,
        *,
        state: Json | UnsetType = UNSET,
        answered: frozenset[ToolCallId] = frozenset(),
        joined: bool = False,
    ) -> None:
        """Send the `state` at the beginning, and no result of the calls that the client has `answered` itself.

        A client that has `joined` is sent the conversation at the beginning: it may have a part of what follows.
        """
        self._snapshots = snapshots
        self._space = space
        self._run = run
        self._state = state
        self._answered = answered
        self._joined = joined
        self.ended = False
        """Whether its end was among what was sent."""

    async def project(self, events: Sequence[LoggedEvent]) -> Sequence[SegmentEvent]:
        """Return what to send for some events that follow those before."""
        if not any(map(_is_special, events)):
            return events
        sent: list[SegmentEvent] = []
        for event in events:
            if not self._has(event):
                sent += [event, *await self._beside(event)]
            if event.type in _END_TYPES:
                self.ended = True
                break
        return sent

    async def _beside(self, event: LoggedEvent) -> list[ComputedEvent]:
        match event.type:
            case "RUN_STARTED":
                return await self._beginning(event)
            case "CUSTOM" if _ABANDONED_NAME in event.data:
                return [await self._snapshots.conversation(self._space, self._run, at=event)]
            case _:
                return []

    async def _beginning(self, event: LoggedEvent) -> list[ComputedEvent]:
        state = [] if self._state is UNSET else [self._snapshots.state(self._state, at=event)]
        if not self._joined:
            return state
        return [await self._snapshots.conversation(self._space, self._run, at=event), *state]

    def _has(self, event: LoggedEvent) -> bool:
        if event.type != "TOOL_CALL_RESULT" or not self._answered:
            return False
        result = decode_event(event.data)
        return isinstance(result, ToolCallResult) and result.tool_call_id in self._answered


class SegmentSubscription(NamedTuple):
    """A run, and the segment of it that the client follows."""

    run: Run
    follower: Subscriber
    segment: SegmentProjection


def _is_special(event: LoggedEvent) -> bool:
    return event.type in _SPECIAL_TYPES or (event.type == "CUSTOM" and _ABANDONED_NAME in event.data)
