"""A model that somebody watches without being in its way."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final, Protocol, TypeAlias

from holdfast.ports.model import Model, ModelDelta, ModelRequest


class Observation(Protocol):
    """What somebody sees of one call."""

    def see(self, delta: ModelDelta) -> None:
        """See what comes."""

    def fail(self, error: BaseException) -> None:
        """See that the call came to nothing, or was cut off."""

    def end(self) -> None:
        """See that it is over."""


Begin: TypeAlias = Callable[[Model, ModelRequest], Observation]


class ObservedModel:
    """`Model` that is another one, whose calls are seen."""

    def __init__(self, model: Model, begin: Begin) -> None:
        self._model = model
        self._begin = begin
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
    def patience(self) -> float:
        """Seconds for which it may say nothing."""
        return self._model.patience

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return the dollars that so many tokens cost."""
        return self._model.cost(input_tokens=input_tokens, output_tokens=output_tokens)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Make a call, and let it be seen."""
        return aclosing(self._seen(request))

    async def _seen(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        observation = self._begin(self._model, request)
        see = observation.see
        try:
            async with self._model.stream(request) as deltas:
                async for delta in deltas:
                    see(delta)
                    yield delta
        except GeneratorExit:  # whoever asked has left, which says nothing about the call
            raise
        except BaseException as error:
            observation.fail(error)
            raise
        finally:
            observation.end()
