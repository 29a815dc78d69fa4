"""Models in a row: the next is asked when one is not available, as long as nothing was said.

pydantic-ai has a model like this. Ours is smaller, takes scripted models too, and goes on for outages only: a call that
was refused is wrong, and the next model would hide that.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from holdfast.domain.errors import ModelUnavailable
from holdfast.ports.model import Model, ModelDelta, ModelRequest


class Fallback:
    """`Model` that is the first available one."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = list(models)

    @property
    def name(self) -> str:
        """The names of all, in order."""
        return ", ".join(model.name for model in self._models)

    @property
    def context_window(self) -> int:
        """What each of them can read."""
        return min(model.context_window for model in self._models)

    @property
    def price_known(self) -> bool:
        """Whether the cost will be known whichever answers."""
        return all(model.price_known for model in self._models)

    @property
    def patience(self) -> float:
        """As long as all of them, one after the other: each is left when its own time is over."""
        return sum(model.patience for model in self._models)

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return what the dearest of them would cost, since nobody knows which it was."""
        costs = [model.cost(input_tokens=input_tokens, output_tokens=output_tokens) for model in self._models]
        known = [cost for cost in costs if cost is not None]
        return max(known) if len(known) == len(costs) else None

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelDelta], None]:
        """Ask one after the other, until one begins to answer."""
        outages: list[ModelUnavailable] = []
        for model in self._models:
            async with AsyncExitStack() as stack:
                try:
                    first, deltas = await _begun(model, request, stack)
                except ModelUnavailable as exc:
                    outages.append(exc)
                    continue
                yield await stack.enter_async_context(aclosing(_joined(first, deltas)))
                return
        raise _none_left(outages)


async def _begun(
    model: Model, request: ModelRequest, stack: AsyncExitStack
) -> tuple[ModelDelta, AsyncIterator[ModelDelta]]:
    """Return the first of an answer and the rest, or raise `ModelUnavailable` once the model is silent for too long."""
    limit = asyncio.timeout(model.patience)
    try:
        async with limit:
            deltas = await stack.enter_async_context(model.stream(request))
            return await anext(deltas), deltas
    except TimeoutError as exc:
        if not limit.expired():
            raise  # the model's own
        raise ModelUnavailable(f"`{model.name}` said nothing for {model.patience:g} seconds") from exc


async def _joined(first: ModelDelta, rest: AsyncIterator[ModelDelta]) -> AsyncGenerator[ModelDelta, None]:
    yield first
    async for delta in rest:
        yield delta


def _none_left(outages: Sequence[ModelUnavailable]) -> ModelUnavailable:
    if len(outages) == 1:
        return outages[0]
    waits = [outage.details["retry_after"] for outage in outages if "retry_after" in outage.details]
    soonest = {"retry_after": min(waits)} if waits else {}
    return ModelUnavailable("; ".join(outage.message for outage in outages), **soonest)
