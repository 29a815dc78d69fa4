"""Rules in the files of a workspace."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
from holdfast.workspace.grants import FolderGrants
from holdfast.workspace.json_files import line_of
from holdfast.workspace.settings import FolderSettings

AGENT = """\
{
  "model": "openai:gpt-5",
  "permissions": {
    "deny": ["bash(rm *)",
             "bsh(x)"]
  }
}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "agents" / "bot").mkdir(parents=True)
    (tmp_path / "agents" / "bot" / "AGENT.md").write_text("Help.")
    (tmp_path / "agents" / "bot" / "agent.json").write_text('{"model": "openai:gpt-5"}')
    return Workspace(tmp_path)


def test_a_rule_that_can_never_match_is_reported_with_file_and_line(workspace: Workspace) -> None:
    (workspace.agents / "bot" / "agent.json").write_text(AGENT)
    with pytest.raises(Invalid) as refused:
        FolderAgents(workspace).get("bot")
    assert refused.value.message == (
        "agents/bot/agent.json: line 5: permissions.deny[1]: there is no tool `bsh`: did you mean `bash`?"
    )


def test_a_rule_in_the_settings_that_can_never_match_is_reported(workspace: Workspace) -> None:
    workspace.settings.write_text('{\n  "permissions": {\n    "allow": ["sleep(x)"]\n  }\n}')
    with pytest.raises(Invalid, match=r"^settings.json: line 3: permissions.allow\[0\]: rules of `sleep` take nothing"):
        FolderSettings(workspace).get()


def test_a_rule_may_name_a_tool_of_the_process(workspace: Workspace) -> None:
    (workspace.agents / "bot" / "agent.json").write_text(AGENT.replace("bsh(x)", "pay"))
    agents = FolderAgents(workspace, tool_names={"bash", "pay"})
    assert agents.get("bot").permissions.deny == ["bash(rm *)", "pay"]


def test_rules_of_the_operator_are_read_for_each_agent(workspace: Workspace) -> None:
    workspace.permissions.write_text('{"$schema": "here", "allow": {"other": ["sleep"], "bot": ["bash(git *)"]}}')
    agents = FolderAgents(workspace)
    assert agents.get("bot").granted == ["bash(git *)"]
    assert [agent.granted for agent in agents.all()] == [["bash(git *)"]]


@pytest.mark.parametrize("text", ["{", '{"deny": {}}', '{"allow": {"bot": ["bsh"]}}'])
def test_an_invalid_file_allows_nothing(workspace: Workspace, text: str) -> None:
    workspace.permissions.write_text(text)
    assert FolderAgents(workspace).get("bot").granted == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"deny": {}}', "line 1: deny: unknown key, known are `\\$schema`, `allow`"),
        ('{"allow":\n{"bot": ["bsh"]}}', r"line 2: allow.bot\[0\]: there is no tool `bsh`"),
    ],
)
def test_an_invalid_file_is_reported(workspace: Workspace, text: str, reason: str) -> None:
    workspace.permissions.write_text(text)
    error = FolderGrants(workspace).broken()
    assert error is not None and re.match(f"permissions.json: {reason}", error.message), error


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[str | int], int]:
    """Draw a JSON text, a path in it, and the line of that path."""
    inner = "'here'"
    steps: list[str | int] = []
    for _ in range(draw(st.integers(0, 4))):
        before = draw(st.sampled_from(["", "1, ", "{}, ", '"a,]}\\"", ', "[[], {}],\n"]))
        if draw(st.booleans()):
            inner, steps = f"[{before}{draw(st.sampled_from(['', chr(10)]))}{inner}]", [1 if before else 0, *steps]
        else:
            inner, steps = f'{{"x": [],\n"k" :{draw(st.sampled_from(["", chr(10)]))}{inner}\n}}', ["k", *steps]
    return inner.replace("'here'", '"here"'), steps, inner[: inner.index("'here'")].count("\n") + 1


@given(document=documents())
def test_every_path_in_a_text_has_its_line(document: tuple[str, list[str | int], int]) -> None:
    text, steps, line = document
    json.loads(text)
    assert line_of(text, steps) == line
