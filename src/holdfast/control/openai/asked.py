"""What somebody asks for who completes a chat."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from holdfast.domain.content import Content
from holdfast.domain.ids import ThreadId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.tool import ToolSpec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A chat to be completed by an agent. Without a thread, `messages` are all there is of it."""

    agent: str
    messages: Sequence[NewMessage]
    tools: Sequence[ToolSpec] = ()
    """What the caller runs if the agent asks for it."""
    thread: ThreadId | None = None
    key: str | None = None


def news(messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Return what follows the last thing that the assistant said."""
    return list(takewhile(lambda each: each.role is not Role.ASSISTANT, reversed(messages)))[::-1]


def results(messages: Sequence[NewMessage]) -> dict[str, Content]:
    """Return what the last messages answer to calls, by the ids of these."""
    return {each.tool_call_id: each.content for each in news(messages) if each.tool_call_id is not None}
