"""Outgoing webhooks over HTTP, with receivers that fail, stall, redirect and lie."""

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from tests.api.conftest import BACKENDS, NewDatabase, write_agents
from tests.api.site import Site, eventually, serve
from tests.scenario.agents.agent_workspace import AgentWorkspace
from tests.support.webhook_receiver import ERROR, GONE, Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as one:
        yield one


@pytest.fixture(params=BACKENDS)
async def hook_site(request: pytest.FixtureRequest, tmp_path: Path, new_database: NewDatabase) -> AsyncIterator[Site]:
    """Yield a server on each backend whose settings allow receivers on this machine."""
    database = tmp_path / "holdfast.db" if request.param == "sqlite" else await new_database()
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", database))
    workshop.write("settings.json", {"web": {"allow_private": ["127.0.0.1"]}})
    async with serve(workshop) as site:
        yield site


async def make(site: Site, receiver: Receiver, *events: str, **fields: Json) -> Json:
    return await site.post("/api/webhooks", {"url": receiver.url, "events": list(events) or ["*"], **fields})


async def deliveries(site: Site, webhook: Json) -> list[Json]:
    found: list[Json] = (await site.get(f"/api/webhooks/{webhook['id']}/deliveries"))["items"]
    return found


async def settled(site: Site, webhook: Json, count: int = 1) -> list[Json]:
    """Wait until so many deliveries have been attempted."""

    async def attempted() -> bool:
        return len([each for each in await deliveries(site, webhook) if each["attempts"]]) >= count

    await eventually(attempted)
    return await deliveries(site, webhook)


async def test_a_run_is_posted_with_a_signature_that_can_be_checked(hook_site: Site, receiver: Receiver) -> None:
    made = await make(hook_site, receiver, "run.completed", description="mine")
    assert made["secret"].startswith("whsec_")
    assert "secret" not in await hook_site.get(f"/api/webhooks/{made['id']}")
    run = await hook_site.play(await hook_site.thread())
    (delivery,) = await settled(hook_site, made)
    assert (delivery["state"], delivery["last_status"], delivery["attempts"]) == ("delivered", 204, 1)
    ((headers, body),) = receiver.requests
    assert (headers["webhook-id"], receiver.events) == (delivery["id"], [("run.completed", run["id"])])
    assert headers["content-type"] == "application/json"
    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


async def test_a_reminder_is_posted_and_a_delivery_can_be_sent_again(hook_site: Site, receiver: Receiver) -> None:
    made = await make(hook_site, receiver, "reminder.*")
    body = {"content": "tea", "trigger_type": "time", "trigger_value": "in 0.1 s"}
    await hook_site.post("/api/reminders", body)
    (delivery,) = await settled(hook_site, made)
    assert delivery["payload"]["data"]["content"] == "tea"
    await hook_site.post(f"/api/webhooks/{made['id']}/deliveries/{delivery['id']}/resend", expect=202)

    async def received_twice() -> bool:
        return len(receiver.requests) == 2

    await eventually(received_twice)
    first, second = receiver.requests
    assert (first[0]["webhook-id"], first[1]) == (second[0]["webhook-id"], second[1])


