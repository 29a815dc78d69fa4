from typing import Final

from holdfast.domain.content import Json
from holdfast.tools.builtin.tool_search import MAX_FOUND_TOOLS, tool_activate, tool_search
from holdfast.tools.exposure import activated_tools
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolContext, ToolResult
from tests.support.calls import a_call, a_run, a_spec

SPECS: Final = [a_spec(f"tool_{letter}") for letter in "abcdefghijklmnop"]


def visible(call: ToolContext) -> frozenset[str]:
    return frozenset({"tool_a", *activated_tools(call.values, call.run.id).active})


async def activated(name: str, *, limit: int = 3, call: ToolContext | None = None) -> ToolResult:
    return await with_standard_middleware(tool_activate(SPECS, visible_names=visible, limit=limit)).run(
        call or a_call(), {"name": name}
    )


async def searched(query: str) -> Json:
    return (await tool_search(SPECS, visible_names=visible).run(a_call(), {"query": query})).content


async def test_activation_adds_to_the_active_tools() -> None:
    first = await activated("tool_b")
    assert first == ToolResult(
        content={"name": "tool_b", "active": True},
        values={"tools": {"run_id": "run_1", "active": ["tool_b"]}},
    )
    second = await activated("tool_c", call=a_call(values=first.values))
    assert second.values == {"tools": {"run_id": "run_1", "active": ["tool_b", "tool_c"]}}


async def test_activating_a_visible_tool_changes_nothing() -> None:
    assert await activated("tool_a") == ToolResult(content={"name": "tool_a", "active": True})


async def test_tools_activated_by_another_run_are_ignored() -> None:
    before = (await activated("tool_b")).values
    after = await activated("tool_c", call=a_call(run=a_run(id="run_2"), values=before))
    assert after.values == {"tools": {"run_id": "run_2", "active": ["tool_c"]}}


async def test_activation_has_a_limit() -> None:
    first = await activated("tool_b", limit=1)
    outcome = await activated("tool_c", limit=1, call=a_call(values=first.values))
    assert outcome == ToolResult(content="CONFLICT: 1 tools are active, which is the limit: use those", failed=True)


async def test_an_unknown_tool_cannot_be_activated() -> None:
    outcome = await activated("tol_b")
    assert outcome.failed
    assert outcome.content.startswith("NOT_FOUND: there is no tool `tol_b`: did you mean `tool_b`")


async def test_a_search_is_limited_and_marks_visible_tools() -> None:
    found = (await searched("tool"))["tools"]
    assert len(found) == MAX_FOUND_TOOLS
    assert found[0] == {"name": "tool_a", "description": "tool_a at it", "active": True}
    assert found[1]["active"] is False


async def test_a_search_without_results_suggests_other_words() -> None:
    assert await searched("zzz") == "none of 16 tools matches: try other words"
