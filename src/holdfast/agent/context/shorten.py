"""Results that are too long to be sent whole: their middles are left out, the longest first, all to the same length."""

from collections.abc import Sequence
from typing import Final

from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.agent.context.units import Unit
from holdfast.domain.message import NewMessage, Role

LEAST: Final = 480
"""Characters that are left of each result, whatever the room. The tags around it are among them."""


def shortened(unit: Unit, *, most: int, sizes: Sizes) -> Unit:
    """Return `unit` with at most `most` tokens, if shorter results can bring it there."""
    if unit.tokens <= most:
        return unit
    results = [part.tokens for part in unit.messages if part.message.role is Role.TOOL]
    level = _level(results, room=most - (unit.tokens - sum(results)))
    parts = tuple(_cut(part, level, sizes) for part in unit.messages)
    return Unit(messages=parts, tokens=sum(part.tokens for part in parts), first=unit.first, last=unit.last)


def middle_left_out(text: str, *, most: int) -> str:
    """Return head and tail of `text`, together about `most` characters, and a note of what is missing between them."""
    if len(text) <= most:
        return text
    head, tail = most - most // 3, most // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters are left out here]\n{text[len(text) - tail :]}"


def _level(lengths: Sequence[int], *, room: int) -> int:
    """Return the length to which the longest must be cut, so that all of them fit into `room`."""
    for index, length in enumerate(sorted(lengths)):
        share = room // (len(lengths) - index)
        if length > share:
            return share
        room -= length
    return room


def _cut(part: Sized, level: int, sizes: Sizes) -> Sized:
    message = part.message
    if message.role is not Role.TOOL or part.tokens <= level or not isinstance(message.content, str):
        return part
    most = len(message.content) * level // part.tokens
    while True:
        most = max(most * 9 // 10, LEAST)
        text = middle_left_out(message.content, most=most)
        made = NewMessage(role=message.role, content=text, id=message.id, tool_call_id=message.tool_call_id)
        cut = sizes.changed(made)
        if cut.tokens <= level or most == LEAST:
            return cut if cut.tokens < part.tokens else part
