"""The guide shows valid files, names every key, and quotes real error messages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.errors import Invalid
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.agents import read_agent
from holdfast.workspace.folder import Workspace
from holdfast.workspace.json_files import decode_json
from holdfast.workspace.schemas import json_schema
from holdfast.workspace.settings import Settings
from tests.unit.workspace.workspace_files import write_agent

GUIDE: Final = (Path(__file__).parents[3] / "docs" / "guides" / "agents.md").read_text(encoding="utf-8")
EXAMPLE: Final = re.compile(r"^```json (?P<file>[\w.]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ERRORS: Final = re.compile(r"^```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS: Final[dict[str, Any]] = {"agent.json": AgentFile, "settings.json": Settings}

TOLD_ABOVE: Final = ("limits.", "permissions.", "mcp_servers.")
"""Keys that `settings.json` shares with `agent.json`."""

WRONG: Final = [
    ("bot", "AGENT.md", None),
    ("bot", "AGENT.md", " \n"),
    ("bot", "agent.json", '{\n  "model": "a:b"\n  "tools": []\n}'),
    ("bot", "agent.json", "{}"),
    ("bot", "agent.json", '{\n  "model": "gpt-5"\n}'),
    ("bot", "agent.json", '{\n  "model": "a:b",\n  "limits": {\n    "max_iteration": 1}}'),
    ("bot", "agent.json", '{\n  "model": "a:b",\n  "limits": {\n    "max_iterations": "20"}}'),
    ("bot", "agent.json", '{\n  "model": "a:b",\n  "unknown_outcome": "retry"}'),
    ("bot", "agent.json", '{\n  "model": "a:b",\n  "permissions": {\n    "deny": ["bsh"]}}'),
    ("bot", "agent.json", '{"model": "a:b", "model": "a:c"}'),
    ("Bot", "AGENT.md", "Help people."),
]


def test_the_examples_are_valid() -> None:
    examples = [(example["file"], example["text"]) for example in EXAMPLE.finditer(GUIDE)]
    assert {file for file, _ in examples} == set(KINDS)
    for file, text in examples:
        decode_json(text, KINDS[file], file=file)


@pytest.mark.parametrize("file", KINDS)
def test_every_key_is_in_the_table_of_its_file(file: str) -> None:
    _, _, table = GUIDE.partition(f"## Every key of `{file}`")
    written = re.findall(r"^\| `([^`]+)` \|", table.partition("\n## ")[0], re.MULTILINE)
    schema = json_schema(file.replace(".json", ".schema.json"))
    keys = list(_keys(schema["$defs"], schema))
    told_once = {key for key in keys if file == "settings.json" and key.startswith(TOLD_ABOVE)}
    assert written == [key for key in keys if key not in told_once]


def test_the_quoted_errors_are_the_real_messages(workspace: Workspace) -> None:
    quoted = ERRORS.search(GUIDE)
    assert quoted is not None
    assert quoted["text"].splitlines() == [_message(workspace, *wrong) for wrong in WRONG]


def _message(workspace: Workspace, name: str, file: str, text: str | None) -> str:
    path = write_agent(workspace, name) / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(Invalid) as refused:
        read_agent(workspace, name)
    return refused.value.message


def _keys(definitions: dict[str, Any], value: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the way to every key, with `*` for the names in a mapping."""
    resolved = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
    for key, inner in resolved.get("properties", {}).items():
        yield f"{path}{key}"
        yield from _keys(definitions, inner, f"{path}{key}.")
    others = resolved.get("additionalProperties")
    if isinstance(others, dict) and others:
        yield from _keys(definitions, others, f"{path}*.")
