"""pydantic-ai stream events converted to model deltas.

A tool call is emitted once its name is complete: with its first argument text, or when its part ends.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec
from pydantic_ai import messages as ai

from holdfast.domain.errors import ModelRefused, ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.models.text import replace_surrogates
from holdfast.ports.model import ModelDelta, ReasoningDelta, TextDelta, ToolArgumentsDelta, ToolCallStarted

MIN_CALL_ID_CHARS: Final = 8
"""Shorter call ids are replaced: servers that number their calls (`0`, `call_1`) start again with each response."""


class StreamConverter:
    """Converts the events of one response; `used_ids` are the call ids of the conversation so far."""

    def __init__(self, used_ids: Iterable[str]) -> None:
        self.has_output = False
        """Whether there was any output other than reasoning."""
        self._ids = CallIds(used_ids)
        self._calls: dict[int, ToolCallBuilder] = {}

    def convert(self, event: ai.ModelResponseStreamEvent) -> Iterable[ModelDelta]:
        """Return the deltas of `event`."""
        return _find_converter(EVENT_CONVERTERS, event)(self, event)

    def _delta(self, event: ai.PartDeltaEvent) -> Iterable[ModelDelta]:
        return _find_converter(DELTA_CONVERTERS, event.delta)(self, event.index, event.delta)

    def _start(self, event: ai.PartStartEvent) -> Iterable[ModelDelta]:
        return _find_converter(PART_CONVERTERS, event.part)(self, event.index, event.part)

    def _end(self, event: ai.PartEndEvent) -> Iterable[ModelDelta]:
        call = self._calls.get(event.index)
        return () if call is None else call.start()

    def _ignore(self, *_: Any) -> Iterable[ModelDelta]:
        return ()

    def _text(self, _: int, part: ai.TextPart | ai.TextPartDelta) -> Iterable[ModelDelta]:
        text = part.content if isinstance(part, ai.TextPart) else part.content_delta
        self.has_output = self.has_output or bool(text)
        return (TextDelta(replace_surrogates(text)),) if text else ()

    def _reasoning(self, _: int, part: ai.ThinkingPart | ai.ThinkingPartDelta) -> Iterable[ModelDelta]:
        text = part.content if isinstance(part, ai.ThinkingPart) else part.content_delta
        return (ReasoningDelta(replace_surrogates(text)),) if text else ()

    def _call(self, index: int, part: ai.ToolCallPart[Any]) -> Iterable[ModelDelta]:
        if index in self._calls:
            raise ModelUnavailable(f"the model started its call of `{part.tool_name}` twice")
        self.has_output = True
        call = self._calls[index] = ToolCallBuilder(self._ids.unique(part.tool_call_id), part.tool_name)
        return call.extend_arguments(part.args)

    def _call_delta(self, index: int, delta: ai.ToolCallPartDelta) -> Iterable[ModelDelta]:
        call = self._calls.get(index)
        if call is None:
            return ()  # a call of a tool that runs at the provider
        return call.extend_name(delta.tool_name_delta) or call.extend_arguments(delta.args_delta)

    def _refuse_file(self, *_: Any) -> Iterable[ModelDelta]:
        raise ModelRefused("the model returned a file or speech: use a model that returns text")


class CallIds:
    """Ids of tool calls, unique in the conversation."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)

    def unique(self, id: str) -> ToolCallId:
        """Return `id`, or a new one if it is short or already used."""
        if len(id) < MIN_CALL_ID_CHARS or id in self._used:
            id = f"call_{uuid4().hex}"
        self._used.add(id)
        return ToolCallId(id)


class ToolCallBuilder:
    """A tool call whose name and arguments arrive in pieces."""

    def __init__(self, id: ToolCallId, name: str) -> None:
        self._id = id
        self.name = name
        self._started = False

    def extend_name(self, more: str | None) -> Iterable[ModelDelta]:
        """Append to the name, which is complete once the call has started."""
        if more and self._started:
            raise ModelUnavailable(f"the model changed the name of its call of `{self.name}` after its start")
        self.name += more or ""
        return ()

    def extend_arguments(self, arguments: str | dict[str, Any] | None) -> Iterable[ModelDelta]:
        """Append to the arguments."""
        text = msgspec.json.encode(arguments).decode() if isinstance(arguments, dict) else arguments
        return (*self.start(), ToolArgumentsDelta(self._id, replace_surrogates(text))) if text else ()

    def start(self) -> Iterable[ModelDelta]:
        """Return the start of the call, once."""
        if self._started:
            return ()
        if not self.name.isprintable():
            raise ModelUnavailable(f"the model called a tool with an invalid name: {ascii(self.name[:64])}")
        self._started = True
        return (ToolCallStarted(self._id, self.name),)


_Converter: TypeAlias = Callable[..., Iterable[ModelDelta]]


def _find_converter(table: Mapping[type, _Converter], value: object) -> _Converter:
    converter = table.get(type(value))
    if converter is None:
        raise ModelRefused(f"the model returned a `{type(value).__name__}`, which this version does not support")
    return converter


EVENT_CONVERTERS: Final[Mapping[type, _Converter]] = {
    ai.PartDeltaEvent: StreamConverter._delta,
    ai.PartStartEvent: StreamConverter._start,
    ai.PartEndEvent: StreamConverter._end,
    ai.FinalResultEvent: StreamConverter._ignore,
}
DELTA_CONVERTERS: Final[Mapping[type, _Converter]] = {
    ai.TextPartDelta: StreamConverter._text,
    ai.ThinkingPartDelta: StreamConverter._reasoning,
    ai.ToolCallPartDelta: StreamConverter._call_delta,
    ai.SpeechPartDelta: StreamConverter._refuse_file,
}
PART_CONVERTERS: Final[Mapping[type, _Converter]] = {
    ai.TextPart: StreamConverter._text,
    ai.ThinkingPart: StreamConverter._reasoning,
    ai.ToolCallPart: StreamConverter._call,
    ai.ToolSearchCallPart: StreamConverter._call,
    ai.LoadCapabilityCallPart: StreamConverter._call,
    # Parts of tools that run at the provider are stored with the response and sent back.
    ai.NativeToolCallPart: StreamConverter._ignore,
    ai.NativeToolReturnPart: StreamConverter._ignore,
    ai.NativeToolSearchCallPart: StreamConverter._ignore,
    ai.NativeToolSearchReturnPart: StreamConverter._ignore,
    ai.CompactionPart: StreamConverter._ignore,
    ai.FilePart: StreamConverter._refuse_file,
    ai.SpeechPart: StreamConverter._refuse_file,
}
