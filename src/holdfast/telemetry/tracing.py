"""OpenTelemetry tracing of runs, model calls and tool calls.

The standard environment variables (`OTEL_TRACES_EXPORTER` and its kin) choose the exporter.
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

from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.errors import Invalid
from holdfast.domain.inbox import InboxItem
from holdfast.domain.message import Message
from holdfast.metrics.observed_calls import ObservedModel
from holdfast.ports.log import Journal
from holdfast.ports.model import Model
from holdfast.ports.runtime import Executor
from holdfast.telemetry.call_spans import ChatSpan, tool_span_middleware
from holdfast.telemetry.run_spans import PresetIdGenerator, RunSpan, RunSpans

_current_run_span: Final[ContextVar[RunSpan | None]] = ContextVar("working", default=None)
"""What the present task works on."""


class OpenTelemetryTracing:
    """Puts spans around what is traced, and hands them to a processor."""

    def __init__(self, processor: SpanProcessor, *, version: str = "", capture_content: bool = False) -> None:
        """Trace; only with `capture_content` spans hold what people, models and tools say."""
        ids = PresetIdGenerator()
        self._provider = TracerProvider(id_generator=ids, resource=_resource(version), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        tracer = self._provider.get_tracer("holdfast", version)
        self._start_chat_span = partial(ChatSpan, tracer, with_content=capture_content)
        self._run_spans = RunSpans(self._provider, tracer, ids)
        self.middleware = tool_span_middleware(tracer, with_content=capture_content)
        """What is done around each call of a tool."""

    def model(self, model: Model) -> Model:
        """Return a model whose calls are traced."""
        return ObservedModel(model, self._start_chat_span)

    def executor(self, executor: Executor) -> Executor:
        """Return an executor whose work is traced."""
        return _TracedExecutor(executor, self._run_spans)

    def journal(self, journal: Journal) -> Journal:
        """Return the journal of such an executor."""
        return _TracedJournal(journal)

    def close(self) -> None:
        """Send what is left. It may take as long as whoever receives it."""
        self._provider.shutdown()


class _TracedExecutor:
    """`Executor`."""

    def __init__(self, executor: Executor, invocations: RunSpans) -> None:
        self._executor = executor
        self._invocations = invocations

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on a run."""
        with self._invocations.trace_run(lease) as invocation:
            _current_run_span.set(invocation)  # the task is the run's own
            await self._executor.execute(lease, stop=stop)


class _TracedJournal:
    """`Journal` that tells the span of the work on a run what is committed."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def open(self, lease: Lease) -> RunSnapshot:
        """Return where the run stands."""
        return await self._journal.open(lease)

    async def history(self, lease: Lease, *, before: int, limit: int) -> list[Message]:
        """Return earlier messages of the run's chain."""
        return await self._journal.history(lease, before=before, limit=limit)

    async def commit(self, commit: Commit) -> Committed:
        """Add everything in `commit`, or nothing."""
        committed = await self._journal.commit(commit)
        if (invocation := _current_run_span.get()) is not None:
            invocation.record(commit)
        return committed

    async def inbox(self, lease: Lease) -> list[InboxItem]:
        """Return what is unread."""
        return await self._journal.inbox(lease)

    async def next_task_id(self, lease: Lease, *, step: str) -> int:
        """Take the next number for an item of a plan."""
        return await self._journal.next_task_id(lease, step=step)


def _resource(version: str) -> Resource:
    """Return who emits the spans: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say it otherwise."""
    ours = Resource({SERVICE_NAME: "holdfast", SERVICE_VERSION: version})
    return Resource.create().merge(ours).merge(OTELResourceDetector().detect())


_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_DEFAULT_PROTOCOL: Final = "http/protobuf"


def span_processor() -> SpanProcessor:
    """Return what sends spans in batches, from a thread of its own; `none` in the environment sends nothing."""
    return SpanProcessor() if _exporter_name() == "none" else BatchSpanProcessor(span_exporter())


def span_exporter() -> SpanExporter:
    """Return what the environment asks for: OTLP unless it says otherwise. What is not installed is `Invalid`."""
    wanted = _exporter_name()
    name = _otlp_exporter_name() if wanted == "otlp" else wanted
    found = next(iter(entry_points(group="opentelemetry_traces_exporter", name=name)), None)
    if found is None:
        raise Invalid(_missing_exporter_message(wanted, name), field="telemetry")
    made: Any = found.load()
    return made()  # type: ignore[no-any-return]


def _exporter_name() -> str:
    return os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"


def _otlp_exporter_name() -> str:
    said = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = said or _DEFAULT_PROTOCOL
    if protocol not in _PROTOCOLS:
        known = " or ".join(f"`{each}`" for each in _PROTOCOLS)
        raise Invalid(f"`OTEL_EXPORTER_OTLP_PROTOCOL` is `{protocol}`: say {known}", field="telemetry")
    return _PROTOCOLS[protocol]


def _missing_exporter_message(wanted: str, name: str) -> str:
    if wanted == "otlp":
        package = f"opentelemetry-exporter-{name.replace('_', '-')}"
        return f"spans go to OTLP, which needs a package: run `pip install {package}`, or set `OTEL_TRACES_EXPORTER`"
    return f"`OTEL_TRACES_EXPORTER` is `{wanted}`, and no package here has it: install one, or say `otlp` or `console`"
