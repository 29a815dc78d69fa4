"""pydantic-ai stream events converted to model deltas.

A tool call is emitted once its name is complete: with its first argument text, or when its part ends.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec
from pydantic_ai import messages as told

from holdfast.domain.errors import ModelRefused, ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.models.text import replace_surrogates
from holdfast.ports.model import ModelDelta, ReasoningDelta, TextDelta, ToolArgumentsDelta, ToolCallStarted

MIN_CALL_ID_CHARS: Final = 8
"""Servers that count their calls (`0`, `call_1`) begin anew with each answer, so ids as short as that are replaced."""


class StreamConverter:
    """What one answer has said so far."""

    def __init__(self, used_ids: Iterable[str]) -> None:
        self.has_output = False
        """Whether anything but thoughts was told."""
        self._used_ids = set(used_ids)
        self._calls: dict[int, _ToolCallBuilder] = {}

    def convert(self, event: told.ModelResponseStreamEvent) -> Iterable[ModelDelta]:
        """Return what `event` adds."""
        return _find_converter(EVENT_CONVERTERS, event)(self, event)

    def _change(self, event: told.PartDeltaEvent) -> Iterable[ModelDelta]:
        return _find_converter(DELTA_CONVERTERS, event.delta)(self, event.index, event.delta)

    def _start(self, event: told.PartStartEvent) -> Iterable[ModelDelta]:
        return _find_converter(PART_CONVERTERS, event.part)(self, event.index, event.part)

    def _end(self, event: told.PartEndEvent) -> Iterable[ModelDelta]:
        call = self._calls.get(event.index)
        return () if call is None else call.start()

    def _ignore(self, *_: Any) -> Iterable[ModelDelta]:
        return ()

    def _text(self, _: int, part: told.TextPart) -> Iterable[ModelDelta]:
        return self._text_delta(part.content)

    def _more_text(self, _: int, delta: told.TextPartDelta) -> Iterable[ModelDelta]:
        return self._text_delta(delta.content_delta)

    def _text_delta(self, text: str) -> Iterable[ModelDelta]:
        self.has_output = self.has_output or bool(text)
        return (TextDelta(replace_surrogates(text)),) if text else ()

    def _thought(self, _: int, part: told.ThinkingPart) -> Iterable[ModelDelta]:
        return (ReasoningDelta(replace_surrogates(part.content)),) if part.content else ()

    def _more_thought(self, _: int, delta: told.ThinkingPartDelta) -> Iterable[ModelDelta]:
        return (ReasoningDelta(replace_surrogates(delta.content_delta)),) if delta.content_delta else ()

    def _call(self, index: int, part: told.ToolCallPart[Any]) -> Iterable[ModelDelta]:
        if index in self._calls:
            raise ModelUnavailable(f"the model began its call of `{part.tool_name}` a second time")
        self.has_output = True
        call = self._calls[index] = _ToolCallBuilder(self._unique_id(part.tool_call_id), part.tool_name)
        return call.extend_arguments(part.args)

    def _more_call(self, index: int, delta: told.ToolCallPartDelta) -> Iterable[ModelDelta]:
        call = self._calls.get(index)
        if call is None:
            return ()  # of a tool that runs at the provider
        return call.extend_name(delta.tool_name_delta) or call.extend_arguments(delta.args_delta)

    def _refuse_file(self, *_: Any) -> Iterable[ModelDelta]:
        raise ModelRefused("the model answered with a file or with speech: use one that answers in words")

    def _unique_id(self, id: str) -> ToolCallId:
        if len(id) < MIN_CALL_ID_CHARS or id in self._used_ids:
            id = f"call_{uuid4().hex}"
        self._used_ids.add(id)
        return ToolCallId(id)


class _ToolCallBuilder:
    """A call that is being told."""

    def __init__(self, id: ToolCallId, name: str) -> None:
        self._id = id
        self._name = name
        self._started = False

    def extend_name(self, more: str | None) -> Iterable[ModelDelta]:
        """Add to the name."""
        if more and self._started:
            raise ModelUnavailable(f"the model changed the name of its call of `{self._name}` in the middle")
        self._name += more or ""
        return ()

    def extend_arguments(self, arguments: str | dict[str, Any] | None) -> Iterable[ModelDelta]:
        """Add to the arguments."""
        text = msgspec.json.encode(arguments).decode() if isinstance(arguments, dict) else arguments
        return (*self.start(), ToolArgumentsDelta(self._id, replace_surrogates(text))) if text else ()

    def start(self) -> Iterable[ModelDelta]:
        """Say that there is a call, once."""
        if self._started:
            return ()
        if not self._name.isprintable():
            raise ModelUnavailable(f"the model called a tool by what is no name: {ascii(self._name[:64])}")
        self._started = True
        return (ToolCallStarted(self._id, self._name),)


_Converter: TypeAlias = Callable[..., Iterable[ModelDelta]]


def _find_converter(table: Mapping[type, _Converter], thing: object) -> _Converter:
    found = table.get(type(thing))
    if found is None:
        raise ModelRefused(f"the model answered with a `{type(thing).__name__}`, which this version does not know")
    return found


EVENT_CONVERTERS: Final[Mapping[type, _Converter]] = {
    told.PartDeltaEvent: StreamConverter._change,
    told.PartStartEvent: StreamConverter._start,
    told.PartEndEvent: StreamConverter._end,
    told.FinalResultEvent: StreamConverter._ignore,
}
DELTA_CONVERTERS: Final[Mapping[type, _Converter]] = {
    told.TextPartDelta: StreamConverter._more_text,
    told.ThinkingPartDelta: StreamConverter._more_thought,
    told.ToolCallPartDelta: StreamConverter._more_call,
    told.SpeechPartDelta: StreamConverter._refuse_file,
}
PART_CONVERTERS: Final[Mapping[type, _Converter]] = {
    told.TextPart: StreamConverter._text,
    told.ThinkingPart: StreamConverter._thought,
    told.ToolCallPart: StreamConverter._call,
    told.ToolSearchCallPart: StreamConverter._call,
    told.LoadCapabilityCallPart: StreamConverter._call,
    # What runs at the provider is for the provider: it is kept with the answer and sent back.
    told.NativeToolCallPart: StreamConverter._ignore,
    told.NativeToolReturnPart: StreamConverter._ignore,
    told.NativeToolSearchCallPart: StreamConverter._ignore,
    told.NativeToolSearchReturnPart: StreamConverter._ignore,
    told.CompactionPart: StreamConverter._ignore,
    told.FilePart: StreamConverter._refuse_file,
    told.SpeechPart: StreamConverter._refuse_file,
}
