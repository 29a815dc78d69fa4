from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import Invalid, ModelRefused, ModelUnavailable
from holdfast.models.registry import FallbackModel, ModelRegistry
from holdfast.ports.model import Model, ModelDelta, TextDelta
from tests.unit.models.asking import asking, deltas, scripted, text

BUSY = {"error": {"code": "OVERLOADED", "message": "busy"}}


@pytest.fixture
def model(tmp_path: Path) -> Any:
    def make(name: str, *turns: dict[str, Any], **script: Any) -> Model:
        folder = tmp_path / name
        folder.mkdir()
        return scripted(folder, *turns, **script)

    return make


async def test_the_first_answers_while_it_can(model: Any) -> None:
    chosen = FallbackModel([model("a", {"say": "one"}), model("b", {"say": "two"})])
    assert text(await deltas(chosen)) == "one"


async def test_the_next_is_asked_when_one_is_not_available(model: Any) -> None:
    chosen = FallbackModel([model("a", BUSY), model("b", BUSY), model("c", {"say": "three", "chunks": 2})])
    assert text(await deltas(chosen)) == "three"


async def test_once_something_was_said_there_is_no_other_model(model: Any) -> None:
    said: list[ModelDelta] = []
    chosen = FallbackModel([model("a", {"say": "half", **BUSY}), model("b", {"say": "two"})])
    with pytest.raises(ModelUnavailable, match="busy"):
        async with chosen.stream(asking()) as stream:
            async for delta in stream:
                said.append(delta)
    assert said == [TextDelta("half")]


class Hurried:
    """A model that is given little time."""

    idle_timeout_seconds = 0.05

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.stream = model.stream


async def test_the_next_is_asked_when_one_says_nothing_for_as_long_as_it_may(model: Any) -> None:
    stalls: Any = [Hurried(model(name, {"stall": True})) for name in "ab"]
    assert text(await deltas(FallbackModel([*stalls, model("c", {"say": "three"})]))) == "three"
    with pytest.raises(ModelUnavailable, match="said nothing for 0.05 seconds; .* said nothing for 0.05 seconds"):
        await deltas(FallbackModel(stalls))
    assert FallbackModel(stalls).idle_timeout_seconds == sum(each.patience for each in stalls)


async def test_a_call_that_is_refused_is_not_tried_elsewhere(model: Any) -> None:
    with pytest.raises(ModelRefused, match="wrong"):
        await deltas(
            FallbackModel([model("a", {"error": {"code": "BAD", "message": "wrong"}}), model("b", {"say": "two"})])
        )


async def test_when_none_is_left_all_are_named(model: Any) -> None:
    other = {"error": {"code": "OVERLOADED", "message": "down"}}
    with pytest.raises(ModelUnavailable, match="busy; down"):
        await deltas(FallbackModel([model("a", BUSY), model("b", other)]))


async def test_what_the_caller_raises_is_the_callers_own(model: Any) -> None:
    chosen = FallbackModel([model("a", {"say": "one"}), model("b", {"say": "two"})])
    with pytest.raises(ModelUnavailable, match="of the caller"):
        async with chosen.stream(asking()) as stream:
            await anext(stream)
            raise ModelUnavailable("of the caller")


def test_it_promises_what_all_of_them_can_keep(model: Any) -> None:
    chosen = FallbackModel([model("a", {}, context_window=10), model("b", {}, context_window=5)])
    assert chosen.context_window == 5
    assert chosen.price_known
    assert chosen.name == "scripted:script.json, scripted:script.json"


def test_a_catalog_makes_one_of_a_list_of_names(tmp_path: Path) -> None:
    scripted(tmp_path, {"say": "one"})
    catalog = ModelRegistry()
    name = "scripted:script.json"
    assert catalog.fallback([name], folder=str(tmp_path)) is catalog.find(name, folder=str(tmp_path))
    assert isinstance(catalog.fallback([name, name], folder=str(tmp_path)), FallbackModel)
    with pytest.raises(Invalid, match="at least one"):
        catalog.fallback([])
