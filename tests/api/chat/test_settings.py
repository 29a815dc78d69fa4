"""The settings are shown without secrets, and changed key by key in the settings file."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from holdfast.workspace.settings_file import RESTART_KEYS
from tests.api.chat.test_chat import check_error
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace, say

SECRET: Final = "hunter2-and-more"
PROVIDER: Final[Json] = {"api": "openai", "base_url": "http://me:pass-word@127.0.0.1:1/v1", "api_key_env": "OFFICE_KEY"}
SERVER: Final[Json] = {
    "url": "http://127.0.0.1:1/mcp",
    "headers": {"Authorization": SECRET, "X-Named": "${OFFICE_KEY}"},
}
FILE: Final = """{
    "$schema": "settings.schema.json",
    "locale": "ja",
    "context": {
        "anti_drift_every": 5
    },
    "providers": {
        "office": {
            "api": "openai",
            "base_url": "http://127.0.0.1:1/v1"
        }
    }
}
"""


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a shared server; each test writes its settings again."""
    folder = tmp_path_factory.mktemp("settings")
    workshop = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workshop.agent(say("hello"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OFFICE_KEY", SECRET)
        async with serve(workshop) as site:
            yield site


class File:
    """The settings file on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.path.read_text()

    @property
    def json(self) -> Json:
        """The content of the file."""
        return json.loads(self.text)

    @property
    def inode(self) -> int:
        """The inode, which changes when the file is replaced."""
        return self.path.stat().st_ino

    @property
    def mode(self) -> int:
        """The permission bits."""
        return stat.S_IMODE(self.path.stat().st_mode)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


@pytest.fixture
def file(site: Site) -> File:
    """Return the settings file with known content."""
    site.workshop.write("settings.json", FILE)
    (site.workshop.folder / "settings.json").chmod(0o640)
    return File(site.workshop.folder / "settings.json")


async def change(site: Site, body: Json, *, expect: int = 200, **headers: str) -> Any:
    """Change settings, and return the response."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await site.request("PATCH", "/settings", json=body, headers=named)
    assert answer.status_code == expect, answer.text
    return answer


async def test_settings_are_shown_with_their_defaults(site: Site, file: File) -> None:
    found = await site.get("/settings")
    assert list(found) == ["settings", "keys", "restart", "error"]
    assert (found["settings"]["locale"], found["settings"]["workers"]) == ("ja", 64)
    context = found["settings"]["context"]
    assert (context["tools_shown"], context["anti_drift_every"]) == (64, 5)
    assert (found["keys"], found["error"]) == ({}, None)


async def test_a_change_is_written_to_the_file_and_applies_at_once(site: Site, file: File) -> None:
    answer = (await change(site, {"locale": "en", "limits": {"max_iterations": 7}})).json()
    assert (answer["settings"]["locale"], answer["settings"]["limits"]["max_iterations"]) == ("en", 7)
    written = file.text
    assert written.startswith('{\n    "$schema": "settings.schema.json",\n    "locale": "en",\n    "context"')
    assert json.loads(written) == {**json.loads(FILE), "locale": "en", "limits": {"max_iterations": 7}}
    assert written.endswith("}\n") and file.mode == 0o640
    assert [path.name for path in file.path.parent.iterdir() if "settings" in path.name] == ["settings.json"]
    assert (await site.get("/agents/bot"))["agent"]["limits"]["max_iterations"] == 7


async def test_null_removes_a_setting_unless_null_is_a_valid_value(site: Site, file: File) -> None:
    await change(site, {"providers": {"office": None}, "context": {"anti_drift_every": None}, "$schema": None})
    assert file.json == {
        "$schema": None,
        "locale": "ja",
        "context": {"anti_drift_every": None},
        "providers": {},
    }
    shown = (await change(site, {"context": None, "workers": None, "locale": None})).json()["settings"]
    assert (shown["context"]["anti_drift_every"], shown["workers"], shown["locale"]) == (10, 64, None)
    assert "context" not in file.json


async def test_an_empty_change_does_not_write_the_file(site: Site, file: File) -> None:
    before = file.inode
    first = await change(site, {})
    again = await change(site, {"locale": "ja"})
    assert file.text == FILE and file.inode == before
    assert first.headers["etag"] == again.headers["etag"]


async def test_a_missing_file_is_created(site: Site, file: File) -> None:
    file.remove()
    assert (await site.get("/settings"))["settings"]["locale"] is None
    await change(site, {"locale": "ja"})
    assert file.text == '{\n  "locale": "ja"\n}\n'


async def test_secrets_are_never_shown_only_whether_they_are_set(site: Site, file: File) -> None:
    bare = {"api": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "NOBODY_SET_THIS"}
    answer = await change(site, {"providers": {"office": PROVIDER, "bare": bare}, "mcp_servers": {"tools": SERVER}})
    shown = await site.request("GET", "/settings")
    for text in (answer.text, shown.text):
        assert SECRET not in text and "pass-word" not in text
    found = shown.json()
    assert found["keys"] == {"office": True, "bare": False}
    assert found["settings"]["providers"]["office"]["base_url"] == "http://[redacted]@127.0.0.1:1/v1"
    assert found["settings"]["mcp_servers"]["tools"]["headers"] == {
        "Authorization": "[redacted]",
        "X-Named": "${OFFICE_KEY}",
    }
    assert file.json["mcp_servers"] == {"tools": SERVER}


async def test_a_redacted_value_sent_back_keeps_the_secret(site: Site, file: File) -> None:
    await change(site, {"providers": {"office": PROVIDER}, "mcp_servers": {"tools": SERVER}})
    before = file.json
    shown = (await site.get("/settings"))["settings"]
    await change(site, {"providers": {"office": {"base_url": shown["providers"]["office"]["base_url"]}}})
    headers = {**shown["mcp_servers"]["tools"]["headers"], "X-More": "1"}
    await change(site, {"mcp_servers": {"tools": {"headers": headers}}})
    server = {**SERVER, "headers": {**SERVER["headers"], "X-More": "1"}}
    assert file.json == {**before, "mcp_servers": {"tools": server}}
    answer = await site.request("PATCH", "/settings", json={"default_agent": "[redacted]"})
    assert "default_agent" in check_error(answer, 400, "VALIDATION_ERROR")["message"]


async def test_a_concurrent_change_is_detected(site: Site, file: File) -> None:
    tag = (await site.request("GET", "/settings")).headers["etag"]
    site.workshop.write("settings.json", {"locale": "de"})
    refusal = check_error(await change(site, {"locale": "en"}, expect=412, if_match=tag), 412, "SETTINGS_CHANGED")
    assert "read them again" in refusal["message"] and file.json == {"locale": "de"}
    tag = (await site.request("GET", "/settings")).headers["etag"]
    changed = await change(site, {"locale": "en"}, if_match=f'"other", {tag}')
    assert changed.headers["etag"] != tag
    await change(site, {"locale": "ja"}, expect=412, if_match=tag)
    await change(site, {"locale": "ja"}, if_match="*")


@pytest.mark.parametrize("header", ["3f9c", 'W/"a"', '"', "", '"a" "b"'])
async def test_an_invalid_etag_is_rejected(site: Site, file: File, header: str) -> None:
    check_error(await change(site, {}, expect=400, if_match=header), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"localle": "en"}, "localle: unknown key"),
        ({"limits": {"max": 1}}, "limits.max: unknown key"),
        ({"locale": 7}, "locale"),
        ({"locale": "no such"}, "locale"),
        ({"workers": 0}, "workers"),
        ({"workers": {}}, "workers"),
        ({"sandbox": "maybe"}, "sandbox"),
        ({"providers": {"a b": None, "A": {}}}, "providers.A"),
        ({"providers": {"x": {"api": "openai"}}}, "providers.x.base_url"),
        ({"providers": {"x": {"api": "openai", "base_url": "ftp://x"}}}, "providers.x.base_url"),
        ({"providers": []}, "providers"),
        ({"permissions": {"deny": ["no_such_tool"]}}, "permissions.deny[0]"),
        ({"permissions": {"deny": ["bash("]}}, "permissions.deny[0]"),
        ({"context": "all"}, "context"),
    ],
)
async def test_an_invalid_setting_is_rejected_by_its_key_and_changes_nothing(
    site: Site, file: File, body: Json, named: str
) -> None:
    refusal = check_error(await change(site, {"workers": 3, **body}, expect=400), 400, "VALIDATION_ERROR")
    assert refusal["message"].startswith(named)
    assert file.text == FILE


