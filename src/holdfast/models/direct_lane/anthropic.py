"""Anthropic's Messages API, decoded into deltas."""

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
    UnsupportedPart,
    lenient_decoder,
)
from holdfast.models.direct_lane.sse import SseEvent

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}
_TOKEN_COUNTS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
REDACTED_THINKING: Final = "redacted_thinking"


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _StopDetails(msgspec.Struct, frozen=True):
    explanation: str | None = None


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    index: Any = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


_decode = lenient_decoder(_Event)


class AnthropicDecoder:
    """Decodes the events of one response."""

    def __init__(self, response: StreamedResponse, *, provider_url: str) -> None:
        self._response = response
        self._provider_url = provider_url
        self._started = False
        self._counts: dict[str, int] = {}
        """Counts are cumulative: a later one replaces an earlier one."""
        self._cache_1h_tokens = 0
        self._thinking_tokens = 0

    def feed(self, event: SseEvent) -> None:
        """Decode an event; raise `ProviderErrorEvent` for an error of the provider."""
        if event.name == b"error":
            raise ProviderErrorEvent
        if event.name not in _EVENT_NAMES or not event.data:
            return
        decoded = _decode(event.data)
        if not self._started and decoded.type != "message_start":
            raise ValueError(f"the stream begins with `{decoded.type[:64]}`")
        self._started = True
        handle = _HANDLERS.get(decoded.type)
        if handle is not None:
            handle(self, decoded)

    def _message_start(self, event: _Event) -> None:
        if event.message is None:
            return
        self._response.model_name = event.message.model or self._response.model_name
        self._response.response_id = event.message.id
        if event.message.usage is not None:
            self._add_usage(event.message.usage)

    def _block_start(self, event: _Event) -> None:
        response, block = self._response, event.content_block
        assert block is not None
        match block.type:
            case "text":
                if block.text:
                    response.add_text(response.start_text(event.index), block.text)
            case "thinking":
                piece = response.start_thinking(event.index, provider=response.provider)
                piece.signature = block.signature
                response.add_thinking(piece, block.thinking or "")
            case "redacted_thinking":
                piece = response.start_thinking(event.index, id=REDACTED_THINKING, provider=response.provider)
                piece.signature = block.data
            case "tool_use":
                call = response.start_call(event.index)
                response.add_to_call(call, name=block.name, call_id=block.id, arguments=block.input or None)
            case _:
                raise UnsupportedPart(block.type)

    def _block_delta(self, event: _Event) -> None:
        response, delta = self._response, event.delta
        assert delta is not None
        piece = response.find(event.index)
        match delta.type, piece:
            case "text_delta", TextPiece() | None:
                response.add_text(piece or response.start_text(event.index), delta.text)
            case "thinking_delta", ThinkingPiece() | None:
                response.add_thinking(response.thinking(event.index), delta.thinking)
            case "signature_delta", ThinkingPiece() | None:
                response.thinking(event.index).signature = delta.signature
            case "input_json_delta", CallPiece() | None:
                call = piece or response.start_call(event.index)
                response.add_to_call(call, name=None, call_id=None, arguments=delta.partial_json)
            case "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", _:
                raise ValueError(f"`{delta.type}` was sent for another part")
            case _:
                pass  # citations, and types that are not known

    def _message_delta(self, event: _Event) -> None:
        response, delta = self._response, event.delta
        if event.usage is not None:
            self._add_usage(event.usage)
        self._set_usage()
        if delta is None:
            return
        if delta.stop_reason:
            response.finish_reason = _FINISH_REASONS.get(delta.stop_reason)
            response.finish_named = True
            response.complete = delta.stop_reason != "pause_turn"
        if delta.stop_details is not None and delta.stop_details.explanation is not None:
            response.refusal = delta.stop_details.explanation

    def _message_stop(self, event: _Event) -> None:
        self._response.ended = True

    def _add_usage(self, usage: _Usage) -> None:
        self._counts |= {name: count for name in _TOKEN_COUNTS if (count := getattr(usage, name)) is not None}
        if usage.cache_creation is not None:
            self._cache_1h_tokens = usage.cache_creation.ephemeral_1h_input_tokens or self._cache_1h_tokens
        if usage.output_tokens_details is not None:
            self._thinking_tokens = usage.output_tokens_details.thinking_tokens or self._thinking_tokens

    def _set_usage(self) -> None:
        reported: dict[str, Any] = dict(self._counts)
        cached_1h = min(self._cache_1h_tokens, self._counts.get("cache_creation_input_tokens", 0))
        if cached_1h:
            reported["cache_creation"] = {"ephemeral_1h_input_tokens": cached_1h}
        self._response.usage = RequestUsage.extract(
            {"model": self._response.model_name, "usage": reported},
            provider=self._response.provider,
            provider_url=self._provider_url,
            provider_fallback="anthropic",
        )
        self._response.usage.output_reasoning_tokens = self._thinking_tokens


_HANDLERS: Final = {
    "message_start": AnthropicDecoder._message_start,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
}
_EVENT_NAMES: Final = frozenset({*(name.encode() for name in _HANDLERS), b"content_block_stop"})
"""Events of other names are ignored, wherever they come."""
