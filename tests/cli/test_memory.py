"""`holdfast memory …` against a real server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, say


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("memory")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"), memory={})
    with run_server(folder, "--quiet") as up:
        yield up


def test_a_memory_is_added_listed_shown_changed_replaced_and_found(server: Server) -> None:
    url = ["--url", server.url]
    (added,) = run_all([["memory", "add", "The kiln opens at six", "--tag", "kiln", "--standing", *url]])
    assert added.code == 0, added.err
    kept = added.out.strip()
    listed, shown, edited, nothing = run_all(
        [
            ["memory", "list", "--tag", "kiln", "--json", *url],
            ["memory", "show", kept, *url],
            ["memory", "edit", kept, "--importance", "0.9", "--json", *url],
            ["memory", "edit", kept, *url],
        ]
    )
    assert [each["text"] for each in json.loads(listed.out)] == ["The kiln opens at six"]
    assert "The kiln opens at six" in shown.out and "procedural" not in shown.out
    assert (json.loads(edited.out)["version"], nothing.code) == (2, 2)
    (replaced,) = run_all([["memory", "supersede", kept, "The kiln opens at seven", "--json", *url]])
    found, status, rebuilt = run_all(
        [
            ["memory", "search", "when does the kiln open", "--target", "abstract", "--explain", *url],
            ["memory", "status", "--json", *url],
            ["memory", "reindex", *url],
        ]
    )
    assert json.loads(replaced.out)["supersedes"] == [kept]
    assert found.code == 0, found.err
    assert "The kiln opens at seven" in found.out and "lexical=" in found.out and "opens at six" not in found.out
    assert json.loads(status.out)["items"] >= 0 and rebuilt.code == 0
    (unknown,) = run_all([["memory", "show", "mem_none", *url]])
    assert (unknown.code, "[NOT_FOUND]" in unknown.err) == (1, True)


def test_why_shows_what_was_recalled_with_the_parts_of_each_score(server: Server) -> None:
    url = ["--url", server.url]
    run_all([["ask", "bot", "The boat is called Juniper", *url]])
    (started,) = run_all([["run", "start", "bot", "What is the name of the boat?", *url]])
    run = started.out.strip()
    followed, why, none = run_all(
        [["run", "follow", run, *url], ["memory", "why", run, "--json", *url], ["memory", "why", "run_none", *url]]
    )
    assert followed.code == 0, followed.err
    items = json.loads(why.out)
    assert any(item["kind"] == "message" and item["score"] > 0 and item["parts"] for item in items)
    assert none.code == 1


def test_an_export_is_imported_unchanged_and_forgetting_asks_first(server: Server, tmp_path: Path) -> None:
    url, file = ["--url", server.url], tmp_path / "memories.jsonl"
    (added,) = run_all([["memory", "add", "The harvest was in September", *url]])
    exported, imported, counted = run_all(
        [
            ["memory", "export", "--to", str(file), *url],
            ["memory", "import", str(file), "--json", *url],
            ["memory", "forget", added.out.strip(), "--dry-run", "--json", *url],
        ]
    )
    assert exported.code == 0 and len(file.read_text().splitlines()) >= 1
    assert json.loads(imported.out)["added"] == 0
    assert (json.loads(counted.out)["memories"], json.loads(counted.out)["dry_run"]) == (1, True)
    command = [*HOLDFAST, "memory", "forget", added.out.strip(), *url]
    refused = subprocess.run(command, input="n\n", capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert refused.returncode == 1
    forgotten, again, empty = run_all(
        [
            ["memory", "forget", added.out.strip(), "--yes", *url],
            ["memory", "show", added.out.strip(), *url],
            ["memory", "forget", "--yes", *url],
        ]
    )
    assert (forgotten.code, again.code, empty.code) == (0, 1, 1)
