"""What a client is told in one piece: the conversation as it was at an event, and the state."""

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.control.ag_ui.matching import chain_of
from holdfast.control.ag_ui.messages import shown
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
from holdfast.domain.ids import MessageId, RunId, SpaceId
from holdfast.domain.instant import millis
from holdfast.domain.message import Message, Role
from holdfast.ports.log import EventLog, LoggedEvent, Messages

_NAMING: Final = ("TEXT_MESSAGE_START", "TOOL_CALL_START", "TOOL_CALL_RESULT")
"""Events that name the messages which a run says."""
_PAGE: Final = 1000


class Computed(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is in no log: it is sent behind the one whose number it has."""

    seq: int
    type: str
    data: bytes


class Snapshots:
    """Makes snapshots."""

    def __init__(self, *, messages: Messages, events: EventLog) -> None:
        self._messages = messages
        self._events = events

    async def conversation(self, space: SpaceId, run: RunId, *, at: LoggedEvent) -> Computed:
        """Return the whole chain of a run as it was at an event of its log."""
        said = await self._said(space, run, through=at.seq)
        kept = _until(await chain_of(self._messages, space, run), run, said)
        return _computed(MessagesSnapshot(timestamp=millis(at.created_at), messages=shown(kept)), at)

    def state(self, state: Json, *, at: LoggedEvent) -> Computed:
        """Return a state."""
        return _computed(StateSnapshot(timestamp=millis(at.created_at), snapshot=state), at)

    async def _said(self, space: SpaceId, run: RunId, *, through: int) -> set[MessageId]:
        """Return the ids of the messages that a run had said up to an event."""
        said: set[MessageId] = set()
        seq = 0
        while page := await self._events.after(space, run, seq=seq, limit=_PAGE, types=_NAMING):
            said.update(name for event in page if event.seq <= through for name in _names(decode_event(event.data)))
            seq = page[-1].seq
            if seq >= through:
                break
        return said


def _names(event: Event) -> Iterator[MessageId]:
    match event:
        case TextMessageStart(message_id=name) | ToolCallResult(message_id=name):
            yield name
        case ToolCallStart(parent_message_id=str(name)):
            yield name
        case _:
            pass


def _until(chain: list[Message], run: RunId, said: set[MessageId]) -> Iterator[Message]:
    """Yield the messages of a chain up to the first that its last run had not said yet."""
    for message in chain:
        if message.run_id == run and message.role in (Role.ASSISTANT, Role.TOOL) and message.id not in said:
            return
        yield message


def _computed(event: MessagesSnapshot | StateSnapshot, at: LoggedEvent) -> Computed:
    return Computed(seq=at.seq, type=str(event.__struct_config__.tag), data=msgspec.json.encode(event))
