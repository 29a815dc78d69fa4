"""Asking a model for a summary of what is older, and taking what it wrote."""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.agent.context.shorten import middle_left_out
from holdfast.agent.context.sizes import Sized, Sizes
from holdfast.agent.context.units import Unit, words
from holdfast.agent.prompt.texts import filled, text
from holdfast.domain.content import TextPart
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, NewMessage, Role, ToolCall
from holdfast.ports.model import ModelCallPurpose, ModelRequest, ModelSettings
from holdfast.tools.content import sanitize

MOST_SAID: Final = 8_000
"""Characters of what a user or the model said that the writer of a summary is shown."""
MOST_ANSWERED: Final = 2_000
MOST_ASKED: Final = 500

_WORDS_PER_TOKEN: Final = 0.6


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a summary, and of how many of the units it is one."""

    request: ModelRequest
    units: int


def summary_request(
    older: Sequence[Unit], *, earlier: Sized | None, run_id: RunId, room: int, most: int, sizes: Sizes
) -> Excerpt:
    """Return the request for a summary of at most `most` tokens, of as many of the oldest units as fit into `room`.

    What was summarised before is part of it, so that the new summary replaces the old one. There is at least one unit.
    """
    told = [] if earlier is None else [earlier.message]
    room -= sum(sizes.of(message) for message in told)
    for unit in older:
        message = _told(unit)
        room -= sizes.of(message)
        if room < 0 and len(told) > (earlier is not None):
            break
        told.append(message)
    asked = NewMessage(role=Role.USER, content=filled("summarise", words=int(most * _WORDS_PER_TOKEN)))
    request = ModelRequest(
        run_id=run_id,
        system=text("summary"),
        messages=[*told, asked],
        # A model that thinks aloud has its thoughts counted too.
        settings=ModelSettings(thinking=False, max_output_tokens=2 * most),
        purpose=ModelCallPurpose.SUMMARY,
    )
    return Excerpt(request=request, units=len(told) - (earlier is not None))


def fitted(summary: str, *, most: int, sizes: Sizes) -> str:
    """Return what a model wrote, in at most `most` tokens and as it can be stored."""
    kept: str = sanitize(summary.strip())
    while (length := sizes.text(kept)) > most:
        kept = kept[: min(len(kept) - 1, len(kept) * most // length)].rstrip()
    return kept


def _told(unit: Unit) -> NewMessage:
    """Return a unit as one message: calls and their results are told in words, so that no tool has to be offered."""
    head = unit.head
    lines = [_said(head), *(f"[called {_call(call)}]" for call in head.tool_calls)]
    lines += [
        f"[answer]\n{middle_left_out(words(part.message.content), most=MOST_ANSWERED)}" for part in unit.messages[1:]
    ]
    return NewMessage(role=head.role, content="\n".join(line for line in lines if line))


def _said(message: Message | NewMessage) -> str:
    said = middle_left_out(words(message.content), most=MOST_SAID)
    if isinstance(message.content, str):
        return said
    attached = [type(part).__name__ for part in message.content if not isinstance(part, TextPart)]
    return "\n".join([said, *(f"[attached: {name.removesuffix('Part').lower()}]" for name in attached)])


def _call(call: ToolCall) -> str:
    return f"{call.name} {middle_left_out(msgspec.json.encode(call.arguments).decode(), most=MOST_ASKED)}"
