"""OpenTelemetry tracing of runs, model calls and tool calls.

The standard environment variables, such as `OTEL_TRACES_EXPORTER`, select the exporter.
"""

import asyncio
import os
from contextvars import ContextVar
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import Invalid
from holdfast.metrics.observed_calls import ObservedModel
from holdfast.ports.log import Journal
from holdfast.ports.model import Model
from holdfast.ports.runtime import Executor
from holdfast.telemetry.call_spans import ChatSpan, tool_span_middleware
from holdfast.telemetry.run_spans import PresetIdGenerator, RunSpan, RunSpans

_current_run_span: Final[ContextVar[RunSpan | None]] = ContextVar("run_span", default=None)
"""The span of the run that the current task executes."""


class OpenTelemetryTracing:
    """Wraps models, executors, journals and tools so that they emit spans to a processor."""

    def __init__(self, processor: SpanProcessor, *, version: str = "", capture_content: bool = False) -> None:
        """Create a tracer; spans include messages, arguments and results only with `capture_content`."""
        ids = PresetIdGenerator()
        # `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override the defaults.
        defaults = Resource({SERVICE_NAME: "holdfast", SERVICE_VERSION: version})
        resource = Resource.create().merge(defaults).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(id_generator=ids, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        tracer = self._provider.get_tracer("holdfast", version)
        self._start_chat_span = partial(ChatSpan, tracer, with_content=capture_content)
        self._run_spans = RunSpans(self._provider, tracer, ids)
        self.middleware = tool_span_middleware(tracer, with_content=capture_content)
        """Wraps each tool call."""

    def model(self, model: Model) -> Model:
        """Return a model whose calls are traced."""
        return ObservedModel(model, self._start_chat_span)

    def executor(self, executor: Executor) -> Executor:
        """Return an executor whose executions are traced."""
        return _TracedExecutor(executor, self._run_spans)

    def journal(self, journal: Journal) -> Journal:
        """Return a journal whose commits are recorded in the span of the run."""
        return _TracedJournal(journal)

    def close(self) -> None:
        """Export the remaining spans; this may take as long as the receiver does."""
        self._provider.shutdown()


class _TracedExecutor:
    """`Executor`."""

    def __init__(self, executor: Executor, run_spans: RunSpans) -> None:
        self._executor = executor
        self._run_spans = run_spans

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        with self._run_spans.trace_run(lease) as run_span:
            _current_run_span.set(run_span)  # each run has its own task
            await self._executor.execute(lease, stop=stop)


class _TracedJournal:
    """`Journal` that records commits in the span of the current run."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.open = journal.open
        self.history = journal.history
        self.inbox = journal.inbox
        self.charge_ended = journal.charge_ended
        self.next_task_id = journal.next_task_id

    async def commit(self, commit: Commit) -> Committed:
        committed = await self._journal.commit(commit)
        if (run_span := _current_run_span.get()) is not None:
            run_span.record(commit)
        return committed


_PROTOCOL_EXPORTERS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_DEFAULT_PROTOCOL: Final = "http/protobuf"


def span_processor() -> SpanProcessor:
    """Return a processor that exports spans in batches, in its own thread; the exporter `none` exports nothing."""
    return SpanProcessor() if _exporter_setting() == "none" else BatchSpanProcessor(span_exporter())


def span_exporter() -> SpanExporter:
    """Return the exporter that the environment selects, OTLP by default; raise `Invalid` if it is not installed."""
    setting = _exporter_setting()
    name, variables = setting, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if setting == "otlp":
        protocol = next((value for each in variables if (value := os.environ.get(each))), _DEFAULT_PROTOCOL)
        if protocol not in _PROTOCOL_EXPORTERS:
            supported = " or ".join(f"`{each}`" for each in _PROTOCOL_EXPORTERS)
            raise Invalid(f"`OTEL_EXPORTER_OTLP_PROTOCOL` is `{protocol}`: use {supported}", field="telemetry")
        name = _PROTOCOL_EXPORTERS[protocol]
    entry_point = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if entry_point is None:
        problem = (
            f"`OTEL_TRACES_EXPORTER` is `{setting}`, which is not installed: install it, or use `otlp` or `console`"
        )
        if setting == "otlp":
            package = f"opentelemetry-exporter-{name.replace('_', '-')}"
            problem = f"OTLP needs a package: run `pip install {package}`, or set `OTEL_TRACES_EXPORTER`"
        raise Invalid(problem, field="telemetry")
    exporter: Any = entry_point.load()
    return exporter()  # type: ignore[no-any-return]


def _exporter_setting() -> str:
    return os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
