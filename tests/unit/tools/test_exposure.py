from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.exposure import (
    CORE_TOOLS,
    DEFAULT_VISIBLE_TOOLS,
    DISCOVERY_TOOLS,
    ToolExposure,
    activated_tools,
    visible_tools,
)
from holdfast.tools.tool import Tool
from tests.support.calls import Recorder, a_spec

RUN: Final = RunId("run_1")


def shown(tools: list[Tool], value: Json = None, *, exposure: ToolExposure | None = None) -> list[str]:
    found = visible_tools(tools, values={"tools": value}, run_id=RUN, exposure=exposure or ToolExposure())
    return [tool.spec.name for tool in found]


def many(count: int) -> list[Tool]:
    return [Recorder(spec=a_spec(f"tool_{number}")) for number in range(count)]


def test_up_to_forty_tools_are_shown_at_once() -> None:
    assert len(shown(many(40))) == 40
    assert shown(many(41)) == []
    assert DEFAULT_VISIBLE_TOOLS == 40


def test_the_tools_to_find_others_with_do_not_count() -> None:
    finders: list[Tool] = [Recorder(spec=a_spec(name)) for name in DISCOVERY_TOOLS]
    assert len(shown([*many(40), *finders])) == 42
    assert shown([*many(41), *finders]) == list(DISCOVERY_TOOLS)
    assert shown([*many(2), *finders], exposure=ToolExposure(limit=1, core=frozenset())) == list(DISCOVERY_TOOLS)


def test_what_the_run_activated_is_shown_too() -> None:
    assert shown(many(41), {"run_id": "run_1", "active": ["tool_3", "gone"]}) == ["tool_3"]


@pytest.mark.parametrize("value", [None, {"run_id": "run_2", "active": ["tool_3"]}, {"active": ["tool_3"]}, [], "x", 1])
def test_what_another_run_activated_or_nobody_wrote_does_not_count(value: Json) -> None:
    assert shown(many(41), value) == []
    assert activated_tools({"tools": value}, RUN).active == ()


def test_no_model_is_shown_less_than_one_tool() -> None:
    with pytest.raises(Invalid, match="at least one tool"):
        ToolExposure(limit=0)


def test_the_core_are_built_ins() -> None:
    assert {spec.name for spec in BUILTIN_SPECS} >= CORE_TOOLS
    assert set(DISCOVERY_TOOLS) <= CORE_TOOLS
