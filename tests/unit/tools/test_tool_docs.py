"""The tool reference and guide agree with the code."""

import re
from typing import Any, Final

import pytest

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS
from holdfast.domain.plan import MAX_OPEN_ITEMS, MAX_SUBTASKS, MAX_TODO_ITEMS, MAX_TODO_TEXT_CHARS
from holdfast.domain.tool import DEFAULT_OUTPUT_LIMIT_CHARS, DEFAULT_TOOL_TIMEOUT_SECONDS, ToolSpec
from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.builtin.waiting import MAX_INTERRUPT_MESSAGE_CHARS, MAX_OPTIONS, MAX_SLEEP_SECONDS
from holdfast.tools.child_runs import MAX_CHILD_INPUT_CHARS
from holdfast.tools.exposure import CORE_TOOLS, DEFAULT_VISIBLE_TOOLS
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import ToolResult
from tests.architecture.markdown import python_blocks
from tests.architecture.project import ROOT
from tests.support.calls import a_call

GUIDE: Final = ROOT / "docs" / "guides" / "tools.md"
REFERENCE: Final = ROOT / "docs" / "reference" / "tools.md"


@pytest.mark.parametrize("spec", BUILTIN_SPECS, ids=lambda spec: spec.name)
def test_every_built_in_is_in_the_reference_with_its_parameters(spec: ToolSpec) -> None:
    required = spec.parameters.get("required", [])
    takes = " ".join(f"`{name}`" if name in required else f"`{name}?`" for name in spec.parameters["properties"])
    kind = "read-only" if spec.read_only else str(spec.kind)
    row = f"| `{spec.name}` | {takes or 'nothing'} | {kind} | {spec.description} |"
    assert row in REFERENCE.read_text().splitlines()


def test_nothing_else_is_in_the_reference() -> None:
    table, answers, core = REFERENCE.read_text().split("## ")
    names = [spec.name for spec in BUILTIN_SPECS]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == names
    firsts = [line.split("|")[1] for line in answers.splitlines() if line.startswith("| `")]
    assert [name for first in firsts for name in re.findall(r"`(\w+)`", first)] == names
    assert set(re.findall(r"`(\w+)`", core)) == CORE_TOOLS


async def test_the_tool_in_the_guide_works() -> None:
    (block,) = python_blocks(GUIDE)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(block.code, str(GUIDE), "exec"), names)
    tool = with_standard_middleware(names["WORD_COUNT"])
    assert tool.spec.description == "Count the words of a text."
    assert await tool.run(a_call(), {"text": "a b a", "unique": True}) == ToolResult(content={"words": 2})
    assert (await tool.run(a_call(), {})).failed


@pytest.mark.parametrize(
    "row",
    [
        f"| output that a model reads | `output_limit`: {DEFAULT_OUTPUT_LIMIT_CHARS:,} characters |",
        f"| output that is kept | {MAX_ARTIFACT_CHARS:,} characters; of a longer one the beginning |",
        f"| duration of a call | `timeout`: {DEFAULT_TOOL_TIMEOUT_SECONDS:g} seconds; waiting does not count |",
        f"| tools that are shown at once | {DEFAULT_VISIBLE_TOOLS}, then the core and at most "
        f"{DEFAULT_VISIBLE_TOOLS} active ones |",
        f"| `sleep` | {MAX_SLEEP_SECONDS // 86_400} days |",
        f"| a question | {MAX_INTERRUPT_MESSAGE_CHARS:,} characters, {MAX_OPTIONS} options |",
        f"| a todo list | {MAX_TODO_ITEMS} items of {MAX_TODO_TEXT_CHARS:,} characters |",
        f"| open tasks of a plan | {MAX_OPEN_ITEMS}, each with {MAX_SUBTASKS} subtasks |",
        f"| input of a child | {MAX_CHILD_INPUT_CHARS:,} characters |",
    ],
)
def test_the_limits_in_the_guide_are_those_of_the_code(row: str) -> None:
    assert row in GUIDE.read_text().splitlines()
