"""The span of a model call: `chat <model>`."""

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from holdfast.domain.errors import HoldfastError
from holdfast.domain.limits import Usage
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest
from holdfast.telemetry import names
from holdfast.telemetry.content import Said, conversation, instructions


class ChatSpan:
    """`Observation` of a model call that becomes a span."""

    def __init__(self, tracer: Tracer, model: Model, request: ModelRequest, *, with_content: bool) -> None:
        name = names.model_of(model.name)
        self._span = tracer.start_span(f"chat {name}", kind=SpanKind.CLIENT, attributes=_asked(model.name, request))
        self._said = Said() if with_content else None
        if with_content:
            self._span.set_attribute(names.SYSTEM_INSTRUCTIONS, instructions(request.system))
            self._span.set_attribute(names.INPUT_MESSAGES, conversation(request.messages))

    def see(self, delta: ModelDelta) -> None:
        """Take note of what comes."""
        if self._said is not None:
            self._said.take(delta)
        if type(delta) is ModelFinished:
            self._finish(delta)

    def fail(self, error: BaseException) -> None:
        """Take note of what went wrong."""
        mark_failed(self._span, error)

    def end(self) -> None:
        """End the span."""
        self._span.end()

    def _finish(self, finished: ModelFinished) -> None:
        self._span.set_attribute(names.FINISH_REASONS, [finished.reason])
        set_usage(self._span, finished.usage)
        if self._said is not None:
            self._span.set_attribute(names.OUTPUT_MESSAGES, self._said.written(finished.reason))


def set_usage(span: Span, usage: Usage) -> None:
    """Say what was used; a cost that is not known is left out."""
    span.set_attribute(names.INPUT_TOKENS, usage.input_tokens)
    span.set_attribute(names.OUTPUT_TOKENS, usage.output_tokens)
    span.set_attribute(names.CACHED_TOKENS, usage.cached_input_tokens)
    if usage.cost_usd is not None:
        span.set_attribute(names.COST, usage.cost_usd)


def mark_failed(span: Span, error: BaseException) -> None:
    """Say that something went wrong, by its code: messages may quote what was said."""
    code = error.code if isinstance(error, HoldfastError) else names.CUT_OFF
    span.set_attribute(names.ERROR, code)
    span.set_status(Status(StatusCode.ERROR, code))


def _asked(model: str, request: ModelRequest) -> dict[str, str | int | float | bool]:
    asked: dict[str, str | int | float | bool] = {
        names.OPERATION: "chat",
        names.PROVIDER: names.provider_of(model),
        names.MODEL: names.model_of(model),
        names.STREAM: True,
        names.RUN: request.run_id,
    }
    if request.settings.temperature is not None:
        asked[names.TEMPERATURE] = request.settings.temperature
    if request.settings.max_output_tokens is not None:
        asked[names.MAX_TOKENS] = request.settings.max_output_tokens
    return asked
