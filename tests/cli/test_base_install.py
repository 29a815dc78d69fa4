"""Holdfast without its extras: the rest works, and an error names the command that installs what is missing."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.packages import EXTRA_MODULES, has_extra
from tests.api.server_process import TIMEOUT_SECONDS
from tests.architecture.project import ROOT

PROGRAM: Final = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[2].split(",")))  # as if none were installed

import asyncio, json
from pathlib import Path
import holdfast
from holdfast.bootstrap.doctor.checks import diagnose
from holdfast.cli.serve import event_loop_factory
from holdfast.domain.errors import HoldfastError
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.web.fetch import MarkdownConverter
from holdfast.workspace.folder import Workspace

def error(call):
    try:
        return str(asyncio.run(call))
    except HoldfastError as exc:
        return exc.message

async def use(folder):
    async with holdfast.open(folder) as hf:
        answer = await hf.ask("hello", "Hi, I am Ada.")
        found = json.loads(await hf.request("GET", "/api/threads/search", query={"q": "Ada"}))
        models = json.loads(await hf.request("GET", "/models"))
        try:
            refused = await hf.ask("claude", "hi")
        except HoldfastError as exc:
            refused = exc.message
    findings = [[each.about, each.verdict, each.message, each.remedy] for each in await diagnose(folder)]
    return {"answer": answer, "found": found, "models": models, "refused": refused, "findings": findings}

folder = Workspace.create(Path(sys.argv[1])).path
for name, settings in {
    "claude": {"model": "anthropic:claude-sonnet-4-5"},
    "reader": {"model": "scripted:s.json", "tools": ["web_fetch"], "memory": {}},
}.items():
    (folder / "agents" / name).mkdir()
    (folder / "agents" / name / "agent.json").write_text(json.dumps(settings))
    (folder / "agents" / name / "AGENT.md").write_text("You help.")
with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
    result = runner.run(use(folder))
result["page"] = error(MarkdownConverter(SupervisedProcesses()).markdown("<p>hi", base="https://example.com"))
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    hidden = {module for modules in EXTRA_MODULES.values() for module in modules}
    folder = tmp_path_factory.mktemp("base") / "workspace"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, ",".join(hidden)],
        env={"ANTHROPIC_API_KEY": "sk-test", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_table_of_extras_is_that_of_the_package_and_the_suite_has_all_of_them() -> None:
    extras = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRA_MODULES) == set(extras)
    assert [extra for extra in extras if not has_extra(extra)] == []


def test_an_agent_answers_and_what_was_said_is_found_by_its_words(base: dict[str, Any]) -> None:
    assert "Ada" in base["answer"]
    assert [each["thread"]["title"] for each in base["found"]["results"]] == ["Hi, I am Ada."]
    assert "English (run `pip install 'holdfast-agents[memory]'`)" in base["found"]["notice"]


def test_a_model_without_its_package_is_refused_with_the_command(base: dict[str, Any]) -> None:
    assert "run `pip install 'holdfast-agents[anthropic]'`" in base["refused"]
    names = {each["name"]: each["has_key"] for each in base["models"]["providers"]}
    assert (names["anthropic"], names["openai"], base["models"]["models"]) == (True, False, [])


def test_a_page_that_cannot_be_converted_is_refused_with_the_command(base: dict[str, Any]) -> None:
    assert "read it `raw`" in base["page"] and "pip install 'holdfast-agents[web]'" in base["page"]


def test_doctor_names_the_command_for_everything_that_an_agent_lacks(base: dict[str, Any]) -> None:
    extras = [each for each in base["findings"] if each[0] == "extras"]
    assert extras[0][2].startswith("installed: none; not installed: anthropic, memory, nats")
    assert [each[3] for each in extras[1:]] == [
        f"run `pip install 'holdfast-agents[{extra}]'`" for extra in ("web", "memory")
    ]
    (failed,) = [each for each in base["findings"] if each[1] == "failed"]
    assert failed[3] == "run `pip install 'holdfast-agents[anthropic]'`, then restart the server"
