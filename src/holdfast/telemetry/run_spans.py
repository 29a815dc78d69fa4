"""The `invoke_agent` span of one execution of a run, from claim to wait, release or end.

    first execution  ──► span id derived from the run's id; parent: first span of the run that spawned it
    later executions ──► children of the first span

A tree of runs is one trace, wherever and however often its runs are claimed: every process derives the same ids
from the ids of the runs, and nothing is stored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags, Tracer

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.run import RunStatus
from holdfast.telemetry import attributes
from holdfast.telemetry.call_spans import mark_failed, set_usage


def run_trace_id(space: SpaceId, root: RunId) -> int:
    """Return the trace id of a tree of runs."""
    return int.from_bytes(_digest("trace", space, root)[:16]) or 1


def run_span_id(space: SpaceId, run: RunId) -> int:
    """Return the span id of the first execution of a run."""
    return int.from_bytes(_digest("span", space, run)[:8]) or 1


def _digest(*parts: str) -> bytes:
    return sha256("/".join(parts).encode()).digest()


class PresetIdGenerator(RandomIdGenerator):
    """Generates random ids, unless the next ones are preset."""

    def __init__(self) -> None:
        self._trace: int | None = None
        self._span: int | None = None

    def preset(self, *, trace: int, span: int) -> None:
        """Set the ids of the next span; the trace id applies only to a span without a parent."""
        self._trace, self._span = trace, span

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        preset, self._trace = self._trace, None
        return super().generate_trace_id() if preset is None else preset

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        preset, self._span, self._trace = self._span, None, None
        return super().generate_span_id() if preset is None else preset


class RunSpan:
    """The span of one execution of a run, with its usage and status."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._usage = ZERO_USAGE

    def record(self, commit: Commit) -> None:
        """Record the usage and the status of a commit."""
        if commit.usage is not None:
            self._usage = self._usage + commit.usage
        if commit.move is None:
            return
        self.span.set_attribute(attributes.STATUS, commit.move.to.value)
        if commit.move.to is RunStatus.FAILED and commit.move.error is not None:
            self.span.set_attribute(attributes.ERROR, commit.move.error.code)
            self.span.set_status(Status(StatusCode.ERROR, commit.move.error.code))

    def end(self) -> None:
        """End the span."""
        set_usage(self.span, self._usage)
        self.span.end()


class RunSpans:
    """Starts the spans of runs."""

    def __init__(self, provider: TracerProvider, tracer: Tracer, ids: PresetIdGenerator) -> None:
        self._sampler = provider.sampler
        self._tracer = tracer
        self._ids = ids

    @contextmanager
    def trace_run(self, lease: Lease) -> Iterator[RunSpan]:
        """Record the block as one execution of the leased run."""
        run_span = RunSpan(self._start_span(lease))
        try:
            with trace.use_span(run_span.span, record_exception=False, set_status_on_exception=False):
                yield run_span
        except BaseException as error:
            mark_failed(run_span.span, error)
            raise
        finally:
            run_span.end()

    def _start_span(self, lease: Lease) -> Span:
        run, first = lease.run, lease.number == 1
        trace_id = run_trace_id(lease.space_id, run.root_run_id or lease.run_id)
        about: dict[str, str | int] = {
            attributes.OPERATION: "invoke_agent",
            attributes.AGENT: run.agent_type,
            attributes.CONVERSATION: run.thread_id,
            attributes.RUN: run.id,
            attributes.SPACE: run.space_id,
            attributes.LEASE: lease.number,
        }
        if run.model is not None:
            about[attributes.PROVIDER] = attributes.provider_name(run.model)
            about[attributes.MODEL] = attributes.model_name(run.model)
        context, parent = Context(), run.parent_run_id if first else lease.run_id
        if parent is not None:
            # The parent may be a span of another process; it was sampled like its whole trace.
            decision = self._sampler.should_sample(Context(), trace_id, "").decision
            flags = TraceFlags(TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
            span_id = run_span_id(lease.space_id, parent)
            parent_context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
            context = trace.set_span_in_context(NonRecordingSpan(parent_context), context)
        if first:
            self._ids.preset(trace=trace_id, span=run_span_id(lease.space_id, lease.run_id))
        return self._tracer.start_span(f"invoke_agent {run.agent_type}", context=context, attributes=about)