async def _stall(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _ in range(100):
        writer.write(b"x" * 10_000)
        try:
            await writer.drain()
        except ConnectionError:
            return


HOSTILE: Final = [
    (ERROR, 500, None),
    (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:22/\r\nContent-Length: 0\r\n\r\n", 302, None),
    (b"HTTP/1.1 307 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", 307, None),
    (b"nonsense", None, "cannot be read"),
    (b"", None, "cannot be read"),
    (_endless, None, "more than 65536 bytes"),
]


@pytest.mark.parametrize(("answer", "status", "error"), HOSTILE)
async def test_an_answer_that_is_no_success_is_retried(
    hook_site: Site, receiver: Receiver, answer: Any, status: int | None, error: str | None
) -> None:
    receiver.answers = [answer]
    made = await make(hook_site, receiver, "run.*")
    await hook_site.play(await hook_site.thread())
    (delivery,) = await settled(hook_site, made)
    assert (delivery["state"], delivery["last_status"], delivery["attempts"]) == ("pending", status, 1)
    assert error is None or error in delivery["last_error"]
    assert delivery["next_attempt_at"] > delivery["created_at"]
    assert len(receiver.requests) == 1  # a redirect is not followed
    await hook_site.post(f"/api/webhooks/{made['id']}/deliveries/{delivery['id']}/resend", expect=202)

    async def delivered() -> bool:
        return [each["state"] for each in await deliveries(hook_site, made)] == ["delivered"]

    await eventually(delivered)


async def test_a_receiver_that_stalls_delays_no_other(hook_site: Site, receiver: Receiver) -> None:
    async with receiving() as stalling:
        stalling.answers = [_stall] * 20
        await make(hook_site, stalling, "run.*")
        for _ in range(8):
            await hook_site.play(await hook_site.thread())
        await make(hook_site, receiver, "run.*")
        run = await hook_site.play(await hook_site.thread())

        async def delivered() -> bool:
            return ("run.completed", run["id"]) in receiver.events

        await eventually(delivered)
        assert len(stalling.requests) <= 8


async def test_a_receiver_that_is_gone_is_disabled_with_a_notification(hook_site: Site, receiver: Receiver) -> None:
    receiver.answers = [GONE]
    made = await make(hook_site, receiver, "run.*")
    await hook_site.play(await hook_site.thread())
    (delivery,) = await settled(hook_site, made)
    assert delivery["state"] == "failed"
    disabled = await hook_site.get(f"/api/webhooks/{made['id']}")
    assert (disabled["state"], disabled["state_reason"]) == ("disabled", "the receiver is gone (410)")

    async def notified() -> bool:
        return any(each["kind"] == "webhook.disabled" for each in (await hook_site.get("/api/notifications"))["items"])

    await eventually(notified)
    path = f"/api/webhooks/{made['id']}"
    await hook_site.post(f"{path}/deliveries/{delivery['id']}/resend", expect=409)
    enabled = await hook_site.patch(path, {"enabled": True, "new_secret": True})
    assert (enabled["state"], enabled["secret"] != made["secret"]) == ("active", True)
    await hook_site.delete(path)
    await hook_site.get(path, expect=404)


async def test_what_waits_for_a_receiver_survives_a_restart(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
    workshop.write("settings.json", {"web": {"allow_private": ["127.0.0.1"]}})
    async with receiving() as receiver:
        receiver.answers = [ERROR]
        async with serve(workshop) as site:
            made = await make(site, receiver, "run.*")
            run = await site.play(await site.thread())
            (first,) = await settled(site, made)
        async with serve(workshop) as site:
            await site.post(f"/api/webhooks/{made['id']}/deliveries/{first['id']}/resend", expect=202)

            async def delivered() -> bool:
                return [each["state"] for each in await deliveries(site, made)] == ["delivered"]

            await eventually(delivered)
        # A retry that is due meanwhile is one more.
        assert {*receiver.events} == {("run.completed", run["id"])} and len(receiver.events) >= 2


WRONG: Final[list[tuple[dict[str, Any], str]]] = [
    ({"url": "http://127.0.0.1:9000/"}, "not on the public internet"),
    ({"url": "http://localhost/"}, "not on the public internet"),
    ({"url": "http://[::1]/"}, "not on the public internet"),
    ({"url": "http://169.254.169.254/latest"}, "not on the public internet"),
    ({"url": "http://10.0.0.1/"}, "not on the public internet"),
    ({"url": "ftp://example.com"}, "http"),
    ({"url": "example.com"}, "http"),
    ({"url": "https://user:pw@example.com/"}, "user or password"),
    ({"url": "https://93.184.216.34:22/"}, "port"),
    ({"events": []}, "events"),
    ({"events": ["run.exploded"]}, "is not an event"),
    ({"events": "run.completed"}, "events"),
    ({"id": "not an id"}, "`id` must be"),
    ({"secret": "mine"}, "secret"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
async def test_a_wrong_webhook_is_refused(site: Site, body: dict[str, Any], message: str) -> None:
    whole = {"url": "https://93.184.216.34/", "events": ["run.*"], **body}
    assert message in str((await site.post("/api/webhooks", whole, expect=400))["error"])
    assert (await site.get("/api/webhooks"))["items"] == []
