"""A turn of a script, prepared: all that is the same each time it is played is made once."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.models.script import ScriptedCall, Turn
from holdfast.models.text import last_words
from holdfast.ports.model import ModelFinished, ReasoningDelta, TextDelta

MARKS: Final[Mapping[str, Role]] = {"{$last_user}": Role.USER, "{$last_tool}": Role.TOOL}
"""What stands in a script for what was said last."""

_MARK: Final = re.compile("|".join(map(re.escape, MARKS)))


class Scene:
    """What a turn says, ready to be given out."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Final = turn
        self.lines: Final = _lines(turn)
        self.calls: Final = [(call.name, msgspec.json.encode(call.arguments).decode()) for call in turn.call]
        self.finished: Final = ModelFinished(
            usage=Usage(input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens, cost_usd=0.0),
            reason="tool_calls" if turn.call else "stop",
        )
        self.refers: Final = frozenset(
            mark for text in (turn.say, *(text for _, text in self.calls)) for mark in _MARK.findall(text)
        )

    def unsaid(self, messages: Sequence[Message | NewMessage]) -> list[str]:
        """Return the marks that have nothing to stand for yet."""
        return [mark for mark in sorted(self.refers) if last_words(messages, MARKS[mark]) is None]

    def filled(self, messages: Sequence[Message | NewMessage]) -> "Scene":
        """Return the scene with what was said in place of its marks; what was said is not looked through again."""
        said = {mark: last_words(messages, MARKS[mark]) or "" for mark in self.refers}
        return Scene(_filled(self.turn, lambda text: _MARK.sub(lambda mark: said[mark[0]], text)))


def pieces(text: str, count: int) -> list[str]:
    """Split `text` into `count` nearly equal pieces, or fewer where one would be empty."""
    count = min(count, len(text))
    return [text[index * len(text) // count : (index + 1) * len(text) // count] for index in range(count)]


def _lines(turn: Turn) -> list[ReasoningDelta | TextDelta]:
    thoughts = [ReasoningDelta(turn.think)] if turn.think else []
    return [*thoughts, *(TextDelta(piece) for piece in pieces(turn.say, turn.chunks))]


def _filled(turn: Turn, fill: Callable[[str], str]) -> Turn:
    calls = [ScriptedCall(name=call.name, arguments=_filled_json(call.arguments, fill)) for call in turn.call]
    return msgspec.structs.replace(turn, say=fill(turn.say), call=calls)


def _filled_json(value: Json, fill: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        return {key: _filled_json(item, fill) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled_json(item, fill) for item in value]
    return value
