"""Reminders over HTTP, and through the tools of an agent into its next turn."""

from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from tests.api.site import Site, eventually
from tests.scenario.agents.agent_workspace import SPACE

SOON: Final = {"content": "call mum", "trigger_type": "time", "trigger_value": "in 2 h"}


async def make(site: Site, **body: Json) -> Json:
    return await site.post("/api/reminders", {**SOON, **body})


async def status(site: Site, reminder: Json) -> Json:
    return (await site.get(f"/api/reminders/{reminder['id']}"))["status"]


async def test_a_reminder_is_set_read_changed_settled_and_deleted(backend_site: Site) -> None:
    made = await make(backend_site, context="at home", priority="high")
    path = f"/api/reminders/{made['id']}"
    assert (made["status"], made["priority"], made["recurrence"]) == ("pending", "high", None)
    assert await backend_site.get(path) == made
    assert (await backend_site.get(f"/api/schedules/{made['id']}"))["next_due_at"] == made["next_due_at"]
    changed = await backend_site.patch(
        path, {"content": "call dad", "trigger_value": "2090-01-01T09:00", "timezone": "Asia/Tokyo"}
    )
    assert (changed["content"], changed["next_due_at"]) == ("call dad", "2090-01-01T00:00:00.000Z")
    assert (await backend_site.post(f"{path}/trigger", expect=200))["status"] == "triggered"
    listed = await backend_site.get("/api/reminders", status="triggered", priority="high", trigger="time")
    assert [each["id"] for each in listed["items"]] == [made["id"]]
    snoozed = await backend_site.post(f"{path}/snooze", {"until": "in 10 min"}, expect=200)
    assert (snoozed["status"], snoozed["next_due_at"]) == ("pending", snoozed["snoozed_until"])
    assert (await backend_site.post(f"{path}/complete", expect=200))["status"] == "completed"
    await backend_site.post(f"{path}/trigger", expect=409)
    await backend_site.post(f"{path}/dismiss", expect=409)
    await backend_site.delete(path)
    await backend_site.get(path, expect=404)
    await backend_site.get(f"/api/schedules/{made['id']}", expect=404)


async def test_reminders_are_listed_by_the_rank_of_their_priority(backend_site: Site) -> None:
    for priority in ("low", "critical", "normal", "high"):
        await make(backend_site, priority=priority)
    found = (await backend_site.get(f"/api/spaces/{SPACE}/reminders"))["items"]
    assert [each["priority"] for each in found][:4] == ["critical", "high", "normal", "low"]


async def test_a_delay_is_never_in_the_past(backend_site: Site) -> None:
    body = {"content": "tea", "trigger_type": "time", "trigger_value": "in 0.001 s"}
    for _ in range(5):
        await backend_site.post("/api/reminders", body)


async def test_a_due_reminder_notifies_and_starts_exactly_one_run(backend_site: Site) -> None:
    made = await make(backend_site, trigger_value="in 0.2 s", action={"type": "run", "agent": "bot"})

    async def done() -> bool:
        firings = (await backend_site.get(f"/api/schedules/{made['id']}/firings"))["items"]
        return [each["run_status"] for each in firings] == ["completed"]

    await eventually(done)
    assert await status(backend_site, made) == "triggered"

    async def notified() -> bool:
        found = (await backend_site.get("/api/notifications"))["items"]
        triggered = [each["data"]["reminder_id"] for each in found if each["kind"] == "reminder.triggered"]
        return triggered.count(made["id"]) == 1

    await eventually(notified)
    (run,) = (await backend_site.get("/api/runs", tag=f"reminder:{made['id']}"))["items"]
    assert run["agent_type"] == "bot"


async def test_a_failed_run_triggers_a_condition(backend_site: Site) -> None:
    condition = {"event": "run.failed", "agent": "failing"}
    made = await make(backend_site, trigger_type="condition", trigger_value=condition)
    thread = await backend_site.thread(agent_type="failing")
    run = await backend_site.post(f"/api/threads/{thread}/runs?wait=30", {"input": "x"})

    async def triggered() -> bool:
        return bool(await status(backend_site, made) == "triggered")

    await eventually(triggered)
    assert run["id"] in (await backend_site.get(f"/api/reminders/{made['id']}"))["trigger_reason"]


async def test_a_context_reaches_the_turn_that_is_about_it(backend_site: Site) -> None:
    made = await make(backend_site, content="Acme pays late", trigger_type="context", trigger_value="Acme invoices")
    thread = await backend_site.thread()
    run = await backend_site.post(f"/api/threads/{thread}/runs?wait=30", {"input": "Write the invoice of Acme."})
    sent = await backend_site.get(f"/api/runs/{run['id']}/context")
    assert "Acme pays late" in str(sent["context"]["messages"][-1]) and made["id"] in str(
        sent["context"]["messages"][-1]
    )

    async def triggered() -> bool:
        return bool(await status(backend_site, made) == "triggered")

    await eventually(triggered)
    await backend_site.post(f"/api/reminders/{made['id']}/dismiss", expect=200)
    after = await backend_site.post(f"/api/threads/{thread}/runs?wait=30", {"input": "Thanks."})
    assert "Acme pays late" not in str(await backend_site.get(f"/api/runs/{after['id']}/context"))


