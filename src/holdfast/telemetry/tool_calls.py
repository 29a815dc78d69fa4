"""The span of a tool call: `execute_tool <tool>`."""

from opentelemetry.trace import Span, Status, StatusCode, Tracer, use_span

from holdfast.domain.content import Json
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.tools import word_for
from holdfast.telemetry import names
from holdfast.telemetry.chat import mark_failed
from holdfast.telemetry.content import as_json
from holdfast.tools.tool import CallNext, ToolContext, ToolMiddleware, ToolResult


def tracing_calls(tracer: Tracer, *, with_content: bool) -> ToolMiddleware:
    """Return what makes a span around each call of a tool."""

    async def trace(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        span = tracer.start_span(f"execute_tool {spec.name}", attributes=_asked(spec, call))
        if with_content:
            span.set_attribute(names.TOOL_ARGUMENTS, as_json(arguments))
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                outcome = await go()
            except BaseException as error:
                mark_failed(span, error)
                raise
            _conclude(span, outcome, with_content=with_content)
            return outcome

    return trace


def _asked(spec: ToolSpec, call: ToolContext) -> dict[str, str]:
    return {
        names.OPERATION: "execute_tool",
        names.TOOL: spec.name,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL: call.id,
        names.RUN: call.run.id,
    }


def _conclude(span: Span, outcome: ToolResult, *, with_content: bool) -> None:
    word = word_for(outcome)
    span.set_attribute(names.OUTCOME, word)
    if outcome.failed:
        span.set_attribute(names.ERROR, word)
        span.set_status(Status(StatusCode.ERROR, word))
    if with_content and outcome.wait is None:
        span.set_attribute(names.TOOL_RESULT, as_json(outcome.content))
