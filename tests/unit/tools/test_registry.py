import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.tools.exposure import ToolExposure
from holdfast.tools.registry import DUPLICATE_REASON, SHADOWED_REASON, ToolCatalog, Toolset, is_dynamic
from holdfast.tools.tool import Tool
from tests.support.calls import Recorder, a_call, a_spec

FEW = ToolExposure(limit=2, core=frozenset({"look"}))


def tools(*names: str) -> list[Tool]:
    return [Recorder(spec=a_spec(name)) for name in names]


def names(found: Toolset) -> list[str]:
    return [tool.spec.name for tool in found.all()]


def test_an_agent_gets_the_tools_that_it_names_in_that_order() -> None:
    assert names(ToolCatalog(tools("a", "b", "c")).toolset(["c", "a", "c"])) == ["c", "a"]


def test_an_agent_that_names_no_tool_has_none() -> None:
    assert names(ToolCatalog(tools("a")).toolset([])) == []


def test_a_prefix_matches_all_tools_that_begin_with_it() -> None:
    catalog = ToolCatalog(tools("plan_b", "plan_a", "sleep"))
    assert names(catalog.toolset(["sleep", "plan_*"])) == ["sleep", "plan_a", "plan_b"]
    assert names(catalog.toolset(["*"])) == ["plan_a", "plan_b", "sleep"]


def test_a_prefix_may_match_nothing() -> None:
    assert names(ToolCatalog(tools("sleep")).toolset(["mcp_*"])) == []


def test_a_star_is_only_allowed_at_the_end() -> None:
    with pytest.raises(Invalid, match="a `\\*` is only allowed at the end"):
        ToolCatalog(tools("sleep")).toolset(["*eep"])


def test_an_unknown_name_is_refused_and_close_ones_are_named() -> None:
    catalog = ToolCatalog(tools("plan_create", "plan_check", "sleep"))
    with pytest.raises(Invalid, match="there is no tool `plan_creat`: did you mean `plan_create`"):
        catalog.toolset(["sleep", "plan_creat"])
    with pytest.raises(Invalid, match="there is no tool `zzz`$"):
        catalog.toolset(["zzz"])


def test_a_local_tool_shadows_a_remote_one_and_the_catalog_records_it() -> None:
    local, remote = tools("look", "look")
    catalog = ToolCatalog([local], remote=[remote, *tools("paint", "paint", "tool_search")])
    assert catalog.toolset(["look"]).find("look") is local
    assert catalog.rejected == {"look": SHADOWED_REASON, "paint": DUPLICATE_REASON, "tool_search": SHADOWED_REASON}
    assert [tool.spec.name for tool in catalog] == ["look", "paint"]


def test_an_invalid_remote_tool_does_not_affect_the_others() -> None:
    broken = Recorder(spec=a_spec("broken", parameters={"type": "string"}))
    catalog = ToolCatalog([], remote=[broken, *tools("1st", "good")])
    assert [tool.spec.name for tool in catalog] == ["good"]
    assert catalog.rejected["broken"] == "the parameters of `broken` must be a JSON Schema of an object"
    assert "a tool's name" in catalog.rejected["1st"]


@pytest.mark.parametrize("twice", [["a", "a"], ["tool_search"], ["tool_activate"]])
def test_two_local_tools_of_one_name_are_refused(twice: list[str]) -> None:
    with pytest.raises(Invalid, match="there are two local tools"):
        ToolCatalog(tools(*twice))


def test_an_invalid_local_tool_is_refused() -> None:
    with pytest.raises(Invalid, match="must be more than 0"):
        ToolCatalog([Recorder(spec=a_spec(timeout=0))])


def test_a_tool_that_the_agent_may_not_use_is_not_found() -> None:
    box = ToolCatalog(tools("look", "paint")).toolset(["look"])
    with pytest.raises(NotFound, match="there is no tool `lok`: did you mean `look`"):
        box.find("lok")
    with pytest.raises(NotFound, match="there is no tool `paint`"):
        box.find("paint")


