"""Chat completions of OpenAI, and of everything compatible with it, decoded into deltas.

The rules are those of pydantic-ai's stream, so that both lanes store the same parts:

- A part of a kind ends when one of another kind starts. Text after reasoning is a new text part.
- `<think>` and `</think>` count as tags only as a whole chunk.
- Where the profile says so, whitespace before the first text of a part is dropped; between two text parts it is kept.
"""

from typing import Any, Final

import msgspec
from pydantic_ai.usage import RequestUsage

from holdfast.models.direct_lane.response import (
    CallPiece,
    FinishReason,
    ProviderErrorEvent,
    StreamedResponse,
    TextPiece,
    ThinkingPiece,
    lenient_decoder,
    without_nulls,
)
from holdfast.models.direct_lane.sse import SseEvent

REASONING_FIELDS: Final = ("reasoning", "reasoning_content")
"""Fields of a delta with reasoning; of several, the first that is set counts."""

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "content_filter": "content_filter",
    "function_call": "tool_call",
}


class ChatProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the profile of a model says about its streams."""

    thinking_tags: tuple[str, str]
    reasoning_fields: tuple[str, ...]
    ignore_leading_whitespace: bool


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct, frozen=True):
    index: Any = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(msgspec.Struct, frozen=True):
    content: Any = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, frozen=True):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decode = lenient_decoder(_Chunk)


class ChatDecoder:
    """Decodes the events of one response."""

    def __init__(self, response: StreamedResponse, profile: ChatProfile, *, provider_url: str) -> None:
        self._response = response
        self._profile = profile
        self._provider_url = provider_url
        self._content_number = 0
        self._reasoning_number = 0
        self._held_whitespace = ""
        self._text_expected = False
        """Whether reasoning has interrupted a text, so that whitespace before the next text separates them."""

    def feed(self, event: SseEvent) -> None:
        """Decode an event; raise `ProviderErrorEvent` for an error of the provider."""
        if event.data.startswith(b"[DONE]"):
            self._response.ended = True
            return
        if not event.data:
            return
        chunk = _decode(event.data)
        if chunk.error:
            raise ProviderErrorEvent
        response = self._response
        if chunk.usage is not None:
            response.usage += chat_usage(chunk.usage, response, provider_url=self._provider_url)
        response.response_id = chunk.id or response.response_id
        response.model_name = chunk.model or response.model_name
        if chunk.choices:
            self._choice(chunk.choices[0])

    def _choice(self, choice: _Choice) -> None:
        response, delta, finish = self._response, choice.delta, choice.finish_reason
        if delta is None:  # Azure's content filter
            return
        if delta.refusal:
            response.refusal = (response.refusal or "") + delta.refusal
            response.finish_reason = "content_filter"
            return
        if finish and response.refusal is None:
            response.finish_reason = _FINISH_REASONS.get(finish)
            response.finish_named = True
        for field in self._profile.reasoning_fields:
            reasoning = getattr(delta, field)
            if reasoning and isinstance(reasoning, str):
                self._reasoning(field, reasoning)
                break
        content = _joined_texts(delta.content) if type(delta.content) is list else delta.content
        if content and isinstance(content, str):
            self._content(content)
        for call in delta.tool_calls or ():
            self._call(call)

    def _reasoning(self, field: str, text: str) -> None:
        response, key = self._response, ("reasoning", field, self._reasoning_number)
        piece = response.find(key)
        if not isinstance(piece, ThinkingPiece):
            piece = response.start_thinking(key, id=field, provider=response.provider)
            self._end_text(by_reasoning=True)
        response.add_thinking(piece, text)

    def _content(self, text: str) -> None:
        response, key = self._response, ("content", self._content_number)
        piece = response.find(key)
        opening, closing = self._profile.thinking_tags
        if type(piece) is TextPiece and text != opening:
            response.add_text(piece, text)
        elif type(piece) is ThinkingPiece:
            if text == closing:
                response.forget(key)
            else:
                response.add_thinking(piece, text)
        elif text == opening:
            response.start_thinking(key, id="content", provider=response.provider)
            self._end_reasoning()
        elif self._profile.ignore_leading_whitespace and text.isspace():
            if self._text_expected:
                self._held_whitespace += text
        else:
            piece = response.start_text(key)
            self._end_reasoning()
            response.add_text(piece, self._held_whitespace + text)
            self._held_whitespace = ""

    def _call(self, call: _ToolCall) -> None:
        response, function = self._response, call.function or _Function()
        index = int(call.index) if isinstance(call.index, str) and call.index.isdecimal() else call.index
        if index is not None:
            piece = response.find(index)
        else:  # without an index, a name starts a new call
            last = response.pieces[-1] if response.pieces and function.name is None else None
            piece = last if type(last) is CallPiece else None
        if piece is None:
            piece = response.start_call(index)
        if type(piece) is not CallPiece:
            raise ValueError("a tool call has the index of another part")
        if call.extra_content:  # Gemini's signature of a call
            piece.details = {"extra_content": call.extra_content}
        if response.add_to_call(piece, name=function.name, call_id=call.id, arguments=function.arguments):
            self._end_reasoning()
            self._end_text(by_reasoning=False)

    def _end_reasoning(self) -> None:
        self._reasoning_number += 1
        self._text_expected = False

    def _end_text(self, *, by_reasoning: bool) -> None:
        if type(self._response.find(("content", self._content_number))) is TextPiece:
            self._content_number += 1
            self._text_expected = by_reasoning


def chat_usage(usage: dict[str, Any], response: StreamedResponse, *, provider_url: str) -> RequestUsage:
    """Return the usage of a chunk, as the price list of its provider reads it."""
    reported = without_nulls(usage)
    extracted = RequestUsage.extract(
        {"model": response.model_name, "usage": reported},
        provider=response.provider,
        provider_url=provider_url,
        provider_fallback="openai",
        api_flavor="chat",
    )
    return with_cache_writes(extracted, reported.get("prompt_tokens_details"))


def with_cache_writes(usage: RequestUsage, details: Any) -> RequestUsage:
    """Return the usage with the tokens written to a cache, which not every entry of the price list reads."""
    if isinstance(details, dict) and isinstance(writes := details.get("cache_write_tokens"), int):
        usage.cache_write_tokens = writes
    return usage


def _joined_texts(parts: list[Any]) -> str:
    """Return the text of a list of parts, which some servers send."""
    return "".join(filter(None, map(_text_of, parts)))


def _text_of(part: Any) -> str | None:
    if isinstance(part, dict) and part.get("type") == "text":
        part = part.get("text")
    return part if isinstance(part, str) else None
