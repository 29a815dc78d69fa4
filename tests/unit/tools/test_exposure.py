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


def test_up_to_sixty_four_tools_are_shown_at_once() -> None:
    assert len(shown(many(64))) == 64
    assert shown(many(65)) == []
    assert DEFAULT_VISIBLE_TOOLS == 64


def test_the_discovery_tools_do_not_count() -> None:
    finders: list[Tool] = [Recorder(spec=a_spec(name)) for name in DISCOVERY_TOOLS]
    assert len(shown([*many(64), *finders])) == 66
    assert shown([*many(65), *finders]) == list(DISCOVERY_TOOLS)
    assert shown([*many(2), *finders], exposure=ToolExposure(limit=1, core=frozenset())) == list(DISCOVERY_TOOLS)


def test_activated_tools_are_shown() -> None:
    assert shown(many(65), {"run_id": "run_1", "active": ["tool_3", "gone"]}) == ["tool_3"]


@pytest.mark.parametrize("value", [None, {"run_id": "run_2", "active": ["tool_3"]}, {"active": ["tool_3"]}, [], "x", 1])
def test_values_of_another_run_or_unreadable_ones_are_ignored(value: Json) -> None:
    assert shown(many(65), value) == []
    assert activated_tools({"tools": value}, RUN).active == ()


def test_the_limit_is_at_least_one_tool() -> None:
    with pytest.raises(Invalid, match="at least one tool"):
        ToolExposure(limit=0)


def test_core_tools_are_built_ins() -> None:
    assert {spec.name for spec in BUILTIN_SPECS} >= CORE_TOOLS
    assert set(DISCOVERY_TOOLS) <= CORE_TOOLS