WRONG: Final[list[tuple[dict[str, Any], int, str]]] = [
    ({"content": ""}, 400, "content"),
    ({"content": "x" * 5_000}, 400, "content"),
    ({"trigger_type": "mood"}, 400, "trigger_type"),
    ({"trigger_value": None}, 400, "is text"),
    ({"trigger_value": 5}, 400, "trigger_value"),
    ({"trigger_value": "soon"}, 400, "is not a time"),
    ({"trigger_value": "2020-01-01T00:00:00Z"}, 400, "it was understood as 2020-01-01T00:00:00.000Z"),
    ({"trigger_value": "2090-01-01T00:00:00"}, 400, "has no time zone"),
    ({"trigger_value": "0001-01-01T00:00", "timezone": "Asia/Tokyo"}, 400, "is not a time"),
    ({"trigger_value": "9999-12-31T23:59", "timezone": "America/New_York"}, 400, "is not a time"),
    ({"trigger_value": "0 9 * *"}, 400, "is not a time"),
    ({"trigger_value": "0 99 * * *"}, 400, "'field': 'trigger_value'"),
    ({"timezone": "localtime"}, 400, "time zone"),
    ({"timezone": "right/UTC"}, 400, "time zone"),
    ({"timezone": "Mars"}, 400, "time zone"),
    ({"priority": "urgent"}, 400, "priority"),
    ({"recurrence": "daily"}, 400, "'field': 'recurrence'"),
    ({"trigger_type": "condition"}, 400, "one of `event`"),
    ({"trigger_type": "condition", "trigger_value": {"event": "rain"}}, 400, "rain"),
    ({"trigger_type": "condition", "trigger_value": {"judge": "is it?"}}, 400, "needs a budget"),
    ({"trigger_type": "condition", "trigger_value": {"judge": "?", "token_budget": 9, "schedule": "x"}}, 400, "value'"),
    ({"trigger_type": "condition", "trigger_value": {"event": "run.failed", "agent": "no"}}, 404, "no agent `no`"),
    ({"trigger_type": "condition", "trigger_value": {"event": "run.failed", "thread_id": "thr_no"}}, 404, "thr_no"),
    ({"trigger_type": "condition", "trigger_value": {"event": "run.failed", "type": "doc"}}, 400, "have a `type`"),
    ({"trigger_type": "condition", "trigger_value": {"event": "memory.created", "type": "doc"}}, 400, "`semantic`"),
    ({"trigger_type": "condition", "trigger_value": {"silence": "any", "for_seconds": 9, "type": "x"}}, 400, "`type`"),
    ({"trigger_type": "context", "trigger_value": {"about": "tea", "thread_id": "thr_no"}}, 404, "thr_no"),
    ({"trigger_type": "condition", "trigger_value": {"judge": "?", "token_budget": 9, "agent": "no"}}, 404, "no agent"),
    ({"trigger_type": "context", "trigger_value": {"about": ""}}, 400, "about"),
    ({"action": {"type": "notify", "message": "x"}}, 400, "action"),
    ({"action": {"type": "run", "agent": "nobody"}}, 404, "no agent `nobody`"),
    ({"action": {"type": "run", "agent": "bot", "thread_id": "thr_missing"}}, 404, "thr_missing"),
    ({"action": {"type": "run", "agent": "bot", "tags": ["a\0b"]}}, 400, "NUL"),
    ({"thread_id": "thr_missing"}, 404, "thr_missing"),
    ({"id": "not an id"}, 400, "`id` must be"),
    ({"whatever": 1}, 400, "whatever"),
]


@pytest.mark.parametrize(("body", "status_code", "message"), WRONG)
async def test_a_wrong_reminder_is_refused(site: Site, body: dict[str, Any], status_code: int, message: str) -> None:
    before = await site.get("/api/reminders", limit=200)
    refused = await site.post("/api/reminders", {**SOON, **body}, expect=status_code)
    assert message in str(refused["error"])
    assert await site.get("/api/reminders", limit=200) == before


WRONG_CHANGES: Final[list[tuple[dict[str, Any], int]]] = [
    ({"content": ""}, 400),
    ({"content": None}, 400),
    ({"trigger_value": "yesterday"}, 400),
    ({"trigger_type": "condition"}, 400),
    ({"status": "completed"}, 400),
    ({"thread_id": "thr_missing"}, 404),
    ({"action": {"type": "run", "agent": "nobody"}}, 404),
    ({"trigger_type": "condition", "trigger_value": {"event": "run.failed", "agent": "nobody"}}, 404),
    ({"trigger_type": "condition", "trigger_value": {"judge": "?", "token_budget": 9, "agent": "nobody"}}, 404),
    ({"trigger_type": "context", "trigger_value": {"about": "tea", "thread_id": "thr_missing"}}, 404),
]


@pytest.mark.parametrize(("body", "status_code"), WRONG_CHANGES)
async def test_a_wrong_change_is_refused(site: Site, body: dict[str, Any], status_code: int) -> None:
    made = await make(site)
    await site.patch(f"/api/reminders/{made['id']}", body, expect=status_code)
    assert await site.get(f"/api/reminders/{made['id']}") == made
    await site.post(f"/api/reminders/{made['id']}/snooze", {"until": "yesterday"}, expect=400)
    await site.post(f"/api/reminders/{made['id']}/snooze", {}, expect=400)


async def test_a_request_that_is_repeated_sets_one_reminder(site: Site) -> None:
    headers = {"Idempotency-Key": "remind-once"}
    first = await site.request("POST", "/api/reminders", json=SOON, headers=headers)
    second = await site.request("POST", "/api/reminders", json=SOON, headers=headers)
    assert (first.status_code, first.json()["id"]) == (201, second.json()["id"])
