"""Tracing with an in-memory exporter."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.telemetry.tracing import OpenTelemetryTracing


class Recorded:
    """Tracing with spans in memory."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = OpenTelemetryTracing(SimpleSpanProcessor(self._exporter), **options)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name, in the order in which they ended."""
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (span,) = self.named(name)
        return span

    def all(self) -> Sequence[ReadableSpan]:
        """Return all spans."""
        return self._exporter.get_finished_spans()


def about(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


def is_below(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Return whether a span is a child of another."""
    above = span.parent
    return above is not None and (above.trace_id, above.span_id) == (parent.context.trace_id, parent.context.span_id)
