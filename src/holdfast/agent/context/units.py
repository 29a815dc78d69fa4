"""Units: what is sent whole or not at all.

An assistant message and the results of all its calls are one unit, because no provider takes one without the other.
Every other message is one by itself. A result that answers no call is left out, and so is a call without a result.
"""

from collections.abc import Sequence

import msgspec

from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.domain.content import Content, TextPart
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import Message, NewMessage, Role


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together, and the sequences they go from and to in the log; a note begins nowhere."""

    messages: tuple[Sized, ...]
    tokens: int
    first: int | None = None
    last: int | None = None

    @property
    def head(self) -> Message | NewMessage:
        """The message that the others follow from."""
        return self.messages[0].message


def units(messages: Sequence[Message], *, sizes: Sizes) -> list[Unit]:
    """Return the units of a conversation, oldest first."""
    found = []
    for index, message in enumerate(messages):
        if message.tool_calls:
            found += _exchange(messages, index, sizes)
        elif message.role is not Role.TOOL and (message.content or message.role is not Role.ASSISTANT):
            found.append(single(message, sizes=sizes))
    return found


def single(message: Message, *, sizes: Sizes) -> Unit:
    """Return the unit of a message that stands by itself."""
    sized = sizes.stored(message)
    return Unit(messages=(sized,), tokens=sized.tokens, first=message.sequence, last=message.sequence)


def note(sized: Sized, *, last: int) -> Unit:
    """Return the unit of what the runtime says in place of messages up to `last`."""
    return Unit(messages=(sized,), tokens=sized.tokens, last=last)


def words(content: Content) -> str:
    """Return the text of `content`; what is no text is left out."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def _exchange(messages: Sequence[Message], index: int, sizes: Sizes) -> list[Unit]:
    asked = messages[index]
    tools = {call.id: call.name for call in asked.tool_calls}
    results = _results(messages, index, tools)
    head = _asked(asked, results, sizes)
    if head is None:
        return []
    parts = (head, *(sizes.stored(result, tool=tools[id]) for id, result in results.items()))
    return [
        Unit(
            messages=parts,
            tokens=sum([part.tokens for part in parts]),
            first=asked.sequence,
            last=max([each.sequence or 0 for each in (asked, *results.values())]),
        )
    ]


def _results(messages: Sequence[Message], index: int, tools: dict[ToolCallId, str]) -> dict[ToolCallId, Message]:
    """Return the first result of each call, up to the next answer of the model."""
    found: dict[ToolCallId, Message] = {}
    for at in range(index + 1, len(messages)):
        message = messages[at]
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.TOOL and message.tool_call_id in tools:
            found.setdefault(message.tool_call_id, message)
    return found


def _asked(asked: Message, results: dict[ToolCallId, Message], sizes: Sizes) -> Sized | None:
    """Return the message without the calls that nobody answered, if anything is left of it."""
    calls = [call for call in asked.tool_calls if call.id in results]
    if len(calls) == len(asked.tool_calls):
        return sizes.stored(asked)
    if not calls and not asked.content:
        return None
    return sizes.changed(NewMessage(role=asked.role, content=asked.content, id=asked.id, tool_calls=calls))
