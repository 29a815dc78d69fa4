"""Model calls that are counted: how long they took, what they used, and what that cost."""

from time import perf_counter
from typing import Final

from holdfast.domain.errors import ContextOverflow, ModelRefused, ModelUnavailable
from holdfast.domain.limits import Usage
from holdfast.metrics.meters import Meters
from holdfast.metrics.observed_model import Begin
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest

_OUTCOMES: Final = ((ContextOverflow, "too_long"), (ModelRefused, "refused"), (ModelUnavailable, "unavailable"))


def counting(meters: Meters) -> Begin:
    """Return what counts the calls of a model that is observed."""

    def begin(model: Model, request: ModelRequest) -> _CountedCall:
        return _CountedCall(model.name, meters)

    return begin


class _CountedCall:
    """`Observation` of a call that is counted when it is over."""

    def __init__(self, model: str, meters: Meters) -> None:
        self._model = model
        self._meters = meters
        self._begun = perf_counter()
        self._outcome = "cut_off"

    def see(self, delta: ModelDelta) -> None:
        """Take note of how it ends."""
        if type(delta) is ModelFinished:
            self._outcome = "done"
            self._count(delta.usage)

    def fail(self, error: BaseException) -> None:
        """Take note of why it ends."""
        self._outcome = next((word for kind, word in _OUTCOMES if isinstance(error, kind)), "cut_off")

    def end(self) -> None:
        """Count the call."""
        self._meters.model_seconds.of(self._model, self._outcome).observe(perf_counter() - self._begun)

    def _count(self, usage: Usage) -> None:
        meters, model = self._meters, self._model
        meters.tokens.of(model, "input").add(usage.input_tokens)
        meters.tokens.of(model, "output").add(usage.output_tokens)
        meters.tokens.of(model, "cached_input").add(usage.cached_input_tokens)
        if usage.cost_usd is None:
            meters.unpriced.of(model).add()
        else:
            meters.cost.of(model).add(usage.cost_usd)
