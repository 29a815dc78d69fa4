"""Observed model calls and tool calls: their duration, outcome, tokens and cost as metrics."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from time import perf_counter
from typing import Final, Protocol, TypeAlias

from holdfast.domain.content import Json
from holdfast.domain.errors import ContextOverflow, ModelRefused, ModelUnavailable
from holdfast.domain.limits import Usage
from holdfast.domain.tool import ToolSpec
from holdfast.metrics.meters import Meters
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest
from holdfast.tools.tool import CallNext, ToolContext, ToolMiddleware, ToolResult


class ModelCallObserver(Protocol):
    """What somebody sees of one call."""

    def on_delta(self, delta: ModelDelta) -> None:
        """See what comes."""

    def on_error(self, error: BaseException) -> None:
        """See that the call came to nothing, or was cut off."""

    def on_end(self) -> None:
        """See that it is over."""


ObserveModelCall: TypeAlias = Callable[[Model, ModelRequest], ModelCallObserver]


class ObservedModel:
    """`Model` that is another one, whose calls are seen."""

    def __init__(self, model: Model, observe: ObserveModelCall) -> None:
        self._model = model
        self._observe = observe
        self.name: Final = model.name

    @property
    def context_window(self) -> int:
        """How many tokens a call may have in all."""
        return self._model.context_window

    @property
    def price_known(self) -> bool:
        """Whether the cost of a call will be known."""
        return self._model.price_known

    @property
    def idle_timeout_seconds(self) -> float:
        """Seconds for which it may say nothing."""
        return self._model.idle_timeout_seconds

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the dollars that so many tokens cost."""
        return self._model.cost(input_tokens=input_tokens, output_tokens=output_tokens)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Make a call, and let it be seen."""
        return aclosing(self._observed_stream(request))

    async def _observed_stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        observation = self._observe(self._model, request)
        see = observation.on_delta
        try:
            async with self._model.stream(request) as deltas:
                async for delta in deltas:
                    see(delta)
                    yield delta
        except GeneratorExit:  # whoever asked has left, which says nothing about the call
            raise
        except BaseException as error:
            observation.on_error(error)
            raise
        finally:
            observation.on_end()


_ERROR_OUTCOMES: Final = ((ContextOverflow, "too_long"), (ModelRefused, "refused"), (ModelUnavailable, "unavailable"))


def model_call_metrics(meters: Meters) -> ObserveModelCall:
    """Return what counts the calls of a model that is observed."""

    def begin(model: Model, request: ModelRequest) -> _MeasuredModelCall:
        return _MeasuredModelCall(model.name, meters)

    return begin


class _MeasuredModelCall:
    """`Observation` of a call that is counted when it is over."""

    def __init__(self, model: str, meters: Meters) -> None:
        self._model = model
        self._meters = meters
        self._begun = perf_counter()
        self._outcome = "cut_off"

    def on_delta(self, delta: ModelDelta) -> None:
        """Take note of how it ends."""
        if type(delta) is ModelFinished:
            self._outcome = "done"
            self._record_usage(delta.usage)

    def on_error(self, error: BaseException) -> None:
        """Take note of why it ends."""
        self._outcome = next((word for kind, word in _ERROR_OUTCOMES if isinstance(error, kind)), "cut_off")

    def on_end(self) -> None:
        """Count the call."""
        self._meters.model_seconds.of(self._model, self._outcome).observe(perf_counter() - self._begun)

    def _record_usage(self, usage: Usage) -> None:
        meters, model = self._meters, self._model
        meters.tokens.of(model, "input").add(usage.input_tokens)
        meters.tokens.of(model, "output").add(usage.output_tokens)
        meters.tokens.of(model, "cached_input").add(usage.cached_input_tokens)
        if usage.cost_usd is None:
            meters.unpriced.of(model).add()
        else:
            meters.cost.of(model).add(usage.cost_usd)


def tool_metrics_middleware(meters: Meters) -> ToolMiddleware:
    """Return what counts a call around it. Only tools that exist are called, so that their names are not many."""

    async def count(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], go: CallNext) -> ToolResult:
        begun, word = perf_counter(), "cut_off"
        try:
            outcome = await go()
            word = outcome_label(outcome)
            return outcome
        finally:
            meters.tool_seconds.of(spec.name, word).observe(perf_counter() - begun)

    return count


def outcome_label(outcome: ToolResult) -> str:
    """Return what came of a call, in one word."""
    if outcome.wait is not None:
        return "waits"
    if outcome.unknown:
        return "unknown"
    return "failed" if outcome.failed else "done"
