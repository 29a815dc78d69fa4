"""`holdfast key …`: directly in the database, or through the server that owns it."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.workspace.folder import Workspace
from tests.api.server_process import TIMEOUT_SECONDS, run_server
from tests.architecture.project import ROOT
from tests.cli.batch import CommandResult, run_all

GUIDE: Final = (ROOT / "docs" / "guides" / "network.md").read_text()
ADDRESS: Final = "http://127.0.0.1:5050"
SECRET: Final = re.compile(r"hf_[0-9a-f]{32}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    """Return the folder that `run_server` serves."""
    return str(Workspace.create(tmp_path / "workspace").path)


def test_a_key_is_created_listed_and_revoked_without_a_server(workspace: str) -> None:
    options = ["--workspace", workspace]
    created, other, listed = run_all(
        [
            ["key", "create", "laptop", *options],
            ["key", "create", "ci", "--scope", "admin", "--every-space", "--days", "1", "--json", *options],
            ["key", "list", *options],
        ]
    )
    assert (created.code, bool(SECRET.fullmatch(created.out.strip())), created.out.count("\n")) == (0, True, 1)
    key: Json = json.loads(other.out)
    assert (key["scope"], key["every_space"], key["space_ids"], key["created_by"]) == ("admin", True, [], None)
    head, first, second = listed.out.splitlines()
    assert head.split() == ["KEY", "SCOPE", "SPACES", "POOLS", "RATE", "LIMIT", "EXPIRES", "REVOKED", "NAME"]
    assert re.fullmatch(r"key_[0-9a-f]{32}  run +default +laptop", first)
    assert re.fullmatch(rf"{key['id']}  admin  every space +\d{{4}}-\S+ \S+ +ci", second)
    assert not SECRET.search(listed.out)
    revoked, revoked_again, as_json = run_all(
        [["key", "revoke", key["id"], *options], ["key", "list", *options], ["key", "list", "--json", *options]]
    )
    assert (revoked.code, revoked.out) == (0, "")
    assert re.search(r" 20\S+ \S+ +ci$", revoked_again.out.splitlines()[2])
    assert [each["name"] for each in json.loads(as_json.out)] == ["laptop", "ci"]


def test_a_workspace_without_keys_says_so(workspace: str) -> None:
    listed, as_json = run_all([["key", "list", "-w", workspace], ["key", "list", "-w", workspace, "-o", "json"]])
    assert (listed, as_json) == ((0, "", "no keys: requests need none\n"), (0, "[]\n", ""))


def test_an_invalid_request_is_refused_in_one_line(workspace: str, tmp_path: Path) -> None:
    options = ["--workspace", workspace]
    cases = [
        (["key", "create", "x", "--space", "missing", *options], 1, "there is no space `missing` [NOT_FOUND]"),
        (["key", "create", "x", "--space", "default", "--every-space", *options], 1, "takes no `space_ids`"),
        (["key", "create", "x", "--rate-limit", "often", *options], 1, "is not a rate"),
        (["key", "create", "x", "--days", "0", *options], 2, "'--days'"),
        (["key", "create", "x", "--scope", "root", *options], 2, "root"),
        (["key", "create", *options], 2, "NAME"),
        (["key", "revoke", "key_missing", *options], 1, "there is no key `key_missing` [NOT_FOUND]"),
        (["key", "list", "--workspace", str(tmp_path / "nothing")], 1, "holdfast init"),
        (["key", "list", "--url", "nowhere"], 1, "is not a valid server URL"),
        (["key", "list", "--url", "http://127.0.0.1:1"], 1, "no server at http://127.0.0.1:1"),
    ]
    for (_, code, message), done in zip(cases, run_all([arguments for arguments, _, _ in cases]), strict=True):
        assert (done.code, done.out) == (code, ""), done
        assert message in done.err


def test_a_running_server_is_called_with_the_key_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_server(tmp_path, "--quiet") as server:
        run, url = server.request("/agents/hello/task", {"input": "hi"})["taskId"], ["--url", server.url]
        database = tmp_path / "workspace" / ".holdfast" / "holdfast.db"
        listing = ["key", "list", "--json", *url]
        following = [["run", "follow", run, "--transport", transport, *url] for transport in ("sse", "ws")]
        found, owned, first, *refused = run_all(
            [
                ["key", "list", "--json", "--workspace", str(tmp_path / "workspace")],
                ["key", "list", "--workspace", str(tmp_path / "workspace"), "--database", str(database)],
                ["key", "create", "first", "--scope", "admin", "--every-space", *url],
                listing,
                *following,
            ]
        )
        assert "this is the first key: from now on every request needs one" in first.err
        assert (found.code, found.out) == (0, "[]\n")
        assert (owned.code, "`--url`" in owned.err, "[STORE_OWNED]" in owned.err) == (1, True, True)
        assert [(each.code, "HOLDFAST_API_KEY or a profile [UNAUTH" in each.err) for each in refused] == [(1, True)] * 3
        monkeypatch.setenv("HOLDFAST_API_KEY", first.out.strip())
        listed, second, *followed = run_all([listing, ["key", "create", "second", "--json", *url], *following])
        (root,), created = json.loads(listed.out), json.loads(second.out)
        assert (root["name"], created["created_by"]) == ("first", root["id"])
        assert "first key" not in second.err
        assert [(each.code, each.out) for each in followed] == [(0, followed[0].out)] * 2
        monkeypatch.setenv("HOLDFAST_API_KEY", created["secret"])
        (top,) = run_all([["top", "--once", *url]])
        assert (top.code, "running 0" in top.out, "workers 1" in top.out, "stalls" in top.out) == (0, True, True, False)
        monkeypatch.setenv("HOLDFAST_API_KEY", first.out.strip())
        (revoked,) = run_all([["key", "revoke", created["id"], "--json", *url]])
        assert json.loads(revoked.out)["revoked_at"] is not None
        monkeypatch.setenv("HOLDFAST_API_KEY", "é")
        (odd,) = run_all([listing])
        assert (odd.code, "does not contain a valid key" in odd.err) == (1, True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_network_guide_work(
    tmp_path: Path, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = re.findall(r"^(?:holdfast|curl) .+$", GUIDE.replace("\\\n", " "), re.MULTILINE)
    (first,) = [line for line in lines if "key create operator" in line]
    (opened, _) = [line for line in lines if line.startswith("holdfast serve")]
    (created,) = run_all([_arguments(first.replace("bakery", workspace))])
    monkeypatch.setenv("HOLDFAST_API_KEY", created.out.strip())
    options = shlex.split(opened)[4:]
    assert options[0] == "--host"
    with run_server(tmp_path, "--quiet", *options) as server:
        url = f"http://127.0.0.1:{server.port}"
        responses = [_run_curl(line, url) for line in lines if line.startswith("curl")]
        assert ["error" in responses[0], "items" in responses[1], responses[2].get("id")] == [True, True, "pastry"]
        named = subprocess.run(
            ["curl", "-s", "-H", "Host: bakery.local", f"{url}/health"],
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
        assert json.loads(named.stdout) == {"status": "ok"}
        through = [_arguments(line.replace(ADDRESS, url)) for line in lines if f"--url {ADDRESS}" in line]
        *results, revoked = run_all(through)
        assert [each.code for each in results] == [0] * len(results), results
        assert (revoked.code, "there is no key `KEY_ID`" in revoked.err) == (1, True)
        key_id = _id_of(results, "dashboard")
        (second_revoke,) = run_all([["key", "revoke", key_id, "--url", url]])
        assert second_revoke.code == 0


def _arguments(line: str) -> list[str]:
    return shlex.split(line)[1:]


def _run_curl(line: str, url: str) -> Json:
    process = subprocess.run(
        line.replace(ADDRESS, url), shell=True, capture_output=True, timeout=TIMEOUT_SECONDS, check=True, env=os.environ
    )
    return json.loads(process.stdout)


def _id_of(results: list[CommandResult], name: str) -> str:
    (line,) = [line for each in results for line in each.out.splitlines() if line.endswith(f"  {name}")]
    return line.split()[0]
