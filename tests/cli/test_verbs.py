"""The verbs for everything else: tasks, artifacts, files, spaces, notifications, settings, agents, MCP, logs, top."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from holdfast import SyncClient
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verbs")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("you said {$last_user}"))
    workspace.script(say("you said {$last_user}"), after_last="repeat")
    workspace.agent(
        calling(call("ask_user", question="which?")), say("so {$last_tool}"), name="asker", tools=["ask_user"]
    )
    workspace.agent(
        calling(call("agent_spawn", agent="bot", input="child")), say("done"), name="lead", tools=["agent_spawn"]
    )
    with run_server(folder, "--quiet") as up:
        yield up


def test_a_task_is_created_answered_cancelled_and_deleted(server: Server) -> None:
    url = ["--url", server.url]
    created, done, unknown = run_all(
        [
            ["task", "create", "asker", "go", *url],
            ["task", "create", "bot", "go", "--json", *url],
            ["task", "show", "task_none", *url],
        ]
    )
    task, other = created.out.strip(), json.loads(done.out)["taskId"]
    assert (unknown.code, "NOT_FOUND" in unknown.err) == (1, True)
    with SyncClient(server.url) as hf:
        for each in (task, other):
            hf.run(each.replace("task_", "run_", 1)).wait()
    shown, listed, none, events, answered = run_all(
        [
            ["task", "show", task, *url],
            ["task", "list", "--agent", "bot", *url],
            ["task", "list", "--tag", "none", *url],
            ["task", "events", other, "-o", "jsonl", *url],
            ["task", "respond", task, "red", *url],
        ]
    )
    assert "agent_name" in shown.out and task in shown.out
    assert (
        shown.err.startswith("question: ") and f"→ holdfast run respond {task.replace('task_', 'run_', 1)}" in shown.err
    )
    assert other in listed.out and task not in listed.out
    assert none == (0, "", "no tasks\n")
    assert [json.loads(line)["type"] for line in events.out.splitlines()][0] == "status.change"
    assert answered.code == 0
    with SyncClient(server.url) as hf:
        hf.run(task.replace("task_", "run_", 1)).wait()
    deleted, gone = run_all([["task", "delete", other, *url], ["task", "show", other, *url]])
    assert (deleted.code, deleted.err, gone.code) == (0, f"deleted {other}\n", 1)


def test_threads_are_shown_searched_and_branched(server: Server) -> None:
    url = ["--url", server.url]
    with SyncClient(server.url) as hf:
        run = hf.start("bot", "hello", title="about boats").wait()
    shown, found, forked, empty, unarchived, bad = run_all(
        [
            ["thread", "show", run.thread_id, *url],
            ["thread", "search", "boat", *url],
            ["thread", "fork", run.thread_id, "again", "--after", "0", "--json", *url],
            ["thread", "fork", run.thread_id, " ", *url],
            ["thread", "unarchive", run.thread_id, *url],
            ["thread", "fork", "thr_none", "x", *url],
        ]
    )
    assert "about boats" in shown.out and run.id in shown.out
    assert (found.code, found.out == "" or "SCORE" in found.out) == (0, True)  # the index may be a moment behind
    fork = json.loads(forked.out)
    assert (fork["base_run_id"], fork["base_sequence"]) == (run.id, 0)
    assert (empty.code, bad.code) == (2, 1)
    assert unarchived.code in (0, 1)
    (tree,) = run_all([["thread", "tree", run.thread_id, *url]])
    assert tree.out.splitlines()[1].startswith(f"└─ {fork['id']}") and "after message 0" in tree.out


def test_a_run_shows_its_context_and_its_children(server: Server) -> None:
    url = ["--url", server.url]
    with SyncClient(server.url) as hf:
        run = hf.start("lead", "go").wait()
    context, tree, as_json = run_all(
        [["run", "context", run.id, *url], ["run", "tree", run.id, *url], ["run", "tree", run.id, "--json", *url]]
    )
    assert "system" in context.out and "  go" in context.out
    lines = tree.out.splitlines()
    assert lines[0].startswith(run.id) and lines[1].startswith("└─ run_") and "bot" in lines[1]
    assert len(json.loads(as_json.out)) == 2


def test_artifacts_and_files_are_read_and_written(server: Server, tmp_path: Path) -> None:
    url = ["--url", server.url]
    with SyncClient(server.url) as hf:
        run = hf.start("bot", "x").wait()
        artifact = hf.artifacts.create(run.id, type="doc", title="notes", content="v1")
    (tmp_path / "a.txt").write_text("content")
    listed, shown, got, both, uploaded = run_all(
        [
            ["artifact", "list", "--run", run.id, *url],
            ["artifact", "show", artifact.id, *url],
            ["artifact", "get", artifact.id, *url],
            ["artifact", "list", "--run", "a", "--thread", "b", *url],
            ["file", "upload", str(tmp_path / "a.txt"), *url],
        ]
    )
    assert artifact.id in listed.out and "text" in shown.out and got.out == "v1" and both.code == 2
    file = uploaded.out.strip()
    target = str(tmp_path / "b.txt")
    files, meta, written, again, deleted, gone = run_all(
        [
            ["file", "list", *url],
            ["file", "show", file, "--json", *url],
            ["file", "get", file, "--to", target, *url],
            ["file", "get", file, "--to", target, *url],
            ["file", "delete", file, *url],
            ["file", "show", file, *url],
        ]
    )
    assert file in files.out and json.loads(meta.out)["media_type"] == "text/plain"
    assert (written.code, Path(target).read_text()) == (0, "content")
    assert (again.code, "exists already" in again.err) == (1, True)
    assert (deleted.code, gone.code) == (0, 1)


def test_spaces_are_created_renamed_and_deleted(server: Server) -> None:
    url = ["--url", server.url]
    created, twice, renamed, shown, inside, empty, asked, deleted = run_all(
        [
            ["space", "create", "acme", *url],
            ["space", "create", "acme", *url],
            ["space", "rename", "acme", "Acme Ltd", *url],
            ["space", "show", "acme", *url],
            ["run", "list", "--space", "acme", *url],
            ["artifact", "list", "--space", "acme", *url],
            ["space", "delete", "acme", "--yes", *url],
            ["space", "list", "-o", "jsonl", *url],
        ]
    )
    assert (created.code, twice.code, renamed.code) == (0, 1, 0)
    assert "Acme Ltd" in shown.out
    assert (inside.err, empty.err) == ("no runs\n", "no artifacts\n")
    assert asked.code == 0 and "acme" not in deleted.out


def test_notifications_models_and_settings(server: Server) -> None:
    url = ["--url", server.url]
    with SyncClient(server.url) as hf:
        run = hf.start("bot", "x").wait()
        next(each for each in hf.notifications.follow(after=0) if each.run_id == run.id)
    listed, read, unread, models, all_settings, one, missing, changed, refused = run_all(
        [
            ["notification", "list", *url],
            ["notification", "read", *url],
            ["notification", "list", "--unread", *url],
            ["model", "list", "--provider", "nothing", *url],
            ["config", "get", "--json", *url],
            ["config", "get", "workers", *url],
            ["config", "get", "no.such", *url],
            ["config", "set", "limits.max_iterations", "30", *url],
            ["config", "set", "limits.max_iterations", "many", *url],
        ]
    )
    assert run.id in listed.out and read.err == "0 unread\n" and unread.err == "no notifications\n"
    assert models.err == "no such model\n"
    assert json.loads(all_settings.out)["workers"] == int(one.out)
    assert (missing.code, changed.code, refused.code) == (1, 0, 1)


def test_logs_and_top_show_what_happens(server: Server) -> None:
    url = ["--url", server.url]
    with SyncClient(server.url) as hf:
        run = hf.start("asker", "go").wait()
    lines, as_json, top, snapshot = run_all(
        [
            ["logs", "-n", "5", *url],
            ["logs", "-n", "1", "--json", *url],
            ["top", "--once", *url],
            ["top", "--json", *url],
        ]
    )
    assert f"{run.id}  RUN_STARTED" in lines.out and "TEXT_MESSAGE_CONTENT" not in lines.out
    assert json.loads(as_json.out.splitlines()[0])["run_id"] == run.id
    assert run.id in top.out and "waiting" in top.out and re.search(r"\bworkers [1-9]", top.out)
    assert run.id in [each["id"] for each in json.loads(snapshot.out)["runs"]]


def test_top_shows_the_queue_the_workers_and_the_spaces(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(say("x"))
    workspace.configure("bot", pool="nowhere")
    with run_server(tmp_path, "--quiet") as server:
        url = ["--url", server.url]
        with SyncClient(server.url) as hf:
            hf.spaces.create("other")
            hf.start("bot", "[red]hi", priority="high")
            hf.start("bot", "then", priority="low")
        with SyncClient(server.url, space="other") as hf:
            hf.start("bot", "elsewhere")
        shown, as_json = run_all([["top", "--once", *url], ["top", "--json", *url]])
    (worker,) = json.loads(as_json.out)["workers"]
    backlogs = {each["space_id"]: each["by_priority"] for each in json.loads(as_json.out)["spaces"]}
    lines = [line.split() for line in shown.out.splitlines()]
    assert re.search(r"queued 2  pending 0  ready 1 high, 1 low, the oldest for \d+ s$", shown.out, re.MULTILINE)
    assert any(worker["id"] in line and worker["version"] in line for line in lines)
    assert [line[1:5] for line in lines if line[:1] in (["default"], ["other"])] == [[*"2101"], [*"1010"]]
    assert backlogs == {"default": {"high": 1, "normal": 0, "low": 1}, "other": {"high": 0, "normal": 1, "low": 0}}
    assert "[red]hi" in shown.out


@pytest.mark.parametrize("verb", [["logs", "-f"], ["run", "watch"], ["thread", "watch", "THREAD"]])
def test_watching_goes_on_with_new_runs(server: Server, verb: list[str]) -> None:
    with SyncClient(server.url) as hf:
        thread = hf.start("bot", "first").wait().thread_id
        command = [*HOLDFAST, *(thread if word == "THREAD" else word for word in verb), "--url", server.url]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            ended = Event()

            def start_runs() -> None:  # again and again: those before the command has connected are not shown
                with SyncClient(server.url) as other:
                    while not ended.wait(0.3):
                        other.start("bot", "second", thread=thread)

            starting = Thread(target=start_runs)
            starting.start()
            assert process.stdout is not None
            try:
                assert any("second" in line for line in process.stdout)
            finally:
                ended.set()
                starting.join()
                process.send_signal(signal.SIGINT)
                assert process.wait(TIMEOUT_SECONDS) == 0


def test_agents_are_created_and_checked_without_a_server(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "db")
    workspace.agent(say("x"))
    at = ["-w", str(workspace.folder)]
    new, again, bad_name, good, servers, tested = run_all(
        [
            ["agent", "new", "writer", "-m", "scripted:s.json", "--description", "Writes.", *at],
            ["agent", "new", "writer", *at],
            ["agent", "new", "No Name", *at],
            ["agent", "check", *at],
            ["mcp", "list", *at],
            ["mcp", "test", *at],
        ]
    )
    assert (new.code, again.code, bad_name.code, good.code) == (0, 1, 1, 0)
    assert json.loads((workspace.folder / "agents/writer/agent.json").read_text())["description"] == "Writes."
    assert (servers.err, tested.err, tested.code) == ("no MCP servers\n", "no MCP servers\n", 0)
    workspace.configure("bot", mcp_servers={"gone": {"command": "no-such-program", "sandbox": "off"}})
    (workspace.folder / "agents/writer/agent.json").write_text('{"model": 3}')
    bad, one, unknown, servers, failed, missing = run_all(
        [
            ["agent", "check", "--json", *at],
            ["agent", "check", "bot", *at],
            ["agent", "check", "nobody", *at],
            ["mcp", "list", "-o", "jsonl", *at],
            ["mcp", "test", "gone", *at],
            ["mcp", "test", "none", *at],
        ]
    )
    assert bad.code == 1 and [(each["agent"], each["valid"]) for each in json.loads(bad.out)] == [
        ("bot", True),
        ("writer", False),
    ]
    assert (one.code, unknown.code) == (0, 1)
    assert json.loads(servers.out)["declared_in"] == "agents/bot/agent.json"
    assert failed.code == 1 and "no-such-program" in failed.out and "→ " in failed.out
    assert failed.err.endswith("starting gone: this takes at most 60 s\n") and "no-such-program" not in failed.err
    assert missing.code == 1


def test_memories_and_reminders_are_reached_by_their_path(server: Server) -> None:
    url = ["--url", server.url]
    body = '{"text": "Ada likes tea", "type": "semantic"}'
    created, wrong, bad = run_all(
        [
            ["context", "create", "/memories", "--body", body, *url],
            ["ctx", "list", "/threads", *url],
            ["ctx", "list", "/memories/../threads", *url],
        ]
    )
    memory = json.loads(created.out)["id"]
    listed, viewed, changed, removed, empty = run_all(
        [
            ["context", "list", "/spaces/default/memories", *url],
            ["ctx", "view", f"/memories/{memory}", "--json", *url],
            ["ctx", "update", f"/memories/{memory}", "-b", '{"tags": ["tea"]}', *url],
            ["ctx", "remove", f"/memories/{memory}", *url],
            ["ctx", "list", "/reminders", *url],
        ]
    )
    assert (wrong.code, bad.code) == (2, 2) and "is not a path of this group" in wrong.err
    assert memory in listed.out and "Ada likes tea" in listed.out
    assert json.loads(viewed.out)["id"] == memory
    assert (changed.code, removed.code, empty.err) == (0, 0, "nothing at /reminders\n")


def test_profiles_are_kept_for_the_user(server: Server, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}

    def run(*words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*HOLDFAST, *words], input=input, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60
        )

    assert run("profile", "set", "here", server.url, "--default").returncode == 0
    assert run("profile", "set", "far", "ftp://x").returncode == 1
    assert "here (default)" in run("profile", "list").stdout
    assert run("ask", "bot", "found").stdout == "you said found\n"
    assert run("ask", "bot", "found", "--profile", "none").returncode == 1
    assert oct((tmp_path / "holdfast" / "profiles.json").stat().st_mode)[-3:] == "600"
    assert run("profile", "delete", "here").returncode == 0
    assert run("profile", "list").stderr == "no profiles\n"


def test_completion_offers_live_ids(server: Server) -> None:
    with SyncClient(server.url) as hf:
        run = hf.start("bot", "x").wait()
    for words, offered in ((["run", "show"], run.id), (["ask"], "asker"), (["thread", "show"], run.thread_id)):
        line = ["holdfast", *words, ""]
        environment = {
            **os.environ,
            "HOLDFAST_URL": server.url,
            "_HOLDFAST_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(line),
            "COMP_CWORD": str(len(line) - 1),
        }
        done = subprocess.run(HOLDFAST, capture_output=True, text=True, env=environment, timeout=60)
        assert offered in done.stdout.splitlines()


def test_the_shell_completes_ids_of_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = ["--url", server.url]
    made = run_all(
        [
            ["task", "create", "bot", "go", *url],
            ["reminder", "set", "tea", "--at", "in 2 h", *url],
            ["memory", "add", "Ada likes tea", *url],
            ["schedule", "create", "bot", "go", "--cron", "0 9 * * *", *url],
        ]
    )
    assert [done.code for done in made] == [0] * 4, made
    monkeypatch.setenv("HOLDFAST_URL", server.url)
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "complete_bash")
    verbs = ["task show", "reminder show", "memory show", "schedule show", "ask", "space show", "run list --space"]
    verbs += ["daemon show", "webhook show", "skill show", "run show", "thread show", "run list --profile"]
    program = """
