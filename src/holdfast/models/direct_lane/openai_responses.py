"""OpenAI's Responses API, decoded into deltas."""

from typing import Any, Final

import msgspec
from pydantic_ai.usage import RequestUsage

from holdfast.domain.errors import ModelUnavailable
from holdfast.models.direct_lane.openai_chat import with_cache_writes
from holdfast.models.direct_lane.response import (
    CallPiece,
    FinishReason,
    ProviderErrorEvent,
    StreamedResponse,
    TextPiece,
    UnsupportedPart,
    lenient_decoder,
    without_nulls,
)
from holdfast.models.direct_lane.sse import SseEvent

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "completed": "stop",
    "cancelled": "error",
    "failed": "error",
}
_UNFINISHED: Final = ("queued", "in_progress")


class _Item(msgspec.Struct, frozen=True):
    type: str = ""
    id: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    namespace: str | None = None
    phase: str | None = None
    encrypted_content: str | None = None


class _SummaryPart(msgspec.Struct, frozen=True):
    text: str = ""


class _Reason(msgspec.Struct, frozen=True):
    reason: str | None = None


class _Response(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: _Reason | None = None
    error: Any = None
    usage: dict[str, Any] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    delta: Any = None
    item_id: str = ""
    content_index: int = 0
    summary_index: int = 0
    arguments: str = ""
    refusal: str = ""
    text: str = ""
    item: _Item | None = None
    part: _SummaryPart | None = None
    response: _Response | None = None
    error: Any = None


_decode = lenient_decoder(_Event)


class ResponsesDecoder:
    """Decodes the events of one response."""

    def __init__(self, response: StreamedResponse, *, provider_url: str) -> None:
        self._response = response
        self._provider_url = provider_url
        self._phases: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        """The arguments so far of each call, by the id of its item."""
        self._whole_calls: set[str] = set()
        response.complete = False

    def feed(self, event: SseEvent) -> None:
        """Decode an event; raise `ProviderErrorEvent` for an error of the provider."""
        if event.data.startswith(b"[DONE]"):
            self._response.ended = True
            return
        if not event.data:
            return
        decoded = _decode(event.data)
        if decoded.error or decoded.type == "error":
            raise ProviderErrorEvent
        handle = _HANDLERS.get(decoded.type)
        if handle is not None:
            handle(self, decoded)

    def _text(self, event: _Event) -> None:
        if event.delta is None:
            return
        response, key = self._response, (event.item_id, event.content_index)
        piece = response.find(key)
        if piece is None:
            phase = self._phases.get(event.item_id)
            piece = response.start_text(key, id=event.item_id, details=None if phase is None else {"phase": phase})
        if type(piece) is not TextPiece or type(event.delta) is not str:
            raise ValueError("text was added to another part")
        response.add_text(piece, event.delta)

    def _summary(self, event: _Event) -> None:
        text = event.delta if event.part is None else event.part.text
        # The first summary, raw reasoning and the sealed content of an item are one part.
        key = event.item_id if event.summary_index == 0 else f"{event.item_id}-{event.summary_index}"
        piece = self._response.thinking(key, id=event.item_id)
        self._response.add_thinking(piece, text)

    def _raw_reasoning(self, event: _Event) -> None:
        piece = self._response.thinking(event.item_id, id=event.item_id)
        texts = list((piece.details or {}).get("raw_content", ()))
        texts += [""] * (event.content_index + 1 - len(texts))
        texts[event.content_index] += event.delta
        piece.details = {"raw_content": texts}

    def _refusal_delta(self, event: _Event) -> None:
        self._response.finish_reason = "content_filter"
        self._response.refusal = (self._response.refusal or "") + event.delta

    def _refusal(self, event: _Event) -> None:
        self._response.finish_reason = "content_filter"
        self._response.refusal = event.refusal

    def _item_added(self, event: _Event) -> None:
        item = event.item
        assert item is not None
        match item.type:
            case "function_call":
                self._start_call(item)
            case "message":
                if item.phase is not None and item.id is not None:
                    self._phases[item.id] = item.phase
            case "reasoning":
                pass
            case _:
                raise UnsupportedPart(item.type)

    def _item_done(self, event: _Event) -> None:
        item = event.item
        assert item is not None
        if item.type == "function_call" and item.id:
            if type(self._response.find(item.id)) is CallPiece:
                self._whole_arguments(item.id, item.arguments)
            else:
                self._start_call(item)
                self._whole_calls.add(item.id)
        elif item.type == "reasoning" and item.encrypted_content:
            self._response.thinking(item.id, id=item.id).signature = item.encrypted_content

    def _start_call(self, item: _Item) -> None:
        response = self._response
        if item.id is not None:
            if response.find(item.id) is not None:
                raise ModelUnavailable(f"the model started its call of `{item.name}` twice")
            self._arguments[item.id] = item.arguments
        piece = response.start_call(item.id, id=item.id)
        if item.namespace:
            piece.details = {"namespace": item.namespace}
        response.add_to_call(piece, name=item.name, call_id=item.call_id, arguments=item.arguments)

    def _call_arguments(self, event: _Event) -> None:
        if event.item_id in self._arguments and event.item_id not in self._whole_calls:
            self._arguments[event.item_id] += event.delta
            self._add_arguments(event.item_id, event.delta)

    def _call_done(self, event: _Event) -> None:
        self._whole_arguments(event.item_id, event.arguments)

    def _whole_arguments(self, item_id: str, arguments: str) -> None:
        """Add what is missing of the arguments; if they differ, what was streamed counts."""
        if item_id in self._whole_calls or not arguments or item_id not in self._arguments:
            return
        self._whole_calls.add(item_id)
        streamed = self._arguments[item_id]
        if arguments.startswith(streamed) and arguments != streamed:
            self._add_arguments(item_id, arguments[len(streamed) :])

    def _add_arguments(self, item_id: str, text: str) -> None:
        piece = self._response.find(item_id)
        if type(piece) is CallPiece:
            self._response.add_to_call(piece, name=None, call_id=None, arguments=text)

    def _created(self, event: _Event) -> None:
        about = self._about(event)
        self._response.model_name = about.model or self._response.model_name
        self._response.response_id = about.id or self._response.response_id

    def _progress(self, event: _Event) -> None:
        self._add_usage(self._about(event))

    def _ended(self, event: _Event) -> None:
        about, response = self._about(event), self._response
        self._add_usage(about)
        if event.type == "response.failed" and about.error:
            raise ProviderErrorEvent
        response.model_name = about.model or response.model_name
        response.response_id = response.response_id or about.id
        details, reason = about.incomplete_details, about.status
        if event.type == "response.failed":
            reason = "failed"
        elif details is not None:
            reason = details.reason
        elif event.type == "response.incomplete":
            reason = None
        if reason and response.refusal is None:
            response.finish_reason = _FINISH_REASONS.get(reason)
            response.finish_named = True
        response.ended = True

    def _about(self, event: _Event) -> _Response:
        about = event.response
        if about is None:
            raise ValueError(f"`{event.type}` has no response")
        self._response.complete = about.status not in _UNFINISHED
        return about

    def _add_usage(self, about: _Response) -> None:
        if about.usage is None:
            return
        reported, response = without_nulls(about.usage), self._response
        usage = RequestUsage.extract(
            {"model": response.model_name, "usage": reported},
            provider=response.provider,
            provider_url=self._provider_url,
            provider_fallback="openai",
            api_flavor="responses",
        )
        response.usage += with_cache_writes(usage, reported.get("input_tokens_details"))


_HANDLERS: Final = {
    "response.output_text.delta": ResponsesDecoder._text,
    "response.reasoning_summary_part.added": ResponsesDecoder._summary,
    "response.reasoning_summary_text.delta": ResponsesDecoder._summary,
    "response.reasoning_text.delta": ResponsesDecoder._raw_reasoning,
    "response.refusal.delta": ResponsesDecoder._refusal_delta,
    "response.refusal.done": ResponsesDecoder._refusal,
    "response.output_item.added": ResponsesDecoder._item_added,
    "response.output_item.done": ResponsesDecoder._item_done,
    "response.function_call_arguments.delta": ResponsesDecoder._call_arguments,
    "response.function_call_arguments.done": ResponsesDecoder._call_done,
    "response.created": ResponsesDecoder._created,
    "response.in_progress": ResponsesDecoder._progress,
    "response.queued": ResponsesDecoder._progress,
    "response.completed": ResponsesDecoder._ended,
    "response.failed": ResponsesDecoder._ended,
    "response.incomplete": ResponsesDecoder._ended,
}
"""Other events repeat what these say, or are about tools that run at the provider."""
