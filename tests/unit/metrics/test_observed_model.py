"""A model that is observed: what is seen of a call, however it ends."""

import asyncio

import pytest

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.limits import ZERO_USAGE
from holdfast.metrics.observed_calls import ObservedModel
from holdfast.ports.model import Model, ModelDelta, ModelFinished, ModelRequest, TextDelta
from tests.builders import user
from tests.unit.agent.builders import RUN
from tests.unit.agent.notebook import Puppet

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


def observed(puppet: Puppet) -> tuple[Model, Notes]:
    """Return the puppet as a model that is observed, and what is seen of its calls."""
    notes = Notes()
    return ObservedModel(puppet, lambda model, request: notes), notes


async def test_whoever_leaves_with_the_last_delta_has_seen_a_call_that_did_not_fail() -> None:
    puppet = Puppet()
    model, notes = observed(puppet)
    puppet.say(TextDelta("a"), FINISHED)
    async with model.stream(REQUEST) as deltas:
        async for delta in deltas:
            if delta is FINISHED:
                break
    assert notes.seen == [TextDelta("a"), FINISHED, "end"]
    assert puppet.left


async def test_what_goes_wrong_is_seen_and_raised() -> None:
    puppet = Puppet()
    model, notes = observed(puppet)
    gone = ModelUnavailable("gone")
    puppet.say(gone)
    with pytest.raises(ModelUnavailable):
        async with model.stream(REQUEST) as deltas:
            await anext(deltas)
    assert notes.seen == [gone, "end"]


async def test_a_call_that_is_cut_off_is_seen_as_such_and_left_at_once() -> None:
    puppet = Puppet()
    model, notes = observed(puppet)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), model.stream(REQUEST) as deltas:
            await anext(deltas)
    assert [type(each) for each in notes.seen] == [asyncio.CancelledError, str]
    assert puppet.left
