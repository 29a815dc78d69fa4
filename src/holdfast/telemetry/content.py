"""What was said, as the conventions write it into a span. It is asked for only where an operator turned it on."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.ports.model import (
    ModelDelta,
    ModelFinished,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)

_FINISHED: Final = {"tool_calls": "tool_call", "refused": "content_filter"}


def instructions(system: str) -> str:
    """Write a system prompt."""
    return as_json([_text(system)])


def conversation(messages: Iterable[Message | NewMessage]) -> str:
    """Write what a model was told."""
    return as_json([{"role": str(message.role), "parts": list(_parts(message))} for message in messages])


def as_json(value: Json) -> str:
    """Write any value."""
    return msgspec.json.encode(value, enc_hook=str).decode()


class Said:
    """What a model says, put together."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[str, tuple[str, list[str]]] = {}

    def take(self, delta: ModelDelta) -> None:
        """Add a piece."""
        match delta:
            case TextDelta(text=text):
                self._texts.append(text)
            case ReasoningDelta(text=text):
                self._thoughts.append(text)
            case ToolCallStarted():
                self._calls[delta.id] = (delta.name, [])
            case ToolArgumentsDelta():
                self._calls[delta.id][1].append(delta.arguments)
            case ModelFinished():
                pass

    def written(self, reason: str) -> str:
        """Write all of it."""
        parts: list[dict[str, Any]] = []
        if self._thoughts:
            parts.append({"type": "reasoning", "content": "".join(self._thoughts)})
        if self._texts:
            parts.append(_text("".join(self._texts)))
        parts += [_call(each, name, "".join(pieces)) for each, (name, pieces) in self._calls.items()]
        return as_json([{"role": "assistant", "parts": parts, "finish_reason": _FINISHED.get(reason, reason)}])


def _parts(message: Message | NewMessage) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
    elif isinstance(message.content, str):
        if message.content:
            yield _text(message.content)
    else:
        yield {"type": "content", "content": message.content}
    for call in message.tool_calls:
        yield _call(call.id, call.name, call.arguments)


def _text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _call(call_id: str, name: str, arguments: Json) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