def test_with_few_tools_all_are_shown() -> None:
    box = ToolCatalog(tools("look", "paint", "hang")).toolset(["*"], exposure=ToolExposure(limit=3))
    assert names(box) == ["hang", "look", "paint"]
    assert box.visible(values={}, run_id=RunId("run_1")) == box.all()


def test_discovery_tools_are_there_if_they_are_named() -> None:
    box = ToolCatalog(tools("look")).toolset(["tool_search", "look"])
    assert names(box) == ["look", "tool_search"]
    assert box.visible(values={}, run_id=RunId("run_1")) == box.all()


def test_with_many_tools_the_core_and_the_discovery_tools_are_shown() -> None:
    box = ToolCatalog(tools("hang", "look", "paint")).toolset(["*"], exposure=FEW)
    shown = box.visible(values={}, run_id=RunId("run_1"))
    assert [tool.spec.name for tool in shown] == ["look", "tool_search", "tool_activate"]


async def test_an_activated_tool_is_shown_until_the_run_ends() -> None:
    box = ToolCatalog(tools("hang", "look", "paint")).toolset(["*"], exposure=FEW)
    found = await box.find("tool_search").run(a_call(), {"query": "paint"})
    assert found.content == {"tools": [{"name": "paint", "description": "paint at it", "active": False}]}
    activated = await box.find("tool_activate").run(a_call(), {"name": "paint"})
    assert activated.content == {"name": "paint", "active": True}
    shown = box.visible(values=activated.values, run_id=RunId("run_1"))
    assert [tool.spec.name for tool in shown] == ["look", "paint", "tool_search", "tool_activate"]
    again = await box.find("tool_search").run(a_call(values=activated.values), {"query": "paint"})
    assert again.content["tools"][0]["active"] is True
    later = box.visible(values=activated.values, run_id=RunId("run_2"))
    assert [tool.spec.name for tool in later] == ["look", "tool_search", "tool_activate"]


async def test_a_tool_that_is_not_shown_can_still_be_called() -> None:
    box = ToolCatalog(tools("hang", "look", "paint")).toolset(["*"], exposure=FEW)
    assert (await box.find("paint").run(a_call(), {})).content == "seen"


def test_an_offline_remote_method_can_be_called_but_is_not_shown() -> None:
    catalog = ToolCatalog(tools("a"), offline=lambda name: Recorder(spec=a_spec(name)))
    found = catalog.toolset(["a", "remote__look", "remote__all*"])
    assert names(found) == ["a"] == [tool.spec.name for tool in found.visible(values={}, run_id=RunId("r"))]
    assert found.find("remote__look").spec.name == "remote__look" and "remote__look" in found.remote_names
    assert found.merged_with(tools("b")).find("remote__look") is found.find("remote__look")
    with pytest.raises(NotFound):
        found.find("remote__other")


def test_an_online_remote_method_is_not_offline() -> None:
    offered = tools("remote__look")
    catalog = ToolCatalog(tools("a"), remote=offered, offline=lambda name: Recorder(spec=a_spec(name)))
    found = catalog.toolset(["remote__look", "remote__*"])
    assert names(found) == ["remote__look"] and found.find("remote__look") is offered[0]


def test_a_local_tool_shadows_a_remote_method_and_the_catalog_records_it() -> None:
    local, offered = tools("remote__look"), tools("remote__look")
    catalog = ToolCatalog(local, remote=offered, offline=lambda name: Recorder(spec=a_spec(name)))
    found = catalog.toolset(["remote__look"])
    assert found.find("remote__look") is local[0] and found.remote_names == frozenset()
    assert catalog.rejected == {"remote__look": SHADOWED_REASON}


@pytest.mark.parametrize("pattern", ["remote__look", "remote__*", "remote*", "mcp__git__*", "mcp__git__x", "mcp*", "*"])
def test_patterns_for_remote_tools_are_dynamic(pattern: str) -> None:
    assert is_dynamic(pattern)


@pytest.mark.parametrize("pattern", ["bash", "read_*", "remote", "memory_*", "task_status"])
def test_patterns_for_local_tools_are_not_dynamic(pattern: str) -> None:
    assert not is_dynamic(pattern)