import os, sys
import holdfast.cli.app, holdfast.client.sync.client  # once for all of them
from holdfast.cli.main import main

for verb in sys.argv[1:]:
    words = f"holdfast {verb} "
    os.environ |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
    if os.fork() == 0:
        sys.argv[1:] = []
        main()
    os.wait()
    print("--", flush=True)
"""
    command = [sys.executable, "-c", program, *verbs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    offered = dict(zip(verbs, (part.split() for part in done.stdout.split("--\n")), strict=False))
    assert done.stderr == ""
    for verb, result in zip(verbs, made, strict=False):
        assert result.out.strip() in offered[verb], offered
    assert {"bot", "lead"} <= {*offered["ask"]}
    assert offered["space show"] == offered["run list --space"] == ["default"]
    assert [offered[verb] for verb in ("daemon show", "webhook show", "skill show")] == [[]] * 3
    assert offered["run show"][0].startswith("run_") and offered["thread show"][0].startswith("thr_")


def test_an_agent_of_the_space_is_made_from_a_folder_edited_and_deleted(server: Server, tmp_path: Path) -> None:
    url = ["--url", server.url]
    workspace = AgentWorkspace(tmp_path / "other", tmp_path / "unused.db")
    workspace.agent(say("filed"), name="clerk", description="files")
    source = str(workspace.folder / "agents" / "clerk")
    (workspace.folder / "broken").mkdir()
    (workspace.folder / "broken" / "agent.json").write_text("{")
    made, again, missing, broken = run_all(
        [
            ["agent", "create", "clerk", source, *url],
            ["agent", "create", "bot", source, *url],
            ["agent", "create", "other", str(tmp_path / "nowhere"), *url],
            ["agent", "create", "other", str(workspace.folder / "broken"), *url],
        ]
    )
    assert (made.code, made.err[:22]) == (0, "created clerk, version"), made
    assert again.code == 1 and "belongs to the workspace" in again.err
    assert missing.code != 0 and "cannot read" in missing.err and "Traceback" not in missing.err
    assert broken.code != 0 and "is not JSON" in broken.err
    workspace.configure("clerk", description="files more")
    (edited,) = run_all([["agent", "edit", "clerk", source, *url]])
    assert edited.err.startswith("new runs of clerk get version "), edited
    (shown,) = run_all([["agent", "show", "clerk", "--json", *url]])
    assert json.loads(shown.out)["description"] == "files more"
    (deleted,) = run_all([["agent", "delete", "clerk", *url]])
    assert (deleted.code, deleted.err) == (0, "deleted clerk\n")
