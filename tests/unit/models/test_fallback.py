from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.errors import Invalid, ModelRefused, ModelUnavailable
from holdfast.models.registry import FallbackModel, ModelRegistry
from holdfast.ports.model import Model, ModelDelta, TextDelta
from tests.unit.models.model_calls import deltas, model_request, scripted, text

BUSY = {"error": {"code": "OVERLOADED", "message": "busy"}}


@pytest.fixture
def model(tmp_path: Path) -> Any:
    def make(name: str, *turns: dict[str, Any], **script: Any) -> Model:
        folder = tmp_path / name
        folder.mkdir()
        return scripted(folder, *turns, **script)

    return make


async def test_the_first_model_answers_while_it_is_available(model: Any) -> None:
    fallback = FallbackModel([model("a", {"say": "one"}), model("b", {"say": "two"})])
    assert text(await deltas(fallback)) == "one"


async def test_the_next_model_is_called_after_an_outage(model: Any) -> None:
    fallback = FallbackModel([model("a", BUSY), model("b", BUSY), model("c", {"say": "three", "chunks": 2})])
    assert text(await deltas(fallback)) == "three"


async def test_each_fallback_is_logged(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    silent: Any = ShortTimeout(model("b", {"stall": True}))
    await deltas(FallbackModel([model("a", BUSY), silent, model("c", {"say": "x"})]))
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("falling back to `") and "busy" in first
    assert "http://models.example" in second and "sent no output" in second


async def test_there_is_no_fallback_after_the_first_output(model: Any) -> None:
    output: list[ModelDelta] = []
    fallback = FallbackModel([model("a", {"say": "half", **BUSY}), model("b", {"say": "two"})])
    with pytest.raises(ModelUnavailable, match="busy"):
        async with fallback.stream(model_request()) as stream:
            async for delta in stream:
                output.append(delta)
    assert output == [TextDelta("half")]


class ShortTimeout:
    """A model with a short idle timeout."""

    address = "http://models.example"
    idle_timeout_seconds = 0.05

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.stream = model.stream


async def test_the_next_model_is_called_after_the_idle_timeout(model: Any) -> None:
    stalls: Any = [ShortTimeout(model(name, {"stall": True})) for name in "ab"]
    assert text(await deltas(FallbackModel([*stalls, model("c", {"say": "three"})]))) == "three"
    assert FallbackModel(stalls).address == "http://models.example, http://models.example"
    with pytest.raises(ModelUnavailable, match="sent no output for 0.05 seconds; .* sent no output for 0.05 seconds"):
        await deltas(FallbackModel(stalls))
    assert FallbackModel(stalls).idle_timeout_seconds == sum(each.idle_timeout_seconds for each in stalls)


async def test_a_refused_call_is_not_tried_with_the_next_model(model: Any) -> None:
    with pytest.raises(ModelRefused, match="wrong"):
        await deltas(
            FallbackModel([model("a", {"error": {"code": "BAD", "message": "wrong"}}), model("b", {"say": "two"})])
        )


async def test_when_all_models_fail_all_errors_are_named(model: Any) -> None:
    other = {"error": {"code": "OVERLOADED", "message": "down"}}
    with pytest.raises(ModelUnavailable, match="busy; down"):
        await deltas(FallbackModel([model("a", BUSY), model("b", other)]))


async def test_an_exception_of_the_caller_passes_through(model: Any) -> None:
    fallback = FallbackModel([model("a", {"say": "one"}), model("b", {"say": "two"})])
    with pytest.raises(ModelUnavailable, match="of the caller"):
        async with fallback.stream(model_request()) as stream:
            await anext(stream)
            raise ModelUnavailable("of the caller")


def test_its_limits_hold_for_all_its_models(model: Any) -> None:
    fallback = FallbackModel([model("a", {}, context_window=10), model("b", {}, context_window=5)])
    assert fallback.context_window == 5
    assert fallback.price_known
    assert fallback.name == "scripted:script.json, scripted:script.json"


def test_the_registry_makes_a_fallback_model_of_several_names(tmp_path: Path) -> None:
    scripted(tmp_path, {"say": "one"})
    registry = ModelRegistry()
    name = "scripted:script.json"
    assert registry.fallback([name], folder=str(tmp_path)) is registry.find(name, folder=str(tmp_path))
    assert isinstance(registry.fallback([name, name], folder=str(tmp_path)), FallbackModel)
    with pytest.raises(Invalid, match="at least one"):
        registry.fallback([])
