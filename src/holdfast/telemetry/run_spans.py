"""The `invoke_agent` span of a worker's work on a run, from claim to wait, release or end.

    first work on a run ──► span id derived from the run's id; parent: first span of the run that spawned it
    claimed again       ──► below the first span

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
    """Return the id of the trace of a tree of runs."""
    return int.from_bytes(_digest("trace", space, root)[:16]) or 1


def run_span_id(space: SpaceId, run: RunId) -> int:
    """Return the id of the span of the first work on a run."""
    return int.from_bytes(_digest("span", space, run)[:8]) or 1


class PresetIdGenerator(RandomIdGenerator):
    """Random ids, unless the next ones are chosen."""

    def __init__(self) -> None:
        self._trace: int | None = None
        self._span: int | None = None

    def preset(self, *, trace: int, span: int) -> None:
        """Say which ids the next span has; the trace only counts for a span without a parent."""
        self._trace, self._span = trace, span

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        chosen, self._trace = self._trace, None
        return super().generate_trace_id() if chosen is None else chosen

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        chosen, self._span, self._trace = self._span, None, None
        return super().generate_span_id() if chosen is None else chosen


def _digest(*parts: str) -> bytes:
    return sha256("/".join(parts).encode()).digest()


class RunSpan:
    """The work on one lease, and what is known of it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._usage = ZERO_USAGE

    def record(self, commit: Commit) -> None:
        """Take note of what was committed."""
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
    """Begins the spans of work on runs."""

    def __init__(self, provider: TracerProvider, tracer: Tracer, ids: PresetIdGenerator) -> None:
        self._sampler = provider.sampler
        self._tracer = tracer
        self._ids = ids

    @contextmanager
    def trace_run(self, lease: Lease) -> Iterator[RunSpan]:
        """Trace what the block does as the work on a lease."""
        invocation = RunSpan(self._start_span(lease))
        try:
            with trace.use_span(invocation.span, record_exception=False, set_status_on_exception=False):
                yield invocation
        except BaseException as error:
            mark_failed(invocation.span, error)
            raise
        finally:
            invocation.end()

    def _start_span(self, lease: Lease) -> Span:
        name = f"invoke_agent {lease.run.agent_type}"
        if lease.number == 1:
            self._ids.preset(trace=_lease_trace_id(lease), span=run_span_id(lease.space_id, lease.run_id))
        return self._tracer.start_span(name, context=self._parent_context(lease), attributes=_run_attributes(lease))

    def _parent_context(self, lease: Lease) -> Context:
        """Return where the span belongs: nowhere for the first work on a root run."""
        parent = lease.run.parent_run_id if lease.number == 1 else lease.run_id
        if parent is None:
            return Context()
        return trace.set_span_in_context(NonRecordingSpan(self._first_span_context(lease, parent)), Context())

    def _first_span_context(self, lease: Lease, run: RunId) -> SpanContext:
        """Return the first span of a run, which may have been another process's; it was sampled as all of its trace."""
        of_trace = _lease_trace_id(lease)
        decision = self._sampler.should_sample(Context(), of_trace, "").decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
        return SpanContext(of_trace, run_span_id(lease.space_id, run), is_remote=True, trace_flags=flags)


def _lease_trace_id(lease: Lease) -> int:
    return run_trace_id(lease.space_id, lease.run.root_run_id or lease.run_id)


def _run_attributes(lease: Lease) -> dict[str, str | int]:
    run = lease.run
    about: dict[str, str | int] = {
        attributes.OPERATION: "invoke_agent",
        attributes.AGENT: run.agent_type,
        attributes.CONVERSATION: run.thread_id,
        attributes.RUN: run.id,
        attributes.SPACE: run.space_id,
        attributes.LEASE: lease.number,
    }
    if run.model is not None:
        about |= {
            attributes.PROVIDER: attributes.provider_name(run.model),
            attributes.MODEL: attributes.model_name(run.model),
        }
    return about
