"""`holdfast serve`: the server process, and its startup errors."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import holdfast as package
from holdfast.workspace.folder import Workspace
from tests.api.server_process import HOLDFAST, TIMEOUT_SECONDS, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

# Root may read everything, so the process drops its privileges, after importing modules that others may not read.
UNPRIVILEGED: Final = """
import os
import holdfast.bootstrap.doctor.checks, holdfast.bootstrap.server, pydantic.main, uvloop, zoneinfo
from holdfast.cli.main import main

if os.getuid() == 0:
    os.setuid(65534)
main()
"""


@contextmanager
def announced(workspace: Path, *options: str) -> Iterator[str]:
    """Serve a workspace, and yield the first line on stderr."""
    command = [*HOLDFAST, "serve", "--workspace", str(workspace), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process.stderr.readline()
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)


def test_a_new_workspace_is_served_until_sigterm_shuts_it_down(tmp_path: Path) -> None:
    with run_server(tmp_path, "--workers", "2", "--log-format", "json") as server:
        assert server.request("/health") == {"status": "ok"}
        assert server.request("/ready") == {"status": "ready"}
        assert server.request("/version") == {"name": "holdfast", "version": package.__version__}
        thread = server.request("/api/threads", {})
        assert thread["agent_type"] == "hello"
        run = server.request(f"/api/threads/{thread['id']}/runs?wait=30", {"input": "hi"})
        assert run["status"] == "completed"
        code, log = server.stop()
    assert code == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["path"] for line in lines if line["logger"] == "holdfast.requests"][0] == "/health"
    assert "completed" in [line.get("status") for line in lines if line.get("run_id") == run["id"]]


def test_a_shutdown_logs_that_it_waits_for_runs_and_how_they_end(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(say("a story that takes its time", chunks=20, delay_ms=100))
    with run_server(tmp_path) as server:
        run = server.start("bot")
        while not any("TEXT_MESSAGE_CONTENT" in str(event) for event in server.log(run)):
            pass
        code, log = server.stop()
    assert code == 0
    draining = log.index("draining: active runs have 20 s to stop, then they are cancelled: 1")
    assert log.index(f"run {run} completed after", draining) > draining
    assert f"run {run} released" not in log


def test_a_second_signal_releases_the_runs_at_once_and_logs_it(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(say("one moment", stall=True))
    with run_server(tmp_path) as server:
        run = server.start("bot")
        while not any("TEXT_MESSAGE_CONTENT" in str(event) for event in server.log(run)):
            pass
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stderr is not None
        while "draining" not in (line := server.process.stderr.readline()):
            assert line, "it ended"
        code, log = server.stop()
    assert code == 0
    assert f"run {run} released: its worker drains" in log


def test_acknowledged_data_survives_a_kill_and_ctrl_c_shuts_a_server_down(tmp_path: Path) -> None:
    with run_server(tmp_path, "--workers", "0", "--quiet") as server:
        thread = server.request("/api/threads", {})["id"]
        runs = [server.request(f"/api/threads/{thread}/runs", {"input": f"{n}"})["id"] for n in range(3)]
        server.kill()
    with run_server(tmp_path) as server:
        listed = server.request(f"/api/threads/{thread}/runs")["items"]
        assert [run["id"] for run in listed] == runs[::-1]
        code, log = server.stop(signal.SIGINT)
    assert (code, "Traceback" in log) == (0, False)


def test_a_startup_error_is_one_line_and_a_usage_error_has_its_own_code(
    tmp_path: Path,
) -> None:
    workspace, nothing = str(Workspace.create(tmp_path / "workspace").path), str(tmp_path / "nothing")
    cases = [
        (["--workspace", nothing], 1, f"create one with `holdfast init {nothing}`"),
        (["--host", "0.0.0.0"], 1, "create a key first, with `holdfast key create NAME`"),
        (["--host", "example.org"], 1, "is not an IP address"),
        (["--allow-host", "http://x"], 1, "is not a valid host name"),
        (["--rate-limit", "often"], 1, "is not a rate"),
        (["--oidc", nothing], 1, "cannot be read"),
        (["--queue-depth", "0"], 2, "'--queue-depth'"),
        (["--cors-origin", "localhost:3000"], 1, "is not an origin"),
        (["--cors-origin", "http://x/"], 1, "is not an origin"),
        (["--database", "mysql://h/x"], 1, "`mysql` is not a supported database"),
        (["--database", ""], 1, "is not a supported database"),
        (["--database", "postgresql://[h/x"], 1, "cannot be parsed"),
        (["--database", "postgresql://h:port/x"], 1, "cannot be parsed"),
        (["--database", "postgresql://127.0.0.1:1/x"], 1, "does not respond"),
        (["--database", "no/such/folder/x.db"], 1, "there is no folder"),
        (["--port", "70000"], 2, "'--port'"),
        (["--workers", "-1"], 2, "'--workers'"),
        (["--log-format", "xml"], 2, "xml"),
        (["--nonsense"], 2, "nonsense"),
    ]
    ended = run_all([["serve", "--port", "0", "--workspace", workspace, *options] for options, _, _ in cases])
    for (options, code, message), done in zip(cases, ended, strict=True):
        assert (options, done.code, done.out) == (options, code, "")
        assert message in done.err
        assert code == 2 or done.err.count("\n") == 1


def test_every_json_log_line_is_an_object_and_quiet_has_no_startup_lines(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "workspace").path
    with announced(workspace, "--log-format", "json") as line:
        first = json.loads(line)
    assert (first["logger"], first["level"], first["version"]) == ("holdfast.server", "info", package.__version__)
    assert first["message"] == f"serving {workspace} at {first['url']}"
    with announced(workspace) as line:
        assert line.startswith(f"holdfast {package.__version__} serving {workspace} at http://")
    with run_server(tmp_path, "--log-format", "json", "--quiet") as server:
        assert server.stop() == (0, "")


def test_broken_agents_are_logged_at_startup_one_line_each(tmp_path: Path) -> None:
    agents = Workspace.create(tmp_path / "workspace").agents
    for name in ("one", "two"):
        (agents / name).mkdir()
        (agents / name / "agent.json").write_text("{")
    with run_server(tmp_path, "--quiet") as server:
        _, log = server.stop()
    assert ["WARNING agents/one/" in log, "WARNING agents/two/" in log, log.count("\n")] == [True, True, 2]


def test_broken_settings_are_logged_once(tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path / "workspace")
    workspace.settings.write_text("{")
    command = [*HOLDFAST, "serve", "--port", "0", "--workspace", str(workspace.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (done.returncode, done.stderr.count("\n"), done.stderr[:28]) == (1, 1, "holdfast: settings.json: is ")


def test_rules_for_workspace_tools_are_valid_and_a_broken_edit_is_logged_once(
    tmp_path: Path,
) -> None:
    workspace = Workspace.create(tmp_path / "workspace")
    tool = {"name": "weigh", "description": "Weigh.", "parameters": {"type": "object"}, "command": ["true"]}
    (workspace.tools / "weigh").mkdir(parents=True)
    (workspace.tools / "weigh" / "tool.json").write_text(json.dumps(tool))
    workspace.settings.write_text(json.dumps({"default_agent": "hello", "permissions": {"ask": ["weigh"]}}))
    with run_server(tmp_path, "--quiet") as server:
        assert server.request("/api/threads", {})["agent_type"] == "hello"
        workspace.settings.write_text("{")
        while server.request("/settings")["error"] is None:
            pass
        assert server.request("/api/threads", {})["agent_type"] == "hello"
        _, log = server.stop()
    assert ["the last valid version stays in use" in log, log.count("\n")] == [True, 1]


def test_a_port_or_database_in_use_is_reported(tmp_path: Path) -> None:
    other = Workspace.create(tmp_path / "other").path
    with run_server(tmp_path) as server:
        same_database = ["serve", "--workspace", str(tmp_path / "workspace"), "--port", "0"]
        same_port = ["serve", "--workspace", str(other), "--port", server.port]
        ended = run_all([same_database, same_port])
    assert [(done.code, done.out, done.err.count("\n")) for done in ended] == [(1, "", 1)] * 2
    assert "STORE_OWNED" in ended[0].err
    assert f"cannot listen on 127.0.0.1:{server.port}" in ended[1].err


def test_an_unreadable_folder_is_an_error_but_not_a_usage_error() -> None:
    with TemporaryDirectory() as folder:  # not below a folder that only root may enter
        Path(folder).chmod(0)
        words = (
            [*command, folder] for command in (["serve", "--port", "0", "--workspace"], ["doctor", "-w"], ["init"])
        )
        ended = [
            subprocess.run(
                [sys.executable, "-c", UNPRIVILEGED, *each], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
            )
            for each in words
        ]
    assert [done.returncode for done in ended] == [1, 1, 1]
    assert ["Permission denied" in done.stderr + done.stdout for done in ended] == [True] * 3
    assert [done.stderr for done in ended if "Traceback" in done.stderr] == []


def test_a_missing_postgres_driver_is_named_with_the_command_to_install_it(tmp_path: Path) -> None:
    Workspace.create(tmp_path)
    code = "import sys; sys.modules['asyncpg'] = None; from holdfast.cli.main import main; main()"
    options = ["serve", "--workspace", str(tmp_path), "--database", "postgresql://127.0.0.1/x"]
    refused = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "pip install 'holdfast-agents[postgres]'" in refused.stderr


def test_a_server_starts_without_libraries_that_nothing_uses_yet() -> None:
    code = (
        "import sys, holdfast.bootstrap.server; from holdfast.api.app import create_routes; create_routes(); "
        "print([name for name in ('pydantic', 'openai', 'aiohttp', 'snowballstemmer') if name in sys.modules])"
    )
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert (started.stdout, started.returncode) == ("[]\n", 0), started.stderr