@pytest.mark.parametrize("body", ["[]", "7", "null", "{", '{"a": 1e999}'])
async def test_a_body_that_is_not_an_object_is_rejected(site: Site, file: File, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = await site.request("PATCH", "/settings", content=body, headers=headers)
    assert answer.status_code == 400 and file.text == FILE


async def test_too_large_settings_are_rejected(site: Site, file: File) -> None:
    long = [f"/{'x' * 4000}{number}" for number in range(90)]
    answer = await site.request("PATCH", "/settings", json={"sandbox_reads": long})
    check_error(answer, 413, "TOO_LARGE")
    assert file.text == FILE


async def test_an_invalid_file_is_reported_and_not_overwritten(site: Site, file: File) -> None:
    assert (await site.get("/settings"))["settings"]["locale"] == "ja"
    site.workshop.write("settings.json", '{"locale": }')
    found = await site.get("/settings")
    assert "settings.json" in found["error"] and found["settings"]["locale"] == "ja"
    check_error(await change(site, {"locale": "en"}, expect=409), 409, "CONFLICT")
    assert file.text == '{"locale": }'


async def test_settings_that_need_a_restart_are_listed(site: Site, file: File) -> None:
    file.remove()
    assert (await site.get("/settings"))["restart"] == []
    changed = (await change(site, {"workers": 3, "sandbox": "off", "locale": "en"})).json()
    assert changed["restart"] == ["workers", "sandbox"] and set(changed["restart"]) <= set(RESTART_KEYS)
    assert (await change(site, {"workers": None, "sandbox": None})).json()["restart"] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_an_unwritable_file_is_an_error(site: Site, file: File) -> None:
    file.path.parent.chmod(0o500)
    try:
        check_error(await change(site, {"locale": "en"}, expect=503), 503, "UNAVAILABLE")
    finally:
        file.path.parent.chmod(0o700)
    assert file.text == FILE
