"""The span of a worker's work on a run, from its claim until the run waits, is given back or has ended: `invoke_agent`.

first work on a run ──► its id derives from the run's; its parent is that of the run that spawned it, if one did
taken up again      ──► below the first
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags, Tracer

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.ids import RunId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.run import RunStatus
from holdfast.telemetry import names
from holdfast.telemetry.chat import mark_failed, set_usage
from holdfast.telemetry.ids import ChosenIds, span_of, trace_of


class Invocation:
    """The work on one lease, and what is known of it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._usage = ZERO_USAGE

    def take(self, commit: Commit) -> None:
        """Take note of what was committed."""
        if commit.usage is not None:
            self._usage = self._usage + commit.usage
        if commit.move is None:
            return
        self.span.set_attribute(names.STATUS, commit.move.to.value)
        if commit.move.to is RunStatus.FAILED and commit.move.error is not None:
            self.span.set_attribute(names.ERROR, commit.move.error.code)
            self.span.set_status(Status(StatusCode.ERROR, commit.move.error.code))

    def end(self) -> None:
        """End the span."""
        set_usage(self.span, self._usage)
        self.span.end()


class Invocations:
    """Begins the spans of work on runs."""

    def __init__(self, provider: TracerProvider, tracer: Tracer, ids: ChosenIds) -> None:
        self._sampler = provider.sampler
        self._tracer = tracer
        self._ids = ids

    @contextmanager
    def working(self, lease: Lease) -> Iterator[Invocation]:
        """Trace what the block does as the work on a lease."""
        invocation = Invocation(self._span(lease))
        try:
            with trace.use_span(invocation.span, record_exception=False, set_status_on_exception=False):
                yield invocation
        except BaseException as error:
            mark_failed(invocation.span, error)
            raise
        finally:
            invocation.end()

    def _span(self, lease: Lease) -> Span:
        name = f"invoke_agent {lease.run.agent_type}"
        if lease.number == 1:
            self._ids.choose(trace=_trace_of(lease), span=span_of(lease.space_id, lease.run_id))
        return self._tracer.start_span(name, context=self._above(lease), attributes=_about(lease))

    def _above(self, lease: Lease) -> Context:
        """Return where the span belongs: nowhere for the first work on a root run."""
        parent = lease.run.parent_run_id if lease.number == 1 else lease.run_id
        if parent is None:
            return Context()
        return trace.set_span_in_context(NonRecordingSpan(self._first(lease, parent)), Context())

    def _first(self, lease: Lease, run: RunId) -> SpanContext:
        """Return the first span of a run, which may have been another process's; it was sampled as all of its trace."""
        of_trace = _trace_of(lease)
        decision = self._sampler.should_sample(Context(), of_trace, "").decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
        return SpanContext(of_trace, span_of(lease.space_id, run), is_remote=True, trace_flags=flags)


def _trace_of(lease: Lease) -> int:
    return trace_of(lease.space_id, lease.run.root_run_id or lease.run_id)


def _about(lease: Lease) -> dict[str, str | int]:
    run = lease.run
    about: dict[str, str | int] = {
        names.OPERATION: "invoke_agent",
        names.AGENT: run.agent_type,
        names.CONVERSATION: run.thread_id,
        names.RUN: run.id,
        names.SPACE: run.space_id,
        names.LEASE: lease.number,
    }
    if run.model is not None:
        about |= {names.PROVIDER: names.provider_of(run.model), names.MODEL: names.model_of(run.model)}
    return about
