"""`holdfast init`: its files work, at once or after the placeholders are filled in."""

import json
import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.errors import Invalid
from holdfast.domain.run import Mode
from holdfast.domain.step import StepKind
from holdfast.testing.openai_server import StubOpenAIServer, StubReply
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace

AGENTS: Final = ["analyst", "assistant", "coder", "hello", "monitor", "researcher", "writer"]


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def init_workspace(folder: Path, *options: str) -> AgentWorkspace:
    """Return a workspace created by `holdfast init`."""
    workspace = AgentWorkspace(folder, folder / ".holdfast" / "holdfast.db")
    (result,) = run_all([["init", str(folder), *options]])
    assert (result.code, result.out) == (0, "")
    assert f"holdfast serve --workspace {folder}" in result.err
    return workspace


async def test_a_new_workspace_has_no_broken_agent_and_one_answers_without_a_key(tmp_path: Path) -> None:
    async with init_workspace(tmp_path / "new").open() as runtime:
        assert [agent.name for agent in runtime.holdfast.agents.all()] == AGENTS
        assert runtime.holdfast.agents.broken() == []
        run = await runtime.run_to_end("good morning", agent="hello")
        assert str(run.output).startswith("Hello! You said: good morning.")


FILES: Final = {
    "sales.csv": "region,total\nnorth,3\n",
    "app.py": "def pay():\n    pass  # TODO: refuse a negative amount\n",
    "server.log": "10:00 started\n10:01 ERROR disk full\n",
}
SHOWN: Final = {
    "analyst": "sales.csv",
    "coder": "refuse a negative amount",
    "monitor": "disk full",
    "writer": "artifact_id",
}


async def test_every_agent_of_a_new_workspace_works_without_a_key(tmp_path: Path) -> None:
    new = init_workspace(tmp_path / "new")
    for name, text in FILES.items():
        new.write(f"files/{name}", text)
    async with new.open() as runtime:
        for agent in (each for each in AGENTS if each != "assistant"):
            run = await runtime.run_to_end(f"a request for {agent}", agent=agent)
            assert (run.status, run.error) == ("completed", None)
            steps = [
                step for step in await runtime.store.steps.of_run(run.space_id, run.id) if step.kind == StepKind.TOOL
            ]
            assert [step.state for step in steps] == ["done"] * len(steps)
            assert bool(steps) == (agent != "hello")
            assert "{$" not in str(run.output) and SHOWN.get(agent, "") in str(run.output)


async def test_every_agent_of_a_new_workspace_has_its_tools_and_prompt_with_a_real_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    new = init_workspace(folder := tmp_path / "new", "--model", "mine:stand-in")
    async with StubOpenAIServer(*[StubReply(text="Done.")] * len(AGENTS)) as server:
        edit(folder / "settings.json", "https://api.openai.com/v1", server.url)
        async with new.open() as runtime:
            for agent in (each for each in AGENTS if each != "hello"):
                run = await runtime.run_to_end("a request", agent=agent, mode=Mode.TASK)
                assert (run.status, run.output) == ("completed", "Done.")
                asked = server.requests[-1]
                declared = set(json.loads((folder / "agents" / agent / "agent.json").read_text())["tools"])
                assert {tool["function"]["name"] for tool in asked["tools"]} == declared - {"web_search"}
                assert (folder / "agents" / agent / "AGENT.md").read_text().strip() in str(
                    asked["messages"][0]["content"]
                )
                assert "Know what done means." in str(asked["messages"][0]["content"])


@pytest.mark.parametrize("model", ["gpt-5", "openai:", "scripted:script.json", ""])
def test_a_model_that_cannot_be_one_is_refused_before_anything_is_written(tmp_path: Path, model: str) -> None:
    (result,) = run_all([["init", str(tmp_path / "new"), "--model", model]])
    assert (result.code, result.out, "`provider:name`" in result.err) == (2, "", True)
    assert not (tmp_path / "new").exists()


async def test_the_agent_for_a_real_model_names_the_key_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with init_workspace(tmp_path / "new").open() as runtime:
        with pytest.raises(Invalid, match="`OPENAI_API_KEY`: set it"):
            await runtime.start("hi", agent="assistant")


async def test_the_agent_for_a_real_model_works_once_url_model_and_key_are_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = init_workspace(tmp_path / "new")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    async with StubOpenAIServer(StubReply(text="I can think.", chunks=3)) as server:
        edit(new.folder / "settings.json", "https://api.openai.com/v1", server.url)
        edit(new.folder / "agents/assistant/agent.json", "mine:gpt-5", "mine:stand-in")
        async with new.open() as runtime:
            run = await runtime.run_to_end("hi", agent="assistant")
    assert (run.status, run.output) == ("completed", "I can think.")
    assert (server.keys, server.requests[0]["model"]) == (["a-key"], "stand-in")


async def test_the_agent_for_a_real_model_works_with_a_local_server_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    new = init_workspace(tmp_path / "new")
    comments = (new.folder / "agents/assistant/README.md").read_text()
    (line,) = [line.strip() for line in comments.splitlines() if line.strip().startswith('"mine":')]
    settings: dict[str, Any] = json.loads((new.folder / "settings.json").read_text())
    settings["providers"] = json.loads(f"{{{line}}}")
    async with StubOpenAIServer(StubReply(text="No key, no cloud.")) as server:
        assert settings["providers"]["mine"]["base_url"].startswith("http://127.0.0.1:")
        settings["providers"]["mine"]["base_url"] = server.url
        (new.folder / "settings.json").write_text(json.dumps(settings))
        async with new.open() as runtime:
            run = await runtime.run_to_end("hi", agent="assistant")
    assert (run.status, run.output) == ("completed", "No key, no cloud.")


def test_the_printed_command_is_quoted_for_any_folder_name(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    (result,) = run_all([["init", str(folder)]])
    (line,) = [line for line in result.err.splitlines() if line.startswith("serve it:")]
    assert shlex.split(line)[2:] == ["holdfast", "serve", "--workspace", str(folder)]


def test_an_empty_folder_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (result,) = run_all([["init", ""]])
    assert (result.code, result.out, "the folder name is empty" in result.err) == (2, "", True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_a_workspace_is_refused(tmp_path: Path) -> None:
    first, second = run_all([["init", str(tmp_path), "--json"]] * 2)
    assert (first.code, json.loads(first.out)) == (0, {"workspace": str(tmp_path)})
    assert (second.code, second.out) == (1, "")
    assert "CONFLICT" in second.err
