"""`holdfast ask`, `run`, `thread`, `agent` and `approvals` against a real server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.workspace.server_address import read_address
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("work")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"))
    workspace.agent(calling(call("ask_user", question="which?")), say("so be it"), name="asker", tools=["ask_user"])
    workspace.agent({"error": {"code": "MODEL_REFUSED", "message": "no way"}}, name="failing")
    with run_server(folder, "--quiet") as up:
        yield up


def test_ask_prints_the_answer_and_nothing_else(server: Server) -> None:
    asked, refused, unknown, empty = run_all(
        [
            ["ask", "bot", "hello", "--url", server.url],
            ["ask", "failing", "hello", "--url", server.url],
            ["ask", "nobody", "hello", "--url", server.url],
            ["ask", "bot", " ", "--url", server.url],
        ]
    )
    assert asked == (0, "you said hello\n", "")
    assert (refused.code, refused.out, "no way" in refused.err) == (1, "", True)
    assert (unknown.code, unknown.out, "[NOT_FOUND]" in unknown.err) == (1, "", True)
    assert (empty.code, empty.out) == (2, "")


def test_ask_reads_stdin(server: Server) -> None:
    command = [*HOLDFAST, "ask", "bot", "--url", server.url]
    done = subprocess.run(command, input="from a pipe", capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "you said from a pipe\n", "")


def test_a_run_that_waits_is_answered_with_the_printed_command(server: Server) -> None:
    (asked, listed) = run_all(
        [["ask", "asker", "go", "--url", server.url], ["approvals", "--url", server.url, "--json"]]
    )
    assert (asked.code, asked.out) == (5, "")
    (question,) = json.loads(listed.out)
    answer = ["run", "respond", question["root_run_id"], "red", "--interrupt", question["id"], "--url", server.url]
    printed = f"→ holdfast {' '.join(answer[:3])} --url {server.url} --interrupt {question['id']} 'YOUR ANSWER'"
    assert printed in asked.err
    answered, nothing = run_all([answer, ["approvals", "--url", server.url]])
    assert answered.code == 0
    assert nothing == (0, "", "nothing waits for a person\n")


def test_runs_are_started_listed_shown_retried_and_cancelled(server: Server) -> None:
    url = ["--url", server.url]
    (started,) = run_all([["run", "start", "asker", "go", "--tag", "mine", *url]])
    run = started.out.strip()
    shown, listed, lines, cancelled, again, retried, steps, events = run_all(
        [
            ["run", "show", run, *url],
            ["run", "list", "--tag", "mine", "--json", *url],
            ["run", "list", "--tag", "mine", *url],
            ["run", "cancel", run, *url],
            ["run", "cancel", run, *url],
            ["run", "retry", run, "--json", *url],
            ["run", "steps", run, "-o", "jsonl", *url],
            ["run", "events", run, *url],
        ]
    )
    assert shown.code == 0 and shown.out.split()[:2] == ["id", run]
    assert [each["id"] for each in json.loads(listed.out)] == [run]
    assert lines.out.startswith("RUN") and run in lines.out
    assert (cancelled.code, cancelled.err) == (0, f"run {run} cancelled\n")
    assert (again.code, "[ILLEGAL_MOVE]" in again.err) == (1, True)
    assert json.loads(retried.out)["base_run_id"] == run
    assert all(json.loads(line)["number"] >= 0 for line in steps.out.splitlines())
    assert "RUN_STARTED" in events.out


def test_threads_and_agents_are_listed_and_read(server: Server) -> None:
    url = ["--url", server.url]
    (started,) = run_all([["run", "start", "bot", "hello", "--title", "a talk", "--json", *url]])
    thread = json.loads(started.out)["thread_id"]
    listed, none, messages, tree, export, archived, deleted, agents, agent, missing = run_all(
        [
            ["thread", "list", "--title", "a talk", *url],
            ["thread", "list", "--title", "no such title", *url],
            ["thread", "messages", thread, *url],
            ["thread", "tree", thread, "--json", *url],
            ["thread", "export", thread, *url],
            ["thread", "archive", thread, *url],
            ["thread", "delete", "thr_none", *url],
            ["agent", "list", "-o", "jsonl", *url],
            ["agent", "show", "bot", *url],
            ["agent", "show", "", *url],
        ]
    )
    assert thread in listed.out and "a talk" in listed.out
    assert none == (0, "", "no threads\n")
    assert "hello" in messages.out and len(json.loads(tree.out)) == 1 and "# a talk" in export.out
    assert (archived.err, deleted.code) == (f"archived {thread}\n", 1)
    assert [json.loads(line)["name"] for line in agents.out.splitlines()] == ["asker", "bot", "failing"]
    assert "scripted:script.json" in agent.out
    assert (missing.code, missing.out) == (2, "")


def test_the_server_of_the_workspace_is_found_and_a_stale_address_is_not_used(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(say("found"))
    with run_server(tmp_path, "--quiet") as up:
        inside = workspace.folder / "agents" / "bot"
        done = subprocess.run([*HOLDFAST, "ask", "bot", "x"], cwd=inside, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "found\n", "")
        assert (address := read_address(workspace.folder)) is not None and address.url == up.url
        up.kill()
        assert (workspace.folder / ".holdfast" / "server.json").exists()
        assert read_address(workspace.folder) is None
    with run_server(tmp_path, "--quiet") as up:
        up.stop()
        assert not (workspace.folder / ".holdfast" / "server.json").exists()


@pytest.mark.parametrize("content", ['{"url": "http://example.org", "pid": 1}', '{"url": "x", "pid": 1}', "{", "[]"])
def test_an_address_of_another_machine_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / ".holdfast" / "server.json").write_text(content)
    assert read_address(tmp_path) is None


def test_profiles_name_servers(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "holdfast").mkdir()
    profiles = {"default": "here", "profiles": {"here": {"url": server.url}}}
    (tmp_path / "holdfast" / "profiles.json").write_text(json.dumps(profiles))
    named, by_default, unknown, both = run_all(
        [
            ["ask", "bot", "x", "--profile", "here"],
            ["ask", "bot", "x"],
            ["ask", "bot", "x", "--profile", "there"],
            ["ask", "bot", "x", "--profile", "here", "--url", server.url],
        ]
    )
    assert (named.out, by_default.out) == ("you said x\n", "you said x\n")
    assert (unknown.code, "there are `here`" in unknown.err) == (1, True)
    assert both.code == 2
