"""Observability of a process: metrics always, and traces where the settings enable them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Protocol

from holdfast.domain.errors import Invalid
from holdfast.metrics.meters import Meters
from holdfast.metrics.observed_calls import ObservedModel, model_call_metrics, tool_metrics_middleware
from holdfast.ports.log import Journal
from holdfast.ports.model import Model
from holdfast.ports.runtime import Executor
from holdfast.tools.tool import ToolMiddleware, compose
from holdfast.workspace.settings import TelemetrySettings


class Tracer(Protocol):
    """Emits spans: it puts what does so around what is traced."""

    @property
    def middleware(self) -> ToolMiddleware:
        """What is done around each call of a tool."""

    def model(self, model: Model) -> Model:
        """Return a model whose calls are traced."""

    def executor(self, executor: Executor) -> Executor:
        """Return an executor whose work is traced."""

    def journal(self, journal: Journal) -> Journal:
        """Return the journal of such an executor."""


class Observability:
    """Puts what observes around what is observed."""

    def __init__(self, tracing: Tracer | None = None) -> None:
        self.meters = Meters()
        self._count = model_call_metrics(self.meters)
        self._tracing = tracing
        self.middleware = tool_metrics_middleware(self.meters)
        """What is done around each call of a tool."""
        if tracing is not None:
            self.middleware = compose(tracing.middleware, self.middleware)

    def model(self, model: Model) -> Model:
        """Return a model whose calls are observed."""
        observed = ObservedModel(model, self._count)
        return observed if self._tracing is None else self._tracing.model(observed)

    def executor(self, executor: Executor) -> Executor:
        """Return an executor whose work is observed."""
        return executor if self._tracing is None else self._tracing.executor(executor)

    def journal(self, journal: Journal) -> Journal:
        """Return the journal of such an executor."""
        return journal if self._tracing is None else self._tracing.journal(journal)


@asynccontextmanager
async def open_observability(
    settings: TelemetrySettings, *, tracing: Tracer | None = None
) -> AsyncIterator[Observability]:
    """Observe a process; the spans are `tracing`'s if it is given, and else what the settings say."""
    if tracing is not None or not settings.traces:
        yield Observability(tracing)
        return
    check_opentelemetry_installed()
    import holdfast
    from holdfast.telemetry.tracing import OpenTelemetryTracing as Spans
    from holdfast.telemetry.tracing import span_processor

    spans = Spans(span_processor(), version=holdfast.__version__, capture_content=settings.capture_content)
    try:
        yield Observability(spans)
    finally:
        await asyncio.to_thread(spans.close)


def check_opentelemetry_installed() -> None:
    """Raise unless spans can be made here."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise Invalid("traces need a package: run `pip install 'holdfast[otel]'`", field="telemetry")
