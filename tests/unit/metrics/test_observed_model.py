"""`ObservedModel`: the observer sees every call, however it ends."""

import asyncio

import pytest

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.limits import ZERO_USAGE
from holdfast.metrics.observed_calls import ObservedModel
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest, TextDelta
from tests.builders import user
from tests.unit.agent.builders import RUN
from tests.unit.agent.fakes import FakeModel

FINISHED = ModelFinished(usage=ZERO_USAGE)
REQUEST = ModelRequest(run_id=RUN, system="", messages=[user("go")])


class Notes:
    """`Observation` that writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[ModelDelta | BaseException | str] = []

    def on_delta(self, delta: ModelDelta) -> None:
        """Write down what comes."""
        self.seen.append(delta)

    def on_error(self, error: BaseException) -> None:
        """Write down what went wrong."""
        self.seen.append(error)

    def on_end(self) -> None:
        """Write down that it is over."""
        self.seen.append("end")


def observed(fake_model: FakeModel) -> tuple[Model, Notes]:
    """Return the fake_model as a model that is observed, and what is seen of its calls."""
    notes = Notes()
    return ObservedModel(fake_model, lambda model, request: notes), notes


async def test_a_caller_that_stops_after_the_last_delta_causes_no_error() -> None:
    fake_model = FakeModel()
    model, notes = observed(fake_model)
    fake_model.say(TextDelta("a"), FINISHED)
    async with model.stream(REQUEST) as deltas:
        async for delta in deltas:
            if delta is FINISHED:
                break
    assert notes.seen == [TextDelta("a"), FINISHED, "end"]
    assert fake_model.closed


async def test_an_error_is_observed_and_raised() -> None:
    fake_model = FakeModel()
    model, notes = observed(fake_model)
    gone = ModelUnavailable("gone")
    fake_model.say(gone)
    with pytest.raises(ModelUnavailable):
        async with model.stream(REQUEST) as deltas:
            await anext(deltas)
    assert notes.seen == [gone, "end"]


async def test_a_cancelled_call_is_observed_and_closed_at_once() -> None:
    fake_model = FakeModel()
    model, notes = observed(fake_model)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), model.stream(REQUEST) as deltas:
            await anext(deltas)
    assert [type(each) for each in notes.seen] == [asyncio.CancelledError, str]
    assert fake_model.closed
