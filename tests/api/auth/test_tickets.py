"""Tickets: a stream is opened with a query parameter, for clients that cannot send a key in a header."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from litestar.handlers import HTTPRouteHandler
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from holdfast.api.auth.middleware import REVOKED_COMMENT
from holdfast.api.auth.tickets import STREAM_PATHS
from holdfast.api.router import ROUTES, SOCKETS
from holdfast.control.tickets import TICKET_LIFETIME_MS
from holdfast.domain.content import Json
from holdfast.testing.clock import HeldClock
from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, create_keys
from tests.api.auth.test_oidc import FakeMonotonic, make_authenticator, run_issuer
from tests.api.auth.test_revocation import revoke, start_stalled_run, wait_until_closed
from tests.api.conftest import BACKENDS, NewDatabase, write_agents
from tests.api.server_process import run_server
from tests.api.site import TIMEOUT_SECONDS, Site, serve_with_auth
from tests.conformance.tables import rows_of
from tests.scenario.agents.agent_workspace import AgentWorkspace

LIFETIME: Final = timedelta(milliseconds=TICKET_LIFETIME_MS)
SERVER_LOGGERS: Final = ("holdfast", "uvicorn")
STREAMS: Final = (
    "/api/runs/{run}/sse",
    "/api/spaces/acme/runs/{run}/sse",
    "/api/runs/{run}/segment",
    "/api/notifications/sse",
    "/api/spaces/acme/notifications/sse",
    "/api/spaces/acme/feed",
)


def with_ticket(path: str, ticket: str) -> str:
    """Return the URL of a stream that is opened with a ticket."""
    return f"{path}{'&' if '?' in path else '?'}ticket={ticket}"


def open_ticket_socket(site: Site, path: str, ticket: str) -> connect:
    """Open a WebSocket with a ticket."""
    return connect(f"ws://{site.host}{with_ticket(path, ticket)}", proxy=None)


class TicketSite(AuthSite):
    """A server with keys, and a clock that a test moves."""

    clock: HeldClock

    async def ticket(self, secret: str | None, path: str) -> str:
        """Create a ticket, and return its secret."""
        response = await self.request(secret, "POST", "/api/tickets", json={"path": path})
        assert response.status_code == 201, response.text
        ticket: str = response.json()["ticket"]
        return ticket

    async def status(self, path: str, ticket: str) -> int:
        """Return the status with which a stream begins that is opened with a ticket."""
        async with self.site.client.stream("GET", with_ticket(path, ticket)) as response:
            return response.status_code


@asynccontextmanager
async def serve_tickets(workshop: AgentWorkspace) -> AsyncIterator[TicketSite]:
    """Serve a workspace with keys."""
    clock = HeldClock()
    async with serve_with_auth(workshop, clock=clock) as site:
        made = await create_keys(site)
        ticket_site = TicketSite(site, made.root)
        ticket_site.keys, ticket_site.clock = made.keys, clock
        yield ticket_site


@pytest.fixture(params=BACKENDS)
async def tickets(
    request: pytest.FixtureRequest, tmp_path: Path, new_database: NewDatabase
) -> AsyncIterator[TicketSite]:
    """Yield a server on each backend."""
    database = tmp_path / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve_tickets(write_agents(AgentWorkspace(tmp_path / "workspace", database))) as site:
        yield site


@asynccontextmanager
async def open_stream(site: Site, path: str, ticket: str) -> AsyncIterator[AsyncIterator[str]]:
    """Open a stream with a ticket, and yield its text after the first piece."""
    async with asyncio.timeout(TIMEOUT_SECONDS), site.client.stream("GET", with_ticket(path, ticket)) as response:
        assert response.status_code == 200
        pieces = response.aiter_text()
        await anext(pieces)
        yield pieces


def test_every_stream_and_no_other_route_takes_a_ticket() -> None:
    streams = [
        route
        for route in ROUTES
        if isinstance(route, HTTPRouteHandler)
        and route.http_methods == {"GET"}
        and "text/event-stream" in route.opt.get("content", {})
    ]
    assert {route.handler_name for route in (*streams, *SOCKETS)} == STREAM_PATHS.keys()
    for route in (*ROUTES, *SOCKETS):
        for path in route.paths:
            matched = [name for name, pattern in STREAM_PATHS.items() if pattern.fullmatch(re.sub("{.*?}", "x", path))]
            assert matched == [route.handler_name] * (route.handler_name in STREAM_PATHS), path


async def test_a_ticket_opens_its_stream_without_a_header(tickets: TicketSite) -> None:
    key = tickets.keys[f"{ACME} read"]
    run = await start_stalled_run(tickets, tickets.keys[f"{ACME} run"])
    for template in STREAMS:
        path = template.format(run=run)
        async with open_stream(tickets.site, path, await tickets.ticket(key, path)):
            pass
    path = f"/api/runs/{run}/ws"
    async with connect(
        f"ws://{tickets.site.host}{path}?ticket={await tickets.ticket(key, path)}", proxy=None
    ) as socket:
        assert "RUN_STARTED" in str(await socket.recv())
    ticket = await tickets.ticket(tickets.keys[f"{ACME} run"], "/ws")
    async with open_ticket_socket(tickets.site, "/ws", ticket) as socket:
        await socket.send("{}")
        assert await socket.recv()
    await tickets.post(tickets.root, f"/api/spaces/{ACME}/runs/{run}/cancel", expect=200)


async def test_a_ticket_opens_one_path_only(tickets: TicketSite) -> None:
    key = tickets.keys[f"{ACME} run"]
    first, second = [await start_stalled_run(tickets, key) for _ in range(2)]
    ticket = await tickets.ticket(key, f"/api/runs/{first}/sse")
    assert await tickets.status(f"/api/runs/{first}/sse", ticket) == 200
    for path in (f"/api/runs/{second}/sse", f"/api/runs/{first}/segment", f"/api/spaces/{ACME}/runs/{first}/sse"):
        assert await tickets.status(path, ticket) == 401
    with pytest.raises(InvalidStatus) as caught:
        await open_ticket_socket(tickets.site, f"/api/runs/{first}/ws", ticket)
    assert caught.value.response.status_code == 401
    for method, path in (("GET", "/api/threads"), ("GET", f"/api/runs/{first}"), ("POST", f"/api/runs/{first}/cancel")):
        refused = await tickets.site.request(method, with_ticket(path, ticket))
        assert (refused.status_code, refused.json()["error"]["details"]["field"]) == (400, "ticket")
    for run in (first, second):
        await tickets.post(key, f"/api/runs/{run}/cancel", expect=200)


async def test_a_ticket_is_no_key_and_a_key_no_ticket(tickets: TicketSite) -> None:
    key = tickets.keys[f"{ACME} run"]
    path = "/api/notifications/sse"
    ticket = await tickets.ticket(key, path)
    assert (await tickets.request(ticket, "GET", "/api/threads")).status_code == 401
    for wrong in (key, "", "hf_ticket_" + "x" * 43, ticket[:-1]):
        assert await tickets.status(path, wrong) == 401
    assert await tickets.status(f"{path}?ticket={ticket}", ticket) == 401  # twice


async def test_a_ticket_is_valid_for_reconnects_until_it_expires(tickets: TicketSite) -> None:
    key = tickets.keys[f"{ACME} read"]
    run = await start_stalled_run(tickets, tickets.keys[f"{ACME} run"])
    path = f"/api/runs/{run}/sse"
    ticket = await tickets.ticket(key, path)
    for _ in range(3):
        assert await tickets.status(path, ticket) == 200
    tickets.clock.tick(LIFETIME - timedelta(milliseconds=1))
    async with open_stream(tickets.site, path, ticket) as pieces:
        tickets.clock.tick(timedelta(milliseconds=1))
        assert await tickets.status(path, ticket) == 401
        await tickets.post(tickets.root, f"/api/spaces/{ACME}/runs/{run}/cancel", expect=200)
        rest = "".join([piece async for piece in pieces])  # the open stream goes on to the end of the run
    assert "cancelled" in rest and REVOKED_COMMENT.decode() not in rest


async def test_a_ticket_ends_with_its_key(tickets: TicketSite) -> None:
    key = await tickets.key("read", ACME)
    run = await start_stalled_run(tickets, tickets.keys[f"{ACME} run"])
    path = f"/api/runs/{run}/sse"
    ticket = await tickets.ticket(key["secret"], path)
    socket_path = f"/api/runs/{run}/ws"
    socket_ticket = await tickets.ticket(key["secret"], socket_path)
    async with (
        open_stream(tickets.site, path, ticket) as pieces,
        open_ticket_socket(tickets.site, socket_path, socket_ticket) as socket,
    ):
        await revoke(tickets, key)
        assert "".join([piece async for piece in pieces]).endswith(REVOKED_COMMENT.decode())
        assert (await wait_until_closed(socket))[0] == 4401
    assert await tickets.status(path, ticket) == 401
    await tickets.post(tickets.root, f"/api/spaces/{ACME}/runs/{run}/cancel", expect=200)


async def test_a_ticket_gives_no_more_than_its_key(tickets: TicketSite) -> None:
    key = tickets.keys[f"{ACME} read"]
    for path, status in (("/ws", 201), (f"/api/spaces/{GLOBEX}/feed", 404), (f"/api/spaces/{GLOBEX}/runs/x/sse", 404)):
        assert (await tickets.request(key, "POST", "/api/tickets", json={"path": path})).status_code == status
    assert (await tickets.request(None, "POST", "/api/tickets", json={"path": "/ws"})).status_code == 401
    run = await start_stalled_run(tickets, tickets.keys[f"{GLOBEX} run"])
    path = f"/api/runs/{run}/sse"
    assert await tickets.status(path, await tickets.ticket(key, path)) == 404  # it means a run of its own space
    await tickets.post(tickets.keys[f"{GLOBEX} run"], f"/api/runs/{run}/cancel", expect=200)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"path": 5},
        {"path": "/api/threads"},
        {"path": "/api/runs/x/sse?last_event_id=1"},
        {"path": "http://127.0.0.1/ws"},
        {"path": "/api/runs/../sse"},
        {"path": "/ws/"},
        {"path": "/ws", "more": 1},
    ],
)
async def test_a_ticket_for_anything_but_a_stream_is_refused(auth_site: AuthSite, body: Json) -> None:
    response = await auth_site.request(auth_site.root, "POST", "/api/tickets", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID")


async def test_a_ticket_of_one_process_opens_streams_of_another(tmp_path: Path, new_database: NewDatabase) -> None:
    database = await new_database()
    first, second = (tmp_path / name for name in ("first", "second"))
    async with serve_tickets(write_agents(AgentWorkspace(first, database))) as here:
        key = await here.key("read", ACME)
        async with serve_with_auth(write_agents(AgentWorkspace(second, database)), clock=here.clock) as there:
            ticket = await here.ticket(key["secret"], "/api/notifications/sse")
            async with open_stream(there, "/api/notifications/sse", ticket) as pieces:
                await revoke(here, key)
                assert "".join([piece async for piece in pieces]).endswith(REVOKED_COMMENT.decode())
            response = await there.request("GET", with_ticket("/api/notifications/sse", ticket))
            assert response.status_code == 401


async def test_on_a_server_without_keys_a_ticket_works_until_the_first_key(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve_with_auth(workshop) as site:
        ticket = (await site.post("/api/tickets", {"path": "/api/notifications/sse"}))["ticket"]
        async with open_stream(site, "/api/notifications/sse", ticket) as pieces:
            await site.post("/api/keys", {"name": "first", "scope": "admin", "every_space": True})
            assert "".join([piece async for piece in pieces]).endswith(REVOKED_COMMENT.decode())
        response = await site.request("GET", with_ticket("/api/notifications/sse", ticket))
        assert response.status_code == 401


async def test_a_ticket_of_a_token_ends_with_the_token(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with run_issuer() as issuer:
        oidc = make_authenticator(issuer, FakeMonotonic())
        async with serve_with_auth(workshop, clock=issuer.clock, oidc=oidc) as site:
            made = AuthSite(site, issuer.token(groups=None, realm={"roles": ["operator"]}))
            await made.post(made.root, "/api/spaces", {"id": ACME})
            path = "/api/notifications/sse"
            lasting = await made.post(issuer.token(), "/api/tickets", {"path": path})
            token = issuer.token(exp=issuer.clock.now() // 1000 + 60)
            short = await made.post(token, "/api/tickets", {"path": path})
            assert short["expires_at"] < lasting["expires_at"]
            async with open_stream(site, path, short["ticket"]) as pieces:
                issuer.clock.tick(timedelta(seconds=91))  # with the leeway
                assert "".join([piece async for piece in pieces]).endswith(REVOKED_COMMENT.decode())
            assert (await site.request("GET", with_ticket(path, short["ticket"]))).status_code == 401
            async with open_stream(site, path, lasting["ticket"]):
                pass
        async with serve_with_auth(workshop, clock=issuer.clock, require_key=True) as site:  # without the issuer
            assert (await site.request("GET", with_ticket(path, lasting["ticket"]))).status_code == 401


async def test_a_ticket_is_never_logged_counted_or_stored(
    tickets: TicketSite, caplog: pytest.LogCaptureFixture
) -> None:
    key = tickets.keys[f"{ACME} run"]
    run = await start_stalled_run(tickets, key)
    for logger in SERVER_LOGGERS:
        caplog.set_level(logging.DEBUG, logger=logger)
    secrets = [await tickets.ticket(key, path) for path in (f"/api/runs/{run}/sse", f"/api/runs/{run}/ws")]
    async with open_stream(tickets.site, f"/api/runs/{run}/sse", secrets[0]):
        pass
    async with open_ticket_socket(tickets.site, f"/api/runs/{run}/ws", secrets[1]) as socket:
        await socket.recv()
    for query in (f"?ticket={secrets[0]}", f"?%74icket={secrets[0]}", "?last_event_id=x"):
        with pytest.raises(InvalidStatus):
            await open_ticket_socket(tickets.site, f"/api/runs/{run}/ws{query}", secrets[1])
    for path in ("/api/threads", "/missing", "/api/runs/x/sse", f"/api/runs/{run}/sse?more=1"):
        for headers in ({}, {"Origin": "http://a.example"}):
            refused = await tickets.site.request("GET", with_ticket(path, secrets[0]), headers=headers)
            assert refused.status_code >= 400
            assert secrets[0] not in refused.text
    records = [record for record in caplog.records if record.name.partition(".")[0] in SERVER_LOGGERS]
    logged = "".join(f"{record.getMessage()}\n{vars(record)!r}\n" for record in records)
    shown = (await tickets.request(tickets.root, "GET", "/metrics")).text
    stored = repr(await rows_of(tickets.site.workshop.database))
    assert f"/api/runs/{run}/ws" in logged and "/api/tickets" in shown and "/sse" in stored
    for secret in secrets:
        assert secret not in logged + shown + stored
    await tickets.post(key, f"/api/runs/{run}/cancel", expect=200)


def test_a_ticket_is_not_in_the_output_of_a_server(tmp_path: Path) -> None:
    with run_server(tmp_path) as server:
        ticket = server.request("/api/tickets", {"path": "/api/notifications/sse"})["ticket"]
        with pytest.raises(OSError):  # 400: not a stream
            server.request(f"/api/threads?ticket={ticket}")
        assert server.request(f"/health?ticket={ticket}")
        code, log = server.stop()
    assert code == 0
    assert "/api/threads" in log and ticket not in log
