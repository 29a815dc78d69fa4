"""The state that an agent shares with its client, and the conversation as a whole."""

from typing import TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.events.event import AgUiEvent, Attributed
from holdfast.domain.events.messages import Message
from holdfast.domain.events.patch import Patch


class StateSnapshot(Attributed, frozen=True, kw_only=True, tag="STATE_SNAPSHOT"):
    """The whole state, which may be null."""

    snapshot: Json


class StateDelta(Attributed, frozen=True, kw_only=True, tag="STATE_DELTA"):
    """A change of the state."""

    delta: Patch


class MessagesSnapshot(AgUiEvent, frozen=True, kw_only=True, tag="MESSAGES_SNAPSHOT"):
    """The whole conversation, in order."""

    messages: list[Message]


StateEvent: TypeAlias = StateSnapshot | StateDelta
