"""A server is killed during a run: the spans of the next server belong to the same trace."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.telemetry.run_spans import run_trace_id
from holdfast.workspace.folder import Workspace
from tests.api.server_process import TIMEOUT_SECONDS, Server, run_server

AGENT: Final = "traced"
LOOK: Final = {"call": [{"name": "todo_read", "arguments": {}}]}
SPAN: Final = re.compile(r"^\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a workspace whose server prints its spans as they end."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    folder = Workspace.create(tmp_path / "workspace").path
    agent = folder / "agents" / AGENT
    agent.mkdir()
    (agent / "AGENT.md").write_text("Do as you are told.")
    (agent / "agent.json").write_text(json.dumps({"model": "scripted:script.json", "tools": ["todo_read"]}))
    _write_script(tmp_path, LOOK, {"say": "one moment", "stall": True})
    (folder / "settings.json").write_text(json.dumps({"telemetry": {"traces": True}}))
    return tmp_path


def test_after_a_crash_a_run_stays_in_its_trace(workspace: Path) -> None:
    with run_server(workspace) as server:
        run = server.start(AGENT)
        output = _until_printed(server, "execute_tool")
        _follow(server, run, until=lambda: any("CONTENT" in event["type"] for event in server.log(run)))
        before = _spans(output + _end(server, signal.SIGKILL))
    _write_script(workspace, LOOK, {"say": "done"})
    with run_server(workspace) as server:
        _follow(server, run, until=lambda: server.request(f"/api/runs/{run}")["status"] == "completed")
        after = _spans(_end(server, signal.SIGTERM))
    trace = f"0x{run_trace_id(DEFAULT_SPACE, RunId(run)):032x}"
    assert {span["context"]["trace_id"] for span in (*before, *after)} == {trace}
    assert "execute_tool todo_read" in {span["name"] for span in before}
    (work,) = [span for span in after if span["name"] == f"invoke_agent {AGENT}"]
    assert work["attributes"]["holdfast.lease.number"] > 1
    assert work["attributes"]["holdfast.run.status"] == "completed"


def _until_printed(server: Server, words: str) -> str:
    """Return the server's output up to the end of the span whose name contains a text."""
    assert server.process.stdout is not None
    output = ""
    while not (words in output and output.endswith("\n}\n")):
        line = server.process.stdout.readline()
        assert line, output
        output += line
    return output


def _write_script(folder: Path, *turns: Json) -> None:
    script = folder / "workspace" / "agents" / AGENT / "script.json"
    script.write_text(json.dumps({"turns": turns}))


def _follow(server: Server, run: str, *, until: Callable[[], bool]) -> None:
    """Poll a run until it has ended."""
    while not until():
        assert server.request(f"/api/runs/{run}")["status"] != "failed"


def _end(server: Server, number: int) -> str:
    server.process.send_signal(number)
    return server.process.communicate(timeout=TIMEOUT_SECONDS)[0]


def _spans(output: str) -> list[Json]:
    return [json.loads(span) for span in SPAN.findall(output)]
