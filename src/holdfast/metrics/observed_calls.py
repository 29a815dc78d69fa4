"""Observed model calls and tool calls: their duration, outcome, tokens and cost as metrics."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from time import perf_counter
from typing import Final, Protocol, TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.errors import ContextOverflow, ModelRefused, ModelUnavailable
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.meters import Meters
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest
from holdfast.tools.tool import CallNext, ToolContext, ToolMiddleware, ToolResult


class ModelCallObserver(Protocol):
    """Observes one model call."""

    def on_delta(self, delta: ModelDelta) -> None:
        """Observe a delta."""

    def on_error(self, error: BaseException) -> None:
        """Observe that the call failed or was cancelled."""

    def on_end(self) -> None:
        """Observe the end of the call."""


ObserveModelCall: TypeAlias = Callable[[Model, ModelRequest], ModelCallObserver]


class ObservedModel:
    """`Model` that passes the calls of another one to an observer."""

    def __init__(self, model: Model, observe: ObserveModelCall) -> None:
        self._model = model
        self._observe = observe
        self.name: Final = model.name
        self.cost = model.cost

    @property
    def address(self) -> str | None:
        """The address of the provider."""
        return self._model.address

    @property
    def context_window(self) -> int:
        """The tokens of the context window."""
        return self._model.context_window

    @property
    def price_known(self) -> bool:
        """Whether the price of the model is known."""
        return self._model.price_known

    @property
    def idle_timeout_seconds(self) -> float:
        """How long the model may send nothing."""
        return self._model.idle_timeout_seconds

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Make an observed call."""
        return aclosing(self._observed_stream(request))

    async def _observed_stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        observer = self._observe(self._model, request)
        on_delta = observer.on_delta
        try:
            async with self._model.stream(request) as deltas:
                async for delta in deltas:
                    on_delta(delta)
                    yield delta
        except GeneratorExit:  # the caller stopped reading, which is not an error of the call
            raise
        except BaseException as error:
            observer.on_error(error)
            raise
        finally:
            observer.on_end()


_ERROR_OUTCOMES: Final = ((ContextOverflow, "too_long"), (ModelRefused, "refused"), (ModelUnavailable, "unavailable"))


def model_call_metrics(meters: Meters) -> ObserveModelCall:
    """Return a factory of observers that record metrics of model calls."""
    return lambda model, request: _MeasuredModelCall(model.name, meters)


class _MeasuredModelCall:
    """`ModelCallObserver` that records duration, outcome, tokens and cost."""

    def __init__(self, model: str, meters: Meters) -> None:
        self._model = model
        self._meters = meters
        self._started = perf_counter()
        self._outcome = "cut_off"

    def on_delta(self, delta: ModelDelta) -> None:
        if type(delta) is not ModelFinished:
            return
        self._outcome = "done"
        meters, model, usage = self._meters, self._model, delta.usage
        meters.tokens.of(model, "input").add(usage.input_tokens)
        meters.tokens.of(model, "output").add(usage.output_tokens)
        meters.tokens.of(model, "cached_input").add(usage.cached_input_tokens)
        if usage.cost_usd is None:
            meters.unpriced.of(model).add()
        else:
            meters.cost.of(model).add(usage.cost_usd)

    def on_error(self, error: BaseException) -> None:
        self._outcome = next((outcome for kind, outcome in _ERROR_OUTCOMES if isinstance(error, kind)), "cut_off")

    def on_end(self) -> None:
        self._meters.model_seconds.of(self._model, self._outcome).observe(perf_counter() - self._started)


def tool_metrics_middleware(meters: Meters) -> ToolMiddleware:
    """Return a middleware that measures tool calls. Only existing tools are called, so the label stays bounded."""

    async def measure(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        started, outcome = perf_counter(), "cut_off"
        try:
            result = await go()
            outcome = outcome_label(result)
            return result
        finally:
            meters.tool_seconds.of(spec.name, outcome).observe(perf_counter() - started)

    return measure


def outcome_label(result: ToolResult) -> str:
    """Return the outcome of a tool call as a label value."""
    if result.wait is not None:
        return "waits"
    if result.unknown:
        return "unknown"
    return "failed" if result.failed else "done"
