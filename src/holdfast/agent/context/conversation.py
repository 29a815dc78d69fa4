"""`ConversationWindow`: the last messages of a run's conversation, as its worker holds them in memory."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.ids import MessageId, RunId, ToolCallId
from holdfast.domain.message import STEERING_METADATA_KEY, Message, Role, ToolCall, unanswered_calls
from holdfast.ports.log import Journal

_HISTORY_PAGE_MESSAGES: Final = 200


class TurnPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The current turn of a conversation."""

    goal: Message | None
    """The user message that started it."""
    position: int
    """The number of assistant messages since."""


class ConversationWindow:
    """The last messages of a run's chain, oldest first."""

    def __init__(self, run_id: RunId, messages: Sequence[Message], *, turn: TurnPosition, whole: bool) -> None:
        self._run_id = run_id
        self._call_ids = {call.id for message in messages for call in message.tool_calls}
        self.messages = list(messages)
        self.goal = turn.goal
        """The user message that started the turn."""
        self.position = turn.position
        """The number of assistant messages since."""
        self.whole = whole
        """Whether the window starts with the first message of the chain."""

    def add(self, messages: Iterable[Message]) -> None:
        """Append messages that were committed."""
        for message in messages:
            self.messages.append(message)
            self._call_ids.update(call.id for call in message.tool_calls)
            if starts_turn(message):
                self.position, self.goal = 0, message
            elif message.role is Role.ASSISTANT:
                self.position += 1

    def prepend(self, earlier: Sequence[Message], *, whole: bool) -> None:
        """Insert earlier messages before the first one."""
        self.messages[:0] = earlier
        self._call_ids.update(call.id for message in earlier for call in message.tool_calls)
        self.whole = whole

    def drop_through(self, through: int) -> None:
        """Drop the messages up to a sequence, which a summary replaces; the last of them stays as a mark."""
        older = sum(message.sequence is not None and message.sequence <= through for message in self.messages)
        if older > 1:
            del self.messages[: older - 1]
            self.whole = False

    def has_call(self, call_id: ToolCallId) -> bool:
        """Return whether a message of the window has a tool call with that id."""
        return call_id in self._call_ids

    @property
    def last_user_id(self) -> MessageId | None:
        """The id of the latest message of the user, steering included."""
        of_user = (message.id for message in reversed(self.messages) if message.role is Role.USER)
        return next(of_user, None if self.goal is None else self.goal.id)

    def open_exchange(self) -> tuple[Message, list[ToolCall]] | None:
        """Return the assistant message of this run with unanswered tool calls, and those calls."""
        for message in reversed(self.messages):
            if message.run_id != self._run_id:
                return None
            if message.role is Role.ASSISTANT:
                calls = unanswered_calls(self.messages)
                return (message, calls) if calls else None
        return None


def starts_turn(message: Message) -> bool:
    """Return whether a message starts a turn: a user message that is not steering."""
    return message.role is Role.USER and not message.metadata.get(STEERING_METADATA_KEY)


async def read_turn(journal: Journal, lease: Lease, messages: Sequence[Message]) -> TurnPosition:
    """Find the message that started the turn, reading back through the history if needed."""
    position = 0
    while messages:
        for message in reversed(messages):
            if starts_turn(message):
                return TurnPosition(goal=message, position=position)
            position += message.role is Role.ASSISTANT
        first = messages[0].sequence
        if not first:
            break
        messages = await journal.history(lease, before=first, limit=_HISTORY_PAGE_MESSAGES)
    return TurnPosition(goal=None, position=position)
