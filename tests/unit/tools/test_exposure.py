from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.testing.calls import Recorder, a_spec
from holdfast.tools.built_ins import SPECS
from holdfast.tools.exposure import CORE, DEFAULT_LIMIT, FINDERS, Exposure, active, visible
from holdfast.tools.tool import Tool

RUN: Final = RunId("run_1")


def shown(tools: list[Tool], value: Json = None, *, exposure: Exposure | None = None) -> list[str]:
    found = visible(tools, values={"tools": value}, run_id=RUN, exposure=exposure or Exposure())
    return [tool.spec.name for tool in found]


def many(count: int) -> list[Tool]:
    return [Recorder(spec=a_spec(f"tool_{number}")) for number in range(count)]


def test_up_to_forty_tools_are_shown_at_once() -> None:
    assert len(shown(many(40))) == 40
    assert shown(many(41)) == []
    assert DEFAULT_LIMIT == 40


def test_the_tools_to_find_others_with_do_not_count() -> None:
    finders: list[Tool] = [Recorder(spec=a_spec(name)) for name in FINDERS]
    assert len(shown([*many(40), *finders])) == 42
    assert shown([*many(41), *finders]) == list(FINDERS)
    assert shown([*many(2), *finders], exposure=Exposure(limit=1, core=frozenset())) == list(FINDERS)


def test_what_the_run_activated_is_shown_too() -> None:
    assert shown(many(41), {"run_id": "run_1", "active": ["tool_3", "gone"]}) == ["tool_3"]


@pytest.mark.parametrize("value", [None, {"run_id": "run_2", "active": ["tool_3"]}, {"active": ["tool_3"]}, [], "x", 1])
def test_what_another_run_activated_or_nobody_wrote_does_not_count(value: Json) -> None:
    assert shown(many(41), value) == []
    assert active({"tools": value}, RUN).active == ()


def test_no_model_is_shown_less_than_one_tool() -> None:
    with pytest.raises(Invalid, match="at least one tool"):
        Exposure(limit=0)


def test_the_core_are_built_ins() -> None:
    assert {spec.name for spec in SPECS} >= CORE
    assert set(FINDERS) <= CORE
