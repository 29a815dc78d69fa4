"""`ConversationWindow`: the last messages of a run's conversation, as its worker holds them in memory."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.ids import RunId, ToolCallId
from holdfast.domain.message import STEERING_METADATA_KEY, Message, Role, ToolCall, unanswered_calls
from holdfast.ports.log import Journal

_HISTORY_PAGE_MESSAGES: Final = 200


class TurnPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn of the conversation stands."""

    goal: Message | None
    """The user message that began it."""
    position: int
    """How many assistant messages there are since."""


class ConversationWindow:
    """The last messages of a run's chain, oldest first."""

    def __init__(self, run_id: RunId, messages: Sequence[Message], *, turn: TurnPosition, whole: bool) -> None:
        self._run_id = run_id
        self._call_ids = {call.id for message in messages for call in message.tool_calls}
        self.messages = list(messages)
        self.goal = turn.goal
        """The user message that this turn answers."""
        self.position = turn.position
        """How many assistant messages there are since."""
        self.whole = whole
        """Whether the chain begins with the first of the messages."""

    def add(self, messages: Iterable[Message]) -> None:
        """Take note of messages that entered."""
        for message in messages:
            self.messages.append(message)
            self._call_ids.update(call.id for call in message.tool_calls)
            if starts_turn(message):
                self.position, self.goal = 0, message
            elif message.role is Role.ASSISTANT:
                self.position += 1

    def prepend(self, earlier: Sequence[Message], *, whole: bool) -> None:
        """Take in messages from before the first one."""
        self.messages[:0] = earlier
        self.whole = whole

    def drop_through(self, through: int) -> None:
        """Let go of messages up to a sequence, which are told in fewer words now; the last of them stays as a mark."""
        older = sum(message.sequence is not None and message.sequence <= through for message in self.messages)
        if older > 1:
            del self.messages[: older - 1]
            self.whole = False

    def has_call(self, call_id: ToolCallId) -> bool:
        """Say whether a call of that id was made."""
        return call_id in self._call_ids

    def open_exchange(self) -> tuple[Message, list[ToolCall]] | None:
        """Return the assistant message of this run that still has calls to be answered, and those calls."""
        for message in reversed(self.messages):
            if message.run_id != self._run_id:
                return None
            if message.role is Role.ASSISTANT:
                calls = unanswered_calls(self.messages)
                return (message, calls) if calls else None
        return None


def starts_turn(message: Message) -> bool:
    """Say whether a message begins a turn of the conversation."""
    return message.role is Role.USER and not message.metadata.get(STEERING_METADATA_KEY)


async def read_turn(journal: Journal, lease: Lease, messages: Sequence[Message]) -> TurnPosition:
    """Find the message that began the turn, however far back that is."""
    count = 0
    while messages:
        for message in reversed(messages):
            if starts_turn(message):
                return TurnPosition(goal=message, position=count)
            count += message.role is Role.ASSISTANT
        first = messages[0].sequence
        if not first:
            break
        messages = await journal.history(lease, before=first, limit=_HISTORY_PAGE_MESSAGES)
    return TurnPosition(goal=None, position=count)
