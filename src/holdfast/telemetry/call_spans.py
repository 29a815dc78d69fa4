"""Spans of model calls (`chat <model>`) and tool calls (`execute_tool <tool>`).

Content is recorded only where an operator turned it on.
"""

from collections.abc import Iterable, Iterator
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
    """`Observation` of a model call that becomes a span."""

    def __init__(self, tracer: Tracer, model: Model, request: ModelRequest, *, with_content: bool) -> None:
        name = attributes.model_name(model.name)
        self._span = tracer.start_span(
            f"chat {name}", kind=SpanKind.CLIENT, attributes=_chat_attributes(model.name, request)
        )
        self._output = OutputRecorder() if with_content else None
        if with_content:
            self._span.set_attribute(attributes.SYSTEM_INSTRUCTIONS, instructions_json(request.system))
            self._span.set_attribute(attributes.INPUT_MESSAGES, messages_json(request.messages))

    def on_delta(self, delta: ModelDelta) -> None:
        """Take note of what comes."""
        if self._output is not None:
            self._output.add(delta)
        if type(delta) is ModelFinished:
            self._finish(delta)

    def on_error(self, error: BaseException) -> None:
        """Take note of what went wrong."""
        mark_failed(self._span, error)

    def on_end(self) -> None:
        """End the span."""
        self._span.end()

    def _finish(self, finished: ModelFinished) -> None:
        self._span.set_attribute(attributes.FINISH_REASONS, [finished.reason])
        set_usage(self._span, finished.usage)
        if self._output is not None:
            self._span.set_attribute(attributes.OUTPUT_MESSAGES, self._output.message_json(finished.reason))


def set_usage(span: Span, usage: Usage) -> None:
    """Say what was used; a cost that is not known is left out."""
    span.set_attribute(attributes.INPUT_TOKENS, usage.input_tokens)
    span.set_attribute(attributes.OUTPUT_TOKENS, usage.output_tokens)
    span.set_attribute(attributes.CACHED_TOKENS, usage.cached_input_tokens)
    if usage.cost_usd is not None:
        span.set_attribute(attributes.COST, usage.cost_usd)


def mark_failed(span: Span, error: BaseException) -> None:
    """Say that something went wrong, by its code: messages may quote what was said."""
    code = error.code if isinstance(error, HoldfastError) else attributes.CANCELLED_ERROR_TYPE
    span.set_attribute(attributes.ERROR, code)
    span.set_status(Status(StatusCode.ERROR, code))


def _chat_attributes(model: str, request: ModelRequest) -> dict[str, str | int | float | bool]:
    asked: dict[str, str | int | float | bool] = {
        attributes.OPERATION: "chat",
        attributes.PROVIDER: attributes.provider_name(model),
        attributes.MODEL: attributes.model_name(model),
        attributes.STREAM: True,
        attributes.RUN: request.run_id,
    }
    if request.settings.temperature is not None:
        asked[attributes.TEMPERATURE] = request.settings.temperature
    if request.settings.max_output_tokens is not None:
        asked[attributes.MAX_TOKENS] = request.settings.max_output_tokens
    return asked


def tool_span_middleware(tracer: Tracer, *, with_content: bool) -> ToolMiddleware:
    """Return what makes a span around each call of a tool."""

    async def trace(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        span = tracer.start_span(f"execute_tool {spec.name}", attributes=_tool_call_attributes(spec, call))
        if with_content:
            span.set_attribute(attributes.TOOL_ARGUMENTS, to_json(arguments))
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                outcome = await go()
            except BaseException as error:
                mark_failed(span, error)
                raise
            _record_outcome(span, outcome, with_content=with_content)
            return outcome

    return trace


def _tool_call_attributes(spec: ToolSpec, call: ToolContext) -> dict[str, str]:
    return {
        attributes.OPERATION: "execute_tool",
        attributes.TOOL: spec.name,
        attributes.TOOL_TYPE: "function",
        attributes.TOOL_CALL: call.id,
        attributes.RUN: call.run.id,
    }


def _record_outcome(span: Span, outcome: ToolResult, *, with_content: bool) -> None:
    word = outcome_label(outcome)
    span.set_attribute(attributes.OUTCOME, word)
    if outcome.failed:
        span.set_attribute(attributes.ERROR, word)
        span.set_status(Status(StatusCode.ERROR, word))
    if with_content and outcome.wait is None:
        span.set_attribute(attributes.TOOL_RESULT, to_json(outcome.content))


_FINISH_REASONS: Final = {"tool_calls": "tool_call", "refused": "content_filter"}


def instructions_json(system: str) -> str:
    """Write a system prompt."""
    return to_json([_text_part(system)])


def messages_json(messages: Iterable[Message | NewMessage]) -> str:
    """Write what a model was told."""
    return to_json([{"role": str(message.role), "parts": list(_parts(message))} for message in messages])


def to_json(value: Json) -> str:
    """Write any value."""
    return msgspec.json.encode(value, enc_hook=str).decode()


class OutputRecorder:
    """What a model says, put together."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[str, tuple[str, list[str]]] = {}

    def add(self, delta: ModelDelta) -> None:
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

    def message_json(self, reason: str) -> str:
        """Write all of it."""
        parts: list[dict[str, Any]] = []
        if self._thoughts:
            parts.append({"type": "reasoning", "content": "".join(self._thoughts)})
        if self._texts:
            parts.append(_text_part("".join(self._texts)))
        parts += [_tool_call_part(each, name, "".join(pieces)) for each, (name, pieces) in self._calls.items()]
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
