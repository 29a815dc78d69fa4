"""Units: messages that are sent together or not at all, and their shortening.

An assistant message and the results of all its calls are one unit, because providers accept neither alone. Every other
message is its own unit. A result without its call is left out, and so is a call without a result.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.agent.context.tokens import MessageSizer, SizedMessage
from holdfast.domain.content import Content, TextPart
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import Message, NewMessage, Role


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together, and the sequences they go from and to in the log; a note begins nowhere."""

    messages: tuple[SizedMessage, ...]
    tokens: int
    first: int | None = None
    last: int | None = None

    @property
    def head(self) -> Message | NewMessage:
        """The message that the others follow from."""
        return self.messages[0].message


def group_units(messages: Sequence[Message], *, sizes: MessageSizer) -> list[Unit]:
    """Return the units of a conversation, oldest first."""
    found = []
    for index, message in enumerate(messages):
        if message.tool_calls:
            found += _exchange_units(messages, index, sizes)
        elif message.role is not Role.TOOL and (message.content or message.role is not Role.ASSISTANT):
            found.append(single_unit(message, sizes=sizes))
    return found


def single_unit(message: Message, *, sizes: MessageSizer) -> Unit:
    """Return the unit of a message that stands by itself."""
    sized = sizes.stored(message)
    return Unit(messages=(sized,), tokens=sized.tokens, first=message.sequence, last=message.sequence)


def note_unit(sized: SizedMessage, *, last: int) -> Unit:
    """Return the unit of what the runtime says in place of messages up to `last`."""
    return Unit(messages=(sized,), tokens=sized.tokens, last=last)


def text_of(content: Content) -> str:
    """Return the text of `content`; what is no text is left out."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def _exchange_units(messages: Sequence[Message], index: int, sizes: MessageSizer) -> list[Unit]:
    asked = messages[index]
    tools = {call.id: call.name for call in asked.tool_calls}
    results = _first_results(messages, index, tools)
    head = _without_open_calls(asked, results, sizes)
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


def _first_results(messages: Sequence[Message], index: int, tools: dict[ToolCallId, str]) -> dict[ToolCallId, Message]:
    """Return the first result of each call, up to the next answer of the model."""
    found: dict[ToolCallId, Message] = {}
    for at in range(index + 1, len(messages)):
        message = messages[at]
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.TOOL and message.tool_call_id in tools:
            found.setdefault(message.tool_call_id, message)
    return found


def _without_open_calls(asked: Message, results: dict[ToolCallId, Message], sizes: MessageSizer) -> SizedMessage | None:
    """Return the message without the calls that nobody answered, if anything is left of it."""
    calls = [call for call in asked.tool_calls if call.id in results]
    if len(calls) == len(asked.tool_calls):
        return sizes.stored(asked)
    if not calls and not asked.content:
        return None
    return sizes.replacement(NewMessage(role=asked.role, content=asked.content, id=asked.id, tool_calls=calls))


MIN_RESULT_CHARS: Final = 480
"""Characters that are left of each result, whatever the room. The tags around it are among them."""


def shorten_results(unit: Unit, *, max_tokens: int, sizes: MessageSizer) -> Unit:
    """Return `unit` with at most `most` tokens, if shorter results can bring it there."""
    if unit.tokens <= max_tokens:
        return unit
    results = [part.tokens for part in unit.messages if part.message.role is Role.TOOL]
    level = _cut_length(results, room=max_tokens - (unit.tokens - sum(results)))
    parts = tuple(_shorten_part(part, level, sizes) for part in unit.messages)
    return Unit(messages=parts, tokens=sum(part.tokens for part in parts), first=unit.first, last=unit.last)


def elide_middle(text: str, *, max_chars: int) -> str:
    """Return head and tail of `text`, together about `most` characters, and a note of what is missing between them."""
    if len(text) <= max_chars:
        return text
    head, tail = max_chars - max_chars // 3, max_chars // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters are left out here]\n{text[len(text) - tail :]}"


def _cut_length(lengths: Sequence[int], *, room: int) -> int:
    """Return the length to which the longest must be cut, so that all of them fit into `room`."""
    for index, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - index)
        if length > share:
            return share
        room -= length
    return room


def _shorten_part(part: SizedMessage, level: int, sizes: MessageSizer) -> SizedMessage:
    message = part.message
    if message.role is not Role.TOOL or part.tokens <= level or not isinstance(message.content, str):
        return part
    most = len(message.content) * level // part.tokens
    while True:
        most = max(most * 9 // 10, MIN_RESULT_CHARS)
        text = elide_middle(message.content, max_chars=most)
        made = NewMessage(role=message.role, content=text, id=message.id, tool_call_id=message.tool_call_id)
        cut = sizes.replacement(made)
        if cut.tokens <= level or most == MIN_RESULT_CHARS:
            return cut if cut.tokens < part.tokens else part
