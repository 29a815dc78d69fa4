"""Tool names of MCP servers: valid for every model, and unique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.mcp_server import pattern_names_server, server_of_tool, server_tool_prefix
from holdfast.domain.tool import ToolSpec, check_tool_spec
from holdfast.mcp.listed_tools import tool_names

servers = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9-]{0,22}[A-Za-z0-9])?", fullmatch=True)


@given(server=servers, tools=st.lists(st.text(), unique=True, max_size=8))
def test_names_are_valid_and_unique_and_contain_the_server(server: str, tools: list[str]) -> None:
    names = tool_names(server, tools)
    assert len(set(names.values())) == len(tools)
    for name in names.values():
        check_tool_spec(ToolSpec(name=name, description="", parameters={"type": "object"}))
        assert server_of_tool(name) == server
        assert pattern_names_server(name, server)


@given(server=servers, tools=st.lists(st.text(), unique=True, max_size=8))
def test_a_name_does_not_depend_on_the_other_tools(server: str, tools: list[str]) -> None:
    assert tool_names(server, tools) == {tool: tool_names(server, [tool])[tool] for tool in tools}


def test_a_valid_name_is_unchanged() -> None:
    assert tool_names("github", ["get_issue", "x" * 60]) == {
        "get_issue": "mcp__github__get_issue",
        "x" * 60: f"mcp__github__{'x' * 42}-42f2d973",
    }


@pytest.mark.parametrize("name", ["bash", "mcp__", "mcp__github", "remote__a__b"])
def test_other_names_belong_to_no_server(name: str) -> None:
    assert server_of_tool(name) is None


@pytest.mark.parametrize(
    ("pattern", "named"),
    [("mcp__a__x", True), ("mcp__a__*", True), ("mcp__*", True), ("*", True), ("mcp__b__*", False), ("bash", False)],
)
def test_a_tool_pattern_may_name_a_server(pattern: str, named: bool) -> None:
    assert pattern_names_server(pattern, "a") is named
    assert server_tool_prefix("a") == "mcp__a__"
