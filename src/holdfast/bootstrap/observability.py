"""Observability of a process: metrics always, and traces where the settings enable them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Protocol

from holdfast.domain.errors import Invalid
from holdfast.domain.packages import install_command
from holdfast.metrics.meters import Meters
from holdfast.metrics.observed_calls import ObservedModel, model_call_metrics, tool_metrics_middleware
from holdfast.ports.log import Journal
from holdfast.ports.model import Model
from holdfast.ports.runtime import Executor
from holdfast.tools.tool import ToolMiddleware, compose
from holdfast.workspace.settings import TelemetrySettings


class Tracer(Protocol):
    """Wraps components so that they emit spans."""

    @property
    def middleware(self) -> ToolMiddleware:
        """Traces each tool call."""

    def model(self, model: Model) -> Model:
        """Return a model with traced calls."""

    def executor(self, executor: Executor) -> Executor:
        """Return an executor with traced runs."""

    def journal(self, journal: Journal) -> Journal:
        """Return the journal for a traced executor."""


class Observability:
    """Wraps components so that they count metrics and, if enabled, emit spans."""

    def __init__(self, tracing: Tracer | None = None) -> None:
        self.meters = Meters()
        self._model_metrics = model_call_metrics(self.meters)
        self._tracing = tracing
        self.middleware = tool_metrics_middleware(self.meters)
        """Observes each tool call."""
        if tracing is not None:
            self.middleware = compose(tracing.middleware, self.middleware)

    def model(self, model: Model) -> Model:
        """Return a model with observed calls."""
        observed = ObservedModel(model, self._model_metrics)
        return observed if self._tracing is None else self._tracing.model(observed)

    def executor(self, executor: Executor) -> Executor:
        """Return an executor with observed runs."""
        return executor if self._tracing is None else self._tracing.executor(executor)

    def journal(self, journal: Journal) -> Journal:
        """Return the journal for an observed executor."""
        return journal if self._tracing is None else self._tracing.journal(journal)


@asynccontextmanager
async def open_observability(
    settings: TelemetrySettings, *, tracing: Tracer | None = None
) -> AsyncIterator[Observability]:
    """Observe a process; spans go to `tracing` if given, else to the exporter of the settings."""
    if tracing is not None or not settings.traces:
        yield Observability(tracing)
        return
    check_opentelemetry_installed()
    import holdfast
    from holdfast.telemetry.tracing import OpenTelemetryTracing, span_processor

    processor, content = span_processor(), settings.capture_content
    opentelemetry = OpenTelemetryTracing(processor, version=holdfast.__version__, capture_content=content)
    try:
        yield Observability(opentelemetry)
    finally:
        await asyncio.to_thread(opentelemetry.close)


def check_opentelemetry_installed() -> None:
    """Raise unless the OpenTelemetry packages are installed."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise Invalid(f"traces need a package: run `{install_command('otel')}`", field="telemetry")
