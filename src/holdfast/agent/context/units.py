"""Units: messages that are sent together or not at all, and their shortening.

An assistant message and the results of all its calls are one unit, because providers accept neither alone. Every other
message is its own unit. A result without its call is omitted, and so is a call without a result.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.agent.context.tokens import MessageSizer, SizedMessage
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import Message, NewMessage, Role


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that belong together, and their first and last sequence in the log; a note has no first."""

    messages: tuple[SizedMessage, ...]
    tokens: int
    first: int | None = None
    last: int | None = None

    @property
    def head(self) -> Message | NewMessage:
        """The first message, which the others respond to."""
        return self.messages[0].message


def group_units(messages: Sequence[Message], *, sizes: MessageSizer) -> list[Unit]:
    """Return the units of a conversation, oldest first."""
    units = []
    for index, message in enumerate(messages):
        if message.tool_calls:
            units += _exchange_units(messages, index, sizes)
        elif message.role is not Role.TOOL and (message.content or message.role is not Role.ASSISTANT):
            units.append(single_unit(message, sizes=sizes))
    return units


def single_unit(message: Message, *, sizes: MessageSizer) -> Unit:
    """Return the unit of a single message."""
    sized = sizes.stored(message)
    return Unit(messages=(sized,), tokens=sized.tokens, first=message.sequence, last=message.sequence)


def _exchange_units(messages: Sequence[Message], index: int, sizes: MessageSizer) -> list[Unit]:
    """Return the unit of an assistant message and the first result of each of its calls; none if nothing is left."""
    message = messages[index]
    tools = {call.id: call.name for call in message.tool_calls}
    results: dict[ToolCallId, Message] = {}
    for at in range(index + 1, len(messages)):
        later = messages[at]
        if later.role is Role.ASSISTANT:
            break
        if later.role is Role.TOOL and later.tool_call_id in tools:
            results.setdefault(later.tool_call_id, later)
    calls = [call for call in message.tool_calls if call.id in results]
    if len(calls) == len(message.tool_calls):
        head = sizes.stored(message)
    elif calls or message.content:
        head = sizes.replacement(
            NewMessage(role=message.role, content=message.content, id=message.id, tool_calls=calls)
        )
    else:
        return []
    parts = (head, *(sizes.stored(result, tool=tools[id]) for id, result in results.items()))
    return [
        Unit(
            messages=parts,
            tokens=sum([part.tokens for part in parts]),
            first=message.sequence,
            last=max([each.sequence or 0 for each in (message, *results.values())]),
        )
    ]


MIN_RESULT_CHARS: Final = 480
"""Characters that each shortened result keeps, including the tags around it."""


def shorten_results(unit: Unit, *, max_tokens: int, sizes: MessageSizer) -> Unit:
    """Return `unit` with its longest tool results shortened, so that it has at most `max_tokens` if possible."""
    if unit.tokens <= max_tokens:
        return unit
    results = sorted(part.tokens for part in unit.messages if part.message.role is Role.TOOL)
    limit = max_tokens - (unit.tokens - sum(results))
    for index, length in enumerate(results):
        share = limit // (len(results) - index)
        if length > share:
            limit = share
            break
        limit -= length
    parts = tuple(_shorten_part(part, limit, sizes) for part in unit.messages)
    return Unit(messages=parts, tokens=sum(part.tokens for part in parts), first=unit.first, last=unit.last)


def elide_middle(text: str, *, max_chars: int) -> str:
    """Return the head and tail of `text`, about `max_chars` characters, with a note about the omission between them."""
    if len(text) <= max_chars:
        return text
    head, tail = max_chars - max_chars // 3, max_chars // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters are left out here]\n{text[len(text) - tail :]}"


def _shorten_part(part: SizedMessage, max_tokens: int, sizes: MessageSizer) -> SizedMessage:
    message = part.message
    if message.role is not Role.TOOL or part.tokens <= max_tokens or not isinstance(message.content, str):
        return part
    max_chars = len(message.content) * max_tokens // part.tokens
    while True:
        max_chars = max(max_chars * 9 // 10, MIN_RESULT_CHARS)
        text = elide_middle(message.content, max_chars=max_chars)
        short = sizes.replacement(
            NewMessage(role=message.role, content=text, id=message.id, tool_call_id=message.tool_call_id)
        )
        if short.tokens <= max_tokens or max_chars == MIN_RESULT_CHARS:
            return short if short.tokens < part.tokens else part
