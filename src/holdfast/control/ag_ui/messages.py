"""Messages of the protocol and ours, and whether two of them are the same."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from holdfast.domain.content import Content, TextPart
from holdfast.domain.events import messages as wire
from holdfast.domain.events.messages import AgUiContext
from holdfast.domain.ids import MessageId
from holdfast.domain.message import FAILED_METADATA_KEY, STEERING_METADATA_KEY, Message, NewMessage, Role

CONTEXT: Final = "context"
"""The key in the metadata of a message that tells the model what the client shows, and that nobody said."""

Spoken: TypeAlias = wire.UserMessage | wire.SystemMessage | wire.DeveloperMessage
"""What a client may begin a run with: all others are ours, or nobody's."""

_ROLES: Final = {
    wire.UserMessage: Role.USER,
    wire.SystemMessage: Role.SYSTEM,
    wire.DeveloperMessage: Role.SYSTEM,
    wire.AssistantMessage: Role.ASSISTANT,
    wire.ToolMessage: Role.TOOL,
}


def is_turn(message: Message) -> bool:
    """Say whether a client that followed the conversation must have a message of ours that somebody said."""
    told = message.metadata.keys() & {STEERING_METADATA_KEY, CONTEXT}
    return message.role in (Role.USER, Role.SYSTEM) and not told


def agrees(theirs: wire.AgUiMessage, ours: Message) -> bool:
    """Say whether a client's message is ours.

    Of an assistant's a client may have only the beginning, because it left before the end. The result of a tool is the
    one of its call, whatever a client calls it.
    """
    if _ROLES.get(type(theirs)) is not ours.role:
        return False
    match theirs:
        case wire.AssistantMessage(content=content):
            return content is UNSET or _text(ours.content).startswith(content)
        case wire.ToolMessage(tool_call_id=call):
            return call == ours.tool_call_id
        case wire.UserMessage() | wire.SystemMessage() | wire.DeveloperMessage():
            return _text(theirs.content) == _text(ours.content)
        case _:
            return False


def new_message(theirs: Spoken, *, revises: MessageId | None = None) -> NewMessage:
    """Return what a client says as the domain knows it."""
    metadata = {} if theirs.metadata is UNSET else theirs.metadata
    role = _ROLES[type(theirs)]
    return NewMessage(id=theirs.id, role=role, content=theirs.content, revises=revises, metadata=metadata)


def context_message(context: Sequence[AgUiContext]) -> NewMessage:
    """Return what a client shows beside the conversation, for the model to know."""
    lines = [f"- {each.description}: {each.value}" for each in context]
    text = "\n".join(["What the person sees now, as the application tells it:", *lines])
    return NewMessage(role=Role.SYSTEM, content=text, metadata={CONTEXT: True})


def shown(messages: Iterable[Message]) -> list[wire.AgUiMessage]:
    """Return messages as clients have them."""
    return [_shown(message) for message in messages if CONTEXT not in message.metadata]


def _shown(message: Message) -> wire.AgUiMessage:
    match message.role:
        case Role.USER:
            return wire.UserMessage(id=message.id, content=message.content)
        case Role.SYSTEM:
            return wire.SystemMessage(id=message.id, content=_text(message.content))
        case Role.ASSISTANT:
            return _assistant(message)
        case Role.TOOL:
            assert message.tool_call_id is not None
            error = _text(message.content) if FAILED_METADATA_KEY in message.metadata else UNSET
            return wire.ToolMessage(
                id=message.id, content=message.content, tool_call_id=message.tool_call_id, error=error
            )


def _assistant(message: Message) -> wire.AssistantMessage:
    calls = [
        wire.AgUiToolCall(
            id=call.id,
            function=wire.FunctionCall(name=call.name, arguments=msgspec.json.encode(call.arguments).decode()),
        )
        for call in message.tool_calls
    ]
    text = _text(message.content)
    return wire.AssistantMessage(id=message.id, content=text or UNSET, tool_calls=calls or UNSET)


def _text(content: Content) -> str:
    """Return the words of a content where it has nothing else, or all of it as one text to be compared."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text
    return msgspec.json.encode(content).decode()
