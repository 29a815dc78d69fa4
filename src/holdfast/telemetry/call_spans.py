"""Spans of model calls (`chat <model>`) and tool calls (`execute_tool <tool>`).

Content is recorded only if the operator enables it.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, use_span

from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError
from holdfast.domain.limits import Usage
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.observed_calls import outcome_label
from holdfast.ports.model import (
    Model,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)
from holdfast.telemetry import attributes
from holdfast.tools.tool import CallNext, ToolContext, ToolMiddleware, ToolResult


class ChatSpan:
    """`ModelCallObserver` that records a model call as a span."""

    def __init__(self, tracer: Tracer, model: Model, request: ModelRequest, *, with_content: bool) -> None:
        model_name = attributes.model_name(model.name)
        settings = request.settings
        about: dict[str, str | int | float | bool] = {
            attributes.OPERATION: "chat",
            attributes.PROVIDER: attributes.provider_name(model.name),
            attributes.MODEL: model_name,
            attributes.STREAM: True,
            attributes.RUN: request.run_id,
        }
        if settings.temperature is not None:
            about[attributes.TEMPERATURE] = settings.temperature
        if settings.max_output_tokens is not None:
            about[attributes.MAX_TOKENS] = settings.max_output_tokens
        self._span = tracer.start_span(f"chat {model_name}", kind=SpanKind.CLIENT, attributes=about)
        self._output = OutputRecorder() if with_content else None
        if with_content:
            messages = [{"role": str(each.role), "parts": list(_parts(each))} for each in request.messages]
            self._span.set_attribute(attributes.SYSTEM_INSTRUCTIONS, to_json([_text_part(request.system)]))
            self._span.set_attribute(attributes.INPUT_MESSAGES, to_json(messages))

    def on_delta(self, delta: ModelDelta) -> None:
        """Record a delta, and the usage when the call finishes."""
        if self._output is not None:
            self._output.add(delta)
        if type(delta) is ModelFinished:
            self._span.set_attribute(attributes.FINISH_REASONS, [delta.reason])
            set_usage(self._span, delta.usage)
            if self._output is not None:
                self._span.set_attribute(attributes.OUTPUT_MESSAGES, self._output.message_json(delta.reason))

    def on_error(self, error: BaseException) -> None:
        """Mark the span as failed."""
        mark_failed(self._span, error)

    def on_end(self) -> None:
        """End the span."""
        self._span.end()


def set_usage(span: Span, usage: Usage) -> None:
    """Set the usage attributes; an unknown cost is omitted."""
    span.set_attribute(attributes.INPUT_TOKENS, usage.input_tokens)
    span.set_attribute(attributes.OUTPUT_TOKENS, usage.output_tokens)
    span.set_attribute(attributes.CACHED_TOKENS, usage.cached_input_tokens)
    if usage.cost_usd is not None:
        span.set_attribute(attributes.COST, usage.cost_usd)


def mark_failed(span: Span, error: BaseException) -> None:
    """Set the error status, with the code only: a message may quote content."""
    code = error.code if isinstance(error, HoldfastError) else attributes.CANCELLED_ERROR_TYPE
    span.set_attribute(attributes.ERROR, code)
    span.set_status(Status(StatusCode.ERROR, code))


def tool_span_middleware(tracer: Tracer, *, with_content: bool) -> ToolMiddleware:
    """Return a middleware that records each tool call as a span."""

    async def trace(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        about = {
            attributes.OPERATION: "execute_tool",
            attributes.TOOL: spec.name,
            attributes.TOOL_TYPE: "function",
            attributes.TOOL_CALL: call.id,
            attributes.RUN: call.run.id,
        }
        span = tracer.start_span(f"execute_tool {spec.name}", attributes=about)
        if with_content:
            span.set_attribute(attributes.TOOL_ARGUMENTS, to_json(arguments))
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                result = await go()
            except BaseException as error:
                mark_failed(span, error)
                raise
            outcome = outcome_label(result)
            span.set_attribute(attributes.OUTCOME, outcome)
            if result.failed:
                span.set_attribute(attributes.ERROR, outcome)
                span.set_status(Status(StatusCode.ERROR, outcome))
            if with_content and result.wait is None:
                span.set_attribute(attributes.TOOL_RESULT, to_json(result.content))
            return result

    return trace


_FINISH_REASONS: Final = {"tool_calls": "tool_call", "refused": "content_filter"}


def to_json(value: Json) -> str:
    """Encode any value as JSON."""
    return msgspec.json.encode(value, enc_hook=str).decode()


class OutputRecorder:
    """Builds the output message of a model call from its deltas."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[str, tuple[str, list[str]]] = {}

    def add(self, delta: ModelDelta) -> None:
        """Add a delta."""
        match delta:
            case TextDelta(text=text):
                self._texts.append(text)
            case ReasoningDelta(text=text):
                self._reasoning.append(text)
            case ToolCallStarted():
                self._calls[delta.id] = (delta.name, [])
            case ToolArgumentsDelta():
                self._calls[delta.id][1].append(delta.arguments)
            case ModelFinished():
                pass

    def message_json(self, reason: str) -> str:
        """Return the whole message as JSON."""
        parts: list[dict[str, Any]] = []
        if self._reasoning:
            parts.append({"type": "reasoning", "content": "".join(self._reasoning)})
        if self._texts:
            parts.append(_text_part("".join(self._texts)))
        parts += [_tool_call_part(call_id, name, "".join(deltas)) for call_id, (name, deltas) in self._calls.items()]
        return to_json([{"role": "assistant", "parts": parts, "finish_reason": _FINISH_REASONS.get(reason, reason)}])


def _parts(message: Message | NewMessage) -> Iterator[dict[str, Any]]:
    if message.role is Role.TOOL:
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
    elif isinstance(message.content, str):
        if message.content:
            yield _text_part(message.content)
    else:
        yield {"type": "content", "content": message.content}
    for call in message.tool_calls:
        yield _tool_call_part(call.id, call.name, call.arguments)


def _text_part(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _tool_call_part(call_id: str, name: str, arguments: Json) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
