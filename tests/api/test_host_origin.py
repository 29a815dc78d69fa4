"""The host and origin checks of a server on the loopback address."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from holdfast.bootstrap.logs import JsonLogFormatter, TextLogFormatter
from tests.api.conftest import write_agents
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace

ALLOWED_ORIGIN: Final = "http://localhost:3000"


@pytest.fixture(scope="module")
async def cors_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Yield a server that allows one other origin."""
    folder: Path = tmp_path_factory.mktemp("cors")
    async with serve(
        write_agents(AgentWorkspace(folder / "workspace", folder / "holdfast.db")), origins=(ALLOWED_ORIGIN,)
    ) as site:
        yield site


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:5050", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:5050"])
async def test_requests_for_this_machine_are_accepted(cors_site: Site, host: str) -> None:
    assert (await cors_site.request("GET", "/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:5050", "localhost.evil.example", "127.0.0.1.nip.io", "", "localhost:x", "::1"],
)
async def test_a_foreign_host_name_is_refused(cors_site: Site, host: str) -> None:
    response = await cors_site.request("GET", "/api/threads", headers={"Host": host})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "HOST_REFUSED")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost", "http://127.0.0.1:1", "file://"])
async def test_a_page_of_another_origin_is_refused_with_a_remedy(cors_site: Site, method: str, origin: str) -> None:
    response = await cors_site.request(method, "/api/threads", headers={"Origin": origin})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (403, "ORIGIN_REFUSED")
    assert "--cors-origin" in error["message"]
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_cross_site_request_without_an_origin_is_refused(cors_site: Site, site: str) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    assert (await cors_site.request("GET", "/api/threads", headers=headers)).status_code == 403
    navigated = await cors_site.request("GET", "/health", headers=headers | {"Sec-Fetch-Mode": "navigate"})
    assert navigated.status_code == 200


async def test_a_page_of_the_server_itself_is_accepted(cors_site: Site) -> None:
    assert (await cors_site.request("GET", "/api/threads", headers={"Origin": cors_site.url})).status_code == 200


async def test_an_allowed_origin_can_send_preflights_and_read_responses(cors_site: Site) -> None:
    preflight = await cors_site.request(
        "OPTIONS",
        "/api/threads",
        headers={
            "Origin": ALLOWED_ORIGIN,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,idempotency-key",
            "Access-Control-Request-Private-Network": "true",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == ALLOWED_ORIGIN
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "content-type,idempotency-key"
    assert preflight.headers["access-control-allow-private-network"] == "true"
    created = await cors_site.request(
        "POST", "/api/threads", json={"agent_type": "bot"}, headers={"Origin": ALLOWED_ORIGIN}
    )
    assert (created.status_code, created.headers["access-control-allow-origin"]) == (201, ALLOWED_ORIGIN)
    assert "Idempotency-Replayed" in created.headers["access-control-expose-headers"]
    missing = await cors_site.request("GET", "/api/runs/x", headers={"Origin": ALLOWED_ORIGIN})
    assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, ALLOWED_ORIGIN)


async def test_two_origin_headers_are_refused(cors_site: Site) -> None:
    response = await cors_site.request(
        "GET", "/health", headers=[("Origin", ALLOWED_ORIGIN), ("Origin", cors_site.url)]
    )
    assert response.status_code == 403


async def test_each_request_is_logged_in_one_line(cors_site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="holdfast.requests"):
        response = await cors_site.request("GET", "/api/threads?title=secret")
    (record,) = [record for record in caplog.records if record.name == "holdfast.requests"]
    assert " GET /api/threads 200 " in TextLogFormatter().format(record)
    fields = json.loads(JsonLogFormatter().format(record))
    assert (fields["method"], fields["path"], fields["status"]) == ("GET", "/api/threads", 200)
    assert fields["request_id"] == response.headers["x-request-id"]
    assert "secret" not in TextLogFormatter().format(record) + JsonLogFormatter().format(record)


@pytest.mark.parametrize(
    ("headers", "remedy"),
    [
        (
            {"Origin": "http://evil.example"},
            "the origin `http://evil.example` is not allowed: start the server with "
            "`--cors-origin http://evil.example`",
        ),
        ({"Origin": "null"}, "requests from other sites are not allowed: start the server with `--cors-origin URL`"),
        ({"Host": "evil.example"}, "allow it with `--allow-host NAME` (`allow_hosts` of `holdfast.asgi`)"),
    ],
)
async def test_a_refused_origin_or_host_is_logged_with_the_option_that_allows_it(
    cors_site: Site, caplog: pytest.LogCaptureFixture, headers: dict[str, str], remedy: str
) -> None:
    await cors_site.request("OPTIONS", "/api/threads", headers=headers | {"Access-Control-Request-Method": "POST"})
    (record,) = [record for record in caplog.records if record.name == "holdfast.requests"]
    line = TextLogFormatter().format(record)
    assert " WARNING refused OPTIONS /api/threads: " in line
    assert line.endswith(remedy)


async def test_a_refused_origin_cannot_write_lines_of_its_own_into_the_log(
    cors_site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    await cors_site.request("GET", "/api/threads", headers={"Origin": b"http://\x9b2J\x85evil.example/" + b"x" * 9000})
    (record,) = [record for record in caplog.records if record.name == "holdfast.requests"]
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < 1000


async def test_an_internal_error_is_logged_and_not_shown_in_the_response(
    cors_site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("the password is 1234")

    monkeypatch.setattr(cors_site.floor.holdfast.agents, "all", fail)
    response = await cors_site.request("GET", "/api/agents")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (500, "INTERNAL")
    assert "1234" not in response.text
    assert error["details"]["request_id"] == response.headers["x-request-id"]
    assert "the password is 1234" in caplog.text


@pytest.mark.parametrize(
    "path", ["/health", "/api/threads", "/openapi.json", "/nowhere", "/api/threads/thr_none", "/metrics"]
)
@pytest.mark.parametrize("origin", [None, ALLOWED_ORIGIN, "http://evil.example"])
async def test_a_browser_neither_keeps_nor_runs_a_response(cors_site: Site, path: str, origin: str | None) -> None:
    response = await cors_site.request("GET", path, headers={} if origin is None else {"Origin": origin})
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert response.headers["x-content-type-options"] == "nosniff"
