"""One model call, streamed into the log.

    deltas ──► log ──► the first goes out at once, those that follow in one commit per window

It ends with the whole answer, or with an error that says whether to try again. A stream that stands still for too
long is an error too.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from holdfast.agent.answer import Answer
from holdfast.agent.log import Log
from holdfast.agent.meanwhile import committing
from holdfast.domain.errors import ModelUnavailable
from holdfast.ports.model import Model, ModelFinished, ModelRequest

WINDOW: Final = 0.025
"""Seconds in which deltas gather."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often deltas are committed, and how long a model may be silent. In seconds."""

    window: float = WINDOW
    stall: float | None = None
    """If not as long as the model itself says."""

    def patience(self, model: Model) -> float:
        """Return the seconds after which a model that says nothing counts as gone."""
        return model.patience if self.stall is None else self.stall


async def stream_answer(model: Model, request: ModelRequest, answer: Answer, log: Log, pace: Pace) -> ModelFinished:
    """Make the call and say what comes; return how it finished."""
    await committing(log, _take_all(model, request, answer, pace.patience(model)), window=pace.window)
    if answer.finished is None:
        raise ModelUnavailable(f"`{model.name}` stopped in the middle of its answer")
    return answer.finished


async def _take_all(model: Model, request: ModelRequest, answer: Answer, stall: float) -> None:
    silence = _Silence(stall)
    try:
        await silence.limit(_take(model, request, answer, silence))
    except TimeoutError as exc:
        raise ModelUnavailable(f"`{model.name}` said nothing for {stall:g} seconds") from exc


async def _take(model: Model, request: ModelRequest, answer: Answer, silence: "_Silence") -> None:
    now = asyncio.get_running_loop().time
    async with model.stream(request) as deltas:
        async for delta in deltas:
            answer.take(delta)
            silence.since = now()


class _Silence:
    """Ends work that has said nothing for too long. To say something costs next to nothing."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle
        self.since = self._loop.time()
        """The time of the event loop when something was last said."""

    async def limit(self, work: Awaitable[None]) -> None:
        """Raise `TimeoutError` in `work` once it has been silent for too long."""
        async with asyncio.timeout(None) as patience:
            # What is over before anything else could run needs no timer.
            self._next = self._loop.call_soon(self._watch, patience)
            try:
                await work
            finally:
                self._next.cancel()

    def _watch(self, patience: asyncio.Timeout) -> None:
        left = self.since + self._longest - self._loop.time()
        if left > 0:
            self._next = self._loop.call_later(left, self._watch, patience)
        else:
            patience.reschedule(self._loop.time())
