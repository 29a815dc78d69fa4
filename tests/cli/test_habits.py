"""`holdfast reminder`, `schedule`, `daemon` and `webhook`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server_process import Server, run_server
from tests.cli.batch import run_all
from tests.scenario.agents.agent_workspace import AgentWorkspace, say


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("habits")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workspace.agent(say("hello"))
    beats = {"enabled": True, "heartbeats": [{"name": "yearly", "schedule": "0 0 1 1 *"}]}
    workspace.agent(say("alive"), name="beating", daemon=beats)
    workspace.write("agents/beating/heartbeats/yearly.md", "Look around.")
    workspace.write("settings.json", {"web": {"allow_private": ["127.0.0.1"]}})
    with run_server(folder, "--quiet") as up:
        yield up


def test_reminders(server: Server, tmp_path: Path) -> None:
    url = ["--url", server.url]
    made, condition, both, past, wrong = run_all(
        [
            ["reminder", "set", "call mum", "--at", "in 2 h", "--priority", "high", "--json", *url],
            ["reminder", "set", "look", "--when", '{"event": "run.failed"}', "--run", "bot", *url],
            ["reminder", "set", "x", "--at", "in 1 h", "--about", "y", *url],
            ["reminder", "set", "x", "--at", "2020-01-01T00:00:00Z", *url],
            ["reminder", "set", "x", "--when", "{", *url],
        ]
    )
    reminder, other = json.loads(made.out)["id"], condition.out.strip()
    assert (both.code, past.code, wrong.code) == (2, 1, 2)
    assert "it was understood as 2020-01-01T00:00:00.000Z" in past.err
    listed, shown, snoozed, triggered, completed, dismissed, deleted, gone = run_all(
        [
            ["reminder", "list", "--priority", "high", *url],
            ["reminder", "show", other, *url],
            ["reminder", "snooze", reminder, "in 10 min", *url],
            ["reminder", "trigger", other, *url],
            ["reminder", "complete", reminder, *url],
            ["reminder", "dismiss", other, *url],
            ["reminder", "delete", other, *url],
            ["reminder", "show", "rem_none", *url],
        ],
    )
    assert reminder in listed.out and other not in listed.out
    assert "run.failed" in shown.out and "snoozed until" in snoozed.out + snoozed.err
    for each, status in ((triggered, "triggered"), (completed, "completed"), (dismissed, "dismissed")):
        assert status in each.out + each.err
    assert (deleted.code, gone.code) == (0, 1)


def test_schedules_and_daemons(server: Server) -> None:
    url = ["--url", server.url]
    made, notifying, neither = run_all(
        [
            ["schedule", "create", "bot", "go", "--cron", "0 9 * * *", "--name", "standup", "--hook", "--json", *url],
            ["schedule", "create", "--notify", "tea", "--at", "2090-01-01T00:00:00Z", *url],
            ["schedule", "create", "--cron", "0 9 * * *", *url],
        ]
    )
    schedule = json.loads(made.out)["id"]
    assert (notifying.code, neither.code) == (0, 2)
    listed, shown, fired, firings, paused, resumed, deleted, daemons, stopped, started, beat, daemon, runs = run_all(
        [
            ["schedule", "list", *url],
            ["schedule", "show", schedule, "--json", *url],
            ["schedule", "run", schedule, *url],
            ["schedule", "firings", schedule, *url],
            ["schedule", "pause", schedule, *url],
            ["schedule", "resume", schedule, *url],
            ["schedule", "delete", schedule, *url],
            ["daemon", "list", *url],
            ["daemon", "stop", "beating", *url],
            ["daemon", "start", "beating", *url],
            ["daemon", "trigger", "beating", *url],
            ["daemon", "show", "beating", *url],
            ["run", "list", "--agent", "beating", *url],
        ],
    )
    assert "standup" in listed.out and len(json.loads(shown.out)["upcoming"]) == 5
    assert "fired run_" in fired.out + fired.err and "manual" in firings.out
    assert [each.code for each in (paused, resumed, deleted, stopped, started)] == [0] * 5
    assert "beating" in daemons.out and "fired" in beat.out + beat.err and "manual" in daemon.out
    assert re.search(r"  beating/\w+, due \d{4}-", runs.out) and "schedule_id" not in runs.out


def test_webhooks(server: Server) -> None:
    url = ["--url", server.url]
    made, private = run_all(
        [
            ["webhook", "create", "http://127.0.0.1:1024/", "--event", "run.*", "--json", *url],
            ["webhook", "create", "http://10.0.0.1/", *url],
        ]
    )
    webhook = json.loads(made.out)
    assert webhook["secret"].startswith("whsec_") and (private.code, "public internet" in private.err) == (1, True)
    listed, shown, disabled, enabled, none, missing, deleted = run_all(
        [
            ["webhook", "list", *url],
            ["webhook", "show", webhook["id"], "--json", *url],
            ["webhook", "disable", webhook["id"], *url],
            ["webhook", "enable", webhook["id"], *url],
            ["webhook", "deliveries", webhook["id"], *url],
            ["webhook", "resend", webhook["id"], "msg_none", *url],
            ["webhook", "delete", webhook["id"], *url],
        ],
    )
    assert webhook["id"] in listed.out and "secret" not in json.loads(shown.out)
    assert [each.code for each in (disabled, enabled, none, missing, deleted)] == [0, 0, 0, 1, 0]
