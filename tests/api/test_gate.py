"""Who may use a server on the loopback address, and who may not."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap.logs import JsonLogFormatter, TextLogFormatter
from tests.api.conftest import fill
from tests.api.site import Site, served
from tests.scenario.agents.agent_workspace import AgentWorkspace

FRIEND: Final = "http://localhost:3000"


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a server that one other site may use."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    async with served(fill(AgentWorkspace(folder / "workspace", folder / "holdfast.db")), origins=(FRIEND,)) as site:
        yield site


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:5050", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:5050"])
async def test_requests_for_this_machine_pass(guarded: Site, host: str) -> None:
    assert (await guarded.ask("GET", "/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:5050", "localhost.evil.example", "127.0.0.1.nip.io", "", "localhost:x", "::1"],
)
async def test_a_name_that_was_bound_to_this_address_gets_nothing(guarded: Site, host: str) -> None:
    answer = await guarded.ask("GET", "/api/threads", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "HOST_REFUSED")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost", "http://127.0.0.1:1", "file://"])
async def test_a_page_of_another_site_gets_nothing_and_is_told_how(guarded: Site, method: str, origin: str) -> None:
    answer = await guarded.ask(method, "/api/threads", headers={"Origin": origin})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "ORIGIN_REFUSED")
    assert "--cors-origin" in error["message"]
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_that_does_not_say_where_it_is_from_gets_nothing(guarded: Site, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert (await guarded.ask("GET", "/api/threads", headers=headers)).status_code == 403
    followed = await guarded.ask("GET", "/health", headers=headers | {"Sec-Fetch-Mode": "navigate"})
    assert followed.status_code == 200


async def test_a_page_of_the_server_itself_may_use_it(guarded: Site) -> None:
    assert (await guarded.ask("GET", "/api/threads", headers={"Origin": guarded.url})).status_code == 200


async def test_an_allowed_site_may_ask_first_and_read_the_answer(guarded: Site) -> None:
    asked = await guarded.ask(
        "OPTIONS",
        "/api/threads",
        headers={
            "Origin": FRIEND,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,idempotency-key",
            "Access-Control-Request-Private-Network": "true",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == FRIEND
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert asked.headers["access-control-allow-headers"] == "content-type,idempotency-key"
    assert asked.headers["access-control-allow-private-network"] == "true"
    made = await guarded.ask("POST", "/api/threads", json={"agent_type": "bot"}, headers={"Origin": FRIEND})
    assert (made.status_code, made.headers["access-control-allow-origin"]) == (201, FRIEND)
    assert "Idempotency-Replayed" in made.headers["access-control-expose-headers"]
    wrong = await guarded.ask("GET", "/api/runs/x", headers={"Origin": FRIEND})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (404, FRIEND)


async def test_two_origins_are_none(guarded: Site) -> None:
    answer = await guarded.ask("GET", "/health", headers=[("Origin", FRIEND), ("Origin", guarded.url)])
    assert answer.status_code == 403


async def test_each_request_leaves_one_line(guarded: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="holdfast.requests"):
        answer = await guarded.ask("GET", "/api/threads?title=secret")
    (record,) = [record for record in caplog.records if record.name == "holdfast.requests"]
    assert " GET /api/threads 200 " in TextLogFormatter().format(record)
    said = json.loads(JsonLogFormatter().format(record))
    assert (said["method"], said["path"], said["status"]) == ("GET", "/api/threads", 200)
    assert said["request_id"] == answer.headers["x-request-id"]
    assert "secret" not in TextLogFormatter().format(record) + JsonLogFormatter().format(record)


async def test_what_breaks_is_in_the_log_and_not_in_the_answer(
    guarded: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks() -> None:
        raise ZeroDivisionError("the password is 1234")

    monkeypatch.setattr(guarded.floor.holdfast.agents, "all", breaks)
    answer = await guarded.ask("GET", "/api/agents")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "INTERNAL")
    assert "1234" not in answer.text
    assert error["details"]["request_id"] == answer.headers["x-request-id"]
    assert "the password is 1234" in caplog.text
