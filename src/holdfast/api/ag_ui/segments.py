"""A segment for one AG-UI client: log events up to its end, plus snapshots of messages and state."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.ag_ui.messages import read_chain, to_ag_ui_messages
from holdfast.control.streams.broadcast import Subscriber
from holdfast.domain.content import Json
from holdfast.domain.events import (
    MessagesSnapshot,
    StateSnapshot,
    TextMessageStart,
    ToolCallResult,
    ToolCallStart,
    decode_event,
)
from holdfast.domain.ids import MessageId, RunId, SpaceId, ToolCallId
from holdfast.domain.instant import millis
from holdfast.domain.message import Role
from holdfast.domain.run import Run
from holdfast.ports.log import EventLog, LoggedEvent, Messages

_MESSAGE_ID_TYPES: Final = ("TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT")
"""Events that carry the ids of the messages of a run."""
_EVENT_PAGE_SIZE: Final = 1000


class ComputedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is not in the log: it is sent after the log event with the same number."""

    seq: int
    type: str
    data: bytes


class Snapshots:
    """Computes snapshot events."""

    def __init__(self, *, messages: Messages, events: EventLog) -> None:
        self._messages = messages
        self._events = events

    async def conversation(self, space: SpaceId, run: RunId, *, at: LoggedEvent) -> ComputedEvent:
        """Return the whole chain of a run as it was at an event of its log."""
        streamed_ids = await self._streamed_message_ids(space, run, through=at.seq)
        messages = takewhile(
            lambda each: each.run_id != run or each.role in (Role.USER, Role.SYSTEM) or each.id in streamed_ids,
            await read_chain(self._messages, space, run),
        )
        return _computed_event(
            MessagesSnapshot(timestamp=millis(at.created_at), messages=to_ag_ui_messages(messages)), at
        )

    def state(self, state: Json, *, at: LoggedEvent) -> ComputedEvent:
        """Return a snapshot of a state."""
        return _computed_event(StateSnapshot(timestamp=millis(at.created_at), snapshot=state), at)

    async def _streamed_message_ids(self, space: SpaceId, run: RunId, *, through: int) -> set[MessageId]:
        """Return the ids of the messages that a run had started up to an event."""
        ids: set[MessageId] = set()
        seq = 0
        while page := await self._events.after(space, run, seq=seq, limit=_EVENT_PAGE_SIZE, types=_MESSAGE_ID_TYPES):
            for event in page:
                if event.seq > through:
                    break
                match decode_event(event.data):
                    case TextMessageStart(message_id=id) | ToolCallResult(message_id=id):
                        ids.add(id)
                    case ToolCallStart(parent_message_id=str(id)):
                        ids.add(id)
                    case _:
                        pass
            seq = page[-1].seq
            if seq >= through:
                break
        return ids


def _computed_event(event: MessagesSnapshot | StateSnapshot, at: LoggedEvent) -> ComputedEvent:
    return ComputedEvent(seq=at.seq, type=str(event.__struct_config__.tag), data=msgspec.json.encode(event))


SegmentEvent: TypeAlias = LoggedEvent | ComputedEvent

_END_TYPES: Final = frozenset({"RUN_FINISHED", "RUN_ERROR"})
_SPECIAL_TYPES: Final = _END_TYPES | {"RUN_STARTED", "TOOL_CALL_RESULT"}
_ABANDONED_NAME: Final = b'"holdfast.abandoned"'


class SegmentProjection:
    """The events of a run that one client is sent."""

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
        """Send `state` at the start, and omit the results of the calls that the client has `answered` itself.

        A client that has `joined` is sent the conversation at the start: it may have a part of what follows.
        """
        self._snapshots = snapshots
        self._space = space
        self._run = run
        self._state = state
        self._answered = answered
        self._joined = joined
        self.ended = False
        """Whether the end of the segment was sent."""

    async def project(self, events: Sequence[LoggedEvent]) -> Sequence[SegmentEvent]:
        """Return the events to send for the next log events."""
        if not any(map(_is_special, events)):
            return events
        projected: list[SegmentEvent] = []
        for event in events:
            if not self._is_answered(event):
                projected += [event, *await self._snapshots_after(event)]
            if event.type in _END_TYPES:
                self.ended = True
                break
        return projected

    async def _snapshots_after(self, event: LoggedEvent) -> list[ComputedEvent]:
        snapshots = []
        is_start = event.type == "RUN_STARTED"
        is_abandonment = event.type == "CUSTOM" and _ABANDONED_NAME in event.data
        if is_abandonment or (is_start and self._joined):
            snapshots.append(await self._snapshots.conversation(self._space, self._run, at=event))
        if is_start and self._state is not UNSET:
            snapshots.append(self._snapshots.state(self._state, at=event))
        return snapshots

    def _is_answered(self, event: LoggedEvent) -> bool:
        if event.type != "TOOL_CALL_RESULT" or not self._answered:
            return False
        result = decode_event(event.data)
        return isinstance(result, ToolCallResult) and result.tool_call_id in self._answered


class SegmentSubscription(NamedTuple):
    """A run, and the segment of it that a client follows."""

    run: Run
    subscriber: Subscriber
    segment: SegmentProjection


def _is_special(event: LoggedEvent) -> bool:
    return event.type in _SPECIAL_TYPES or (event.type == "CUSTOM" and _ABANDONED_NAME in event.data)
