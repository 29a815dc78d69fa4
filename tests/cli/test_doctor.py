"""`holdfast doctor` finds problems and prints their remedies."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, TypeAlias

import pytest

from holdfast.bootstrap import open_store
from holdfast.bootstrap.doctor.checks import diagnose
from holdfast.bootstrap.doctor.finding import Finding, Severity
from holdfast.bus.local import LocalBus
from holdfast.domain.ids import SpaceId
from holdfast.workspace.folder import Workspace
from tests.cli.batch import run_all
from tests.scenario.mcp.declaring import PLAIN
from tests.support.postgres import PostgresServer
from tests.unit.sandbox.confined import need_sandbox

SECRET: Final = "sk-nobody-may-see-this"
Findings: TypeAlias = dict[str, list[Finding]]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    new_workspace = Workspace.create(tmp_path / "workspace")
    new_workspace.prepare()
    return new_workspace


@pytest.fixture
async def database(workspace: Workspace) -> Path:
    """Return a database with the schema."""
    async with open_store(workspace.database, bus=LocalBus()):
        return workspace.database


async def check(workspace: Workspace, database: str | None = None) -> Findings:
    findings: Findings = {}
    for finding in await diagnose(workspace.path, database=database):
        findings.setdefault(finding.about, []).append(finding)
    return findings


def only_finding(findings: Findings, about: str, verdict: Severity) -> Finding:
    (finding,) = findings[about]
    assert finding.verdict is verdict, finding
    return finding


@contextmanager
def provider(status: int) -> Iterator[str]:
    """Yield the URL of a provider whose list of models has this status, and that needs a key for anything but 404."""

    class Models(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys = (self.headers.get("authorization"), self.headers.get("x-api-key"))
            known = status == 404 or keys in ((f"Bearer {SECRET}", None), (None, SECRET))
            self.send_response(status if known and self.path == "/v1/models" else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Models) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def declare(workspace: Path, **providers: object) -> None:
    (workspace / "settings.json").write_text(json.dumps({"default_agent": "hello", "providers": providers}))


def test_a_new_workspace_is_healthy_and_keys_are_shown_by_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    workspace = Workspace.create(tmp_path / "workspace").path
    folder = str(workspace)
    with provider(200) as url:
        declare(workspace, mine={"api": "openai", "base_url": url, "api_key_env": "OPENAI_API_KEY"})
        as_text, as_json, nowhere = run_all(
            [
                ["doctor", "-w", folder],
                ["doctor", "-w", folder, "--json"],
                ["doctor", "-w", str(tmp_path / "nowhere"), "--json"],
            ]
        )
    read = json.loads(as_json.out)
    assert (as_text.code, as_json.code, read["healthy"]) == (0, 0, True)
    assert {finding["about"] for finding in read["findings"]} >= {
        "versions",
        "settings",
        "agents",
        "permissions",
        "providers",
        "sandbox",
        "database",
        "disk sync",
        "disk space",
    }
    assert [line for line in as_text.out.splitlines() if line.startswith("ok       providers") and "openai" in line]
    assert f"`mine` answers at `{url}`" in as_text.out
    assert SECRET not in as_text.out + as_text.err + as_json.out + as_json.err
    assert (nowhere.code, json.loads(nowhere.out)["healthy"]) == (1, False)
    assert "holdfast init" in json.loads(nowhere.out)["findings"][-1]["remedy"]


async def test_mcp_servers_are_started_and_one_that_fails_is_named_with_its_stderr_and_a_remedy(
    workspace: Workspace,
) -> None:
    await need_sandbox()
    failing = {"command": "sh", "args": ["-c", "echo getaddrinfo ENOTFOUND registry >&2; exit 1"]}
    slow = ["-c", 'sleep 1.2; exec "$0" -I "$1"', sys.executable, str(PLAIN)]
    plain = {"command": "sh", "args": slow, "sandbox": "off"}
    (workspace.path / "settings.json").write_text(json.dumps({"mcp_servers": {"packages": failing, "plain": plain}}))
    agent = {"model": "scripted:script.json", "mcp_servers": {"plain": plain}}
    (workspace.path / "agents" / "hello" / "agent.json").write_text(json.dumps(agent))
    (printed,) = run_all([["doctor", "-w", str(workspace.path), "--json"]])
    findings = [finding for finding in json.loads(printed.out)["findings"] if finding["about"] == "mcp"]
    assert [finding["verdict"] for finding in findings] == ["failed", "ok"]
    assert "getaddrinfo ENOTFOUND registry" in findings[0]["message"]
    assert '"network": true' in findings[0]["remedy"]
    assert findings[1]["message"].startswith("`plain` answers, with ")
    assert printed.code == 1
    assert printed.err.startswith("waiting for the MCP server ")
    assert "`plain`, at most 60 s" in printed.err


@pytest.mark.parametrize(("key", "verdict"), [(SECRET, Severity.FAILED), ("", Severity.WARNING)])
async def test_a_provider_without_its_package_is_named_with_the_command_that_installs_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, key: str, verdict: Severity
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setitem(sys.modules, "openai", None)  # as if it were not installed
    finding = (await check(workspace))["providers"][1]
    assert finding.verdict is verdict
    assert finding.message == "agent `assistant` uses `mine:gpt-5`, and the package `openai` is not installed"
    assert finding.remedy == "run `pip install 'holdfast-agents[openai]'`, then restart the server"


@pytest.mark.parametrize(
    ("status", "verdict", "message", "remedy"),
    [
        (401, Severity.FAILED, "does not accept the key (401)", "check the value of `MY_KEY`"),
        (404, Severity.WARNING, "has no `/models` there (404)", "check `base_url` of `mine`"),
        (405, Severity.OK, "`mine` answers at", ""),
    ],
)
async def test_a_provider_is_asked_whether_it_takes_the_key(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, status: int, verdict: Severity, message: str, remedy: str
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with provider(status) as url:
        declare(workspace.path, mine={"api": "openai", "base_url": url, "api_key_env": "MY_KEY"})
        finding = (await check(workspace))["providers"][-1]
    assert finding.verdict is verdict and url in finding.message and message in finding.message
    assert (finding.remedy or "").startswith(remedy) and SECRET not in f"{finding}"


async def test_a_provider_that_does_not_answer_is_named_with_its_address(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with provider(200) as gone:
        pass
    with provider(200) as url:
        there = url.removesuffix("/v1")
        declare(
            workspace.path,
            mine={"api": "openai", "base_url": gone},
            claude={"api": "anthropic", "base_url": there, "api_key_env": "MY_KEY"},
        )
        agent = workspace.path / "agents" / "hello" / "agent.json"
        agent.write_text('{"model": ["mine:one", "mine:two", "claude:three"]}')
        findings = [each for each in (await check(workspace))["providers"] if " at `" in each.message]
    assert [(each.verdict, each.message) for each in findings] == [
        (Severity.FAILED, f"`mine` does not answer at `{gone}`: nothing listens there"),
        (Severity.OK, f"`claude` answers at `{there}`"),
    ]
    assert "check that this machine reaches it, and `base_url` of `mine`" in (findings[0].remedy or "")


async def test_an_agent_with_an_unknown_tool_is_named(workspace: Workspace) -> None:
    agent = {"model": "scripted:script.json", "tools": ["read_fil", "plan_*", "mcp__x__y", "remote__z", "tool_search"]}
    (workspace.path / "agents" / "hello" / "agent.json").write_text(json.dumps(agent))
    failed = [each for each in (await check(workspace))["agents"] if each.verdict is Severity.FAILED]
    assert [each.message.partition(": did")[0] for each in failed] == ["agent `hello`: there is no tool `read_fil`"]
    (checked,) = run_all([["agent", "check", "hello", "-w", str(workspace.path)]])
    assert (checked.code, "did you mean `read_file`" in checked.out) == (1, True)


async def test_files_that_do_not_load_are_named_with_the_problem(workspace: Workspace) -> None:
    (workspace.path / "settings.json").write_text('{"workers": "many"}')
    (workspace.path / "permissions.json").write_text('{"allow": {"hello": ["bash("]}}')
    (workspace.path / "agents" / "hello" / "agent.json").write_text('{"model": 7}')
    (workspace.tools / "broken").mkdir(parents=True)
    (workspace.tools / "broken" / "tool.json").write_text("{}")
    findings = await check(workspace)
    for about, file, key in (
        ("settings", "settings.json", "workers"),
        ("permissions", "permissions.json", "bash("),
        ("tools", "tools/broken/tool.json", "name"),
    ):
        finding = only_finding(findings, about, Severity.FAILED)
        assert file in str(finding.remedy) and key in finding.message, finding
    broken, loaded = findings["agents"]
    assert (broken.verdict, "agents/hello/agent.json" in str(broken.remedy)) == (Severity.FAILED, True)
    others = "analyst, assistant, coder, monitor, researcher, writer"
    assert (loaded.verdict, loaded.message) == (Severity.OK, f"these load: {others}")


async def test_an_agent_whose_provider_has_no_key_is_named_with_the_variable(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    agent = workspace.path / "agents" / "hello" / "agent.json"
    agent.write_text('{"model": ["anthropic:claude", "nobody:knows"]}')
    messages = [(finding.verdict, finding.message) for finding in (await check(workspace))["providers"]]
    unset = "agent `hello` uses `anthropic:claude`, and `ANTHROPIC_API_KEY` is not set"
    assert (Severity.WARNING, unset) in messages
    assert (Severity.WARNING, "agent `hello` uses `nobody:knows`, and `nobody` is unknown") in messages


async def test_an_intact_database_is_healthy(workspace: Workspace, database: Path) -> None:
    findings = await check(workspace)
    assert "its schema is current" in only_finding(findings, "database", Severity.OK).message
    assert only_finding(findings, "integrity", Severity.OK)
    assert only_finding(findings, "server", Severity.OK).message == "no process writes to the database"


def _overwrite_header(database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096 * 8)


def _replace(database: Path) -> None:
    database.write_bytes(b"this is no database, but it is long enough to be taken for one" * 100)


def _remove_a_migration(database: Path) -> None:
    _change(database, "DELETE FROM migrations WHERE name = (SELECT MAX(name) FROM migrations)")


def _add_a_migration(database: Path) -> None:
    _change(database, "INSERT INTO migrations SELECT '9999_later', checksum, applied_at FROM migrations LIMIT 1")


def _change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("damage", "about", "verdict", "words", "remedy"),
    [
        (_overwrite_header, "integrity", Severity.FAILED, "damaged", "restore"),
        (_replace, "database", Severity.FAILED, "not a database", "restore"),
        (_remove_a_migration, "database", Severity.WARNING, "older", "`holdfast serve` migrates it"),
        (_add_a_migration, "database", Severity.FAILED, "later version", "install that version"),
    ],
)
async def test_problems_of_a_database_are_found(
    damage: Callable[[Path], None],
    about: str,
    verdict: Severity,
    words: str,
    remedy: str,
    workspace: Workspace,
    database: Path,
) -> None:
    damage(database)
    finding = only_finding(await check(workspace), about, verdict)
    assert words in finding.message
    assert remedy in (finding.remedy or "")


async def test_an_invalid_url_and_an_unreachable_server_are_reported_without_the_password(
    workspace: Workspace,
) -> None:
    for url in (f"mysql://me:{SECRET}@127.0.0.1/x", f"postgresql://me:{SECRET}@127.0.0.1:1/x"):
        finding = only_finding(await check(workspace, url), "database", Severity.FAILED)
        assert finding.remedy and SECRET not in f"{finding}"


async def test_a_missing_folder_of_the_database_is_reported(workspace: Workspace) -> None:
    finding = only_finding(
        await check(workspace, str(workspace.path / "missing" / "log.db")), "database", Severity.FAILED
    )
    assert "missing" in str(finding.remedy)


async def test_postgres_is_checked_with_and_without_its_schema(workspace: Workspace, postgres: PostgresServer) -> None:
    url = await postgres.create_database("doctor")
    try:
        assert (
            "migrations are pending" in only_finding(await check(workspace, url), "database", Severity.WARNING).message
        )
        async with open_store(url):
            findings = await check(workspace, url)
        assert "its schema is current" in only_finding(findings, "database", Severity.OK).message
        assert "disk sync" not in findings, "the log is not on this machine's disk"
    finally:
        await postgres.drop_database("doctor")


async def test_a_process_that_uses_the_database_is_reported_and_not_disturbed(workspace: Workspace) -> None:
    async with open_store(workspace.database, bus=LocalBus()) as store:
        await store.spaces.create(SpaceId("before"), name="Before")
        findings = await check(workspace)
        await store.spaces.create(SpaceId("after"), name="After")
    assert only_finding(findings, "server", Severity.OK).message == f"process {os.getpid()} uses it now"
    assert only_finding(findings, "database", Severity.OK) and only_finding(findings, "integrity", Severity.OK)


async def test_the_trace_exporter_is_checked(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "traces" not in await check(workspace)
    workspace.settings.write_text('{"telemetry": {"traces": true}}')
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    assert "`pigeon`" in only_finding(await check(workspace), "traces", Severity.FAILED).message
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    assert "without message and tool content" in only_finding(await check(workspace), "traces", Severity.OK).message


async def test_a_disabled_sandbox_is_reported(workspace: Workspace) -> None:
    workspace.settings.write_text('{"sandbox": "off"}')
    assert "all rights of the server" in only_finding(await check(workspace), "sandbox", Severity.WARNING).message
