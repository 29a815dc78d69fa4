"""Tracing: spans around the work on runs, their model calls and their tool calls."""

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from holdfast.domain.commit import Commit, Committed, Lease, RunSnapshot
from holdfast.domain.inbox import InboxItem
from holdfast.domain.message import Message
from holdfast.metrics.observed_model import ObservedModel
from holdfast.ports.log import Journal
from holdfast.ports.model import Model
from holdfast.ports.runtime import Executor
from holdfast.telemetry.chat import ChatSpan
from holdfast.telemetry.ids import ChosenIds
from holdfast.telemetry.invocation import Invocation, Invocations
from holdfast.telemetry.tool_calls import tracing_calls

_working: Final[ContextVar[Invocation | None]] = ContextVar("working", default=None)
"""What the present task works on."""


class Tracing:
    """Puts spans around what is traced, and hands them to a processor."""

    def __init__(self, processor: SpanProcessor, *, version: str = "", capture_content: bool = False) -> None:
        """Trace; only with `capture_content` spans hold what people, models and tools say."""
        ids = ChosenIds()
        self._provider = TracerProvider(id_generator=ids, resource=_resource(version), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        tracer = self._provider.get_tracer("holdfast", version)
        self._begin_chat = partial(ChatSpan, tracer, with_content=capture_content)
        self._invocations = Invocations(self._provider, tracer, ids)
        self.around = tracing_calls(tracer, with_content=capture_content)
        """What is done around each call of a tool."""

    def model(self, model: Model) -> Model:
        """Return a model whose calls are traced."""
        return ObservedModel(model, self._begin_chat)

    def executor(self, executor: Executor) -> Executor:
        """Return an executor whose work is traced."""
        return _TracedExecutor(executor, self._invocations)

    def journal(self, journal: Journal) -> Journal:
        """Return the journal of such an executor."""
        return _TracedJournal(journal)

    def close(self) -> None:
        """Send what is left. It may take as long as whoever receives it."""
        self._provider.shutdown()


class _TracedExecutor:
    """`Executor`."""

    def __init__(self, executor: Executor, invocations: Invocations) -> None:
        self._executor = executor
        self._invocations = invocations

    async def execute(self, lease: Lease, *, stop: asyncio.Event) -> None:
        """Work on a run."""
        with self._invocations.working(lease) as invocation:
            _working.set(invocation)  # the task is the run's own
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
        if (invocation := _working.get()) is not None:
            invocation.take(commit)
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
