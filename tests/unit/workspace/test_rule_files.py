"""Rules in the files of a workspace, and the file that "always allow" writes."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Conflict, Invalid, Unavailable
from holdfast.workspace.agents import FolderAgents
from holdfast.workspace.folder import Workspace
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
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "agents" / "bot").mkdir(parents=True)
    (tmp_path / "agents" / "bot" / "AGENT.md").write_text("Help.")
    (tmp_path / "agents" / "bot" / "agent.json").write_text('{"model": "openai:gpt-5"}')
    return Workspace(tmp_path)


def test_a_rule_that_can_never_match_is_told_with_file_and_line(place: Workspace) -> None:
    (place.agents / "bot" / "agent.json").write_text(AGENT)
    with pytest.raises(Invalid) as refused:
        FolderAgents(place).get("bot")
    assert refused.value.message == (
        "agents/bot/agent.json: line 5: permissions.deny[1]: there is no tool `bsh`: did you mean `bash`?"
    )


def test_so_is_one_in_the_settings(place: Workspace) -> None:
    place.settings.write_text('{\n  "permissions": {\n    "allow": ["sleep(x)"]\n  }\n}')
    with pytest.raises(Invalid, match=r"^settings.json: line 3: permissions.allow\[0\]: rules of `sleep` have nothing"):
        FolderSettings(place).get()


def test_a_tool_of_the_process_is_known(place: Workspace) -> None:
    (place.agents / "bot" / "agent.json").write_text(AGENT.replace("bsh(x)", "pay"))
    agents = FolderAgents(place, tool_names={"bash", "pay"})
    assert agents.get("bot").permissions.deny == ["bash(rm *)", "pay"]


def test_what_is_granted_is_written_and_used_at_once(place: Workspace) -> None:
    agents = FolderAgents(place)
    assert agents.get("bot").granted == []
    agents.grant("bot", ["bash(git *)"])
    agents.grant("bot", ["bash(git *)", "bash(ls)"])
    assert agents.get("bot").granted == ["bash(git *)", "bash(ls)"]
    assert [agent.granted for agent in agents.all()] == [["bash(git *)", "bash(ls)"]]
    assert FolderAgents(place).get("bot").granted == ["bash(git *)", "bash(ls)"]
    assert json.loads(place.permissions.read_text()) == {"allow": {"bot": ["bash(git *)", "bash(ls)"]}}
    assert sorted(os.listdir(place.path)) == ["agents", "permissions.json"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ('{"deny": {}}', "line 1: deny: unknown key, known are `\\$schema`, `allow`"),
        ('{"allow":\n{"bot": ["bsh"]}}', r"line 2: allow.bot\[0\]: there is no tool `bsh`"),
    ],
)
def test_a_file_in_error_grants_nothing_and_is_not_written_over(place: Workspace, text: str, reason: str) -> None:
    place.permissions.write_text(text)
    agents = FolderAgents(place)
    assert agents.get("bot").granted == []
    with pytest.raises(Conflict, match=f"permissions.json: {reason}"):
        agents.grant("bot", ["bash(ls)"])
    assert place.permissions.read_text() == text


def test_what_people_wrote_into_it_stays(place: Workspace) -> None:
    place.permissions.write_text('{"$schema": "here", "allow": {"other": ["sleep"]}}')
    FolderAgents(place).grant("bot", ["bash(ls)"])
    written = json.loads(place.permissions.read_text())
    assert written == {"$schema": "here", "allow": {"other": ["sleep"], "bot": ["bash(ls)"]}}


def test_a_file_that_cannot_be_written_is_said_so(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    agents = FolderAgents(place)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(Unavailable, match="cannot write `permissions.json`: No space left on device"):
        agents.grant("bot", ["bash(ls)"])
    assert sorted(os.listdir(place.path)) == ["agents"]


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[str | int], int]:
    """Make a JSON text, a path in it, and the line of what is there."""
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
def test_every_place_in_a_text_has_its_line(document: tuple[str, list[str | int], int]) -> None:
    text, steps, line = document
    json.loads(text)
    assert line_of(text, steps) == line
