"""Ids of another space on every route that takes one: they look like missing ids."""

from collections.abc import Mapping
from typing import Final

import pytest

from holdfast.domain.content import Json
from tests.api.auth.conftest import ACME, GLOBEX, AuthSite, bearer
from tests.api.auth.test_rules import REQUESTS

MARK: Final = "the secret of globex"
ENTITY: Final = "Hank Scorpio"
"""The entity of a memory in the other space."""
BODIES: Final[Mapping[str, Json]] = {
    "update_thread": {"title": "x"},
    "create_run": {"input": "x"},
    "respond": {"response": "x"},
    "steer_run": {"content": "x"},
    "create_artifact": {"type": "doc", "title": "x", "content": "x"},
    "create_plan_item": {"title": "x"},
    "update_plan_item": {"title": "x"},
    "respond_to_task": {"message": "x"},
    "update_memory": {"text": "x"},
    "supersede_memory": {"memory": {"text": "x"}},
    "update_schedule": {"name": "x"},
    "update_reminder": {"content": "x"},
    "update_webhook": {"description": "x"},
    "snooze_reminder": {"until": "in 1 h"},
}
QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "search_everything": {"q": MARK},
    "compare_branches": {"a": "run_1", "b": "run_2"},
    "read_memory_graph": {"start": ENTITY},
    "search_memory_files": {"q": MARK},
    "search_memories": {"q": MARK},
    "search_threads": {"q": MARK},
    "search_messages": {"q": MARK},
}
ID_PARAMETERS: Final = (
    *("thread_id", "run_id", "message_id", "artifact_id", "file_id", "grant_id", "key_id", "task_id:str", "session_id"),
    *("memory_id", "schedule_id", "reminder_id", "webhook_id", "interrupt_id"),
)
ALIASES: Final = [request for request in REQUESTS if "{space_id" not in request[2]]
WITH_ID: Final = [request for request in ALIASES if any(f"{{{name}" in request[2] for name in ID_PARAMETERS)]
LISTS: Final = [
    (name, path) for name, method, path in ALIASES if method == "GET" and "{" not in path and "sse" not in path
]
WITHOUT_SPACE: Final = {"list_backlogs", "read_metrics", "read_settings", "read_version"}
NOT_FOUND: Final = {"read_memory_graph", "read_budget"}
"""Lists around a start that is missing in this space, and what it does not have."""


@pytest.fixture(scope="module")
async def foreign_ids(auth_site: AuthSite, globex_admin_key: str) -> dict[str, str]:
    """Return the ids of objects in the other space, each of which contains `MARK`."""
    secret = globex_admin_key
    thread = (await auth_site.post(secret, "/api/threads", {"title": MARK, "agent_type": "bot"}))["id"]
    run = (await auth_site.post(secret, f"/api/threads/{thread}/runs?wait=30", {"input": MARK, "tags": [MARK]}))["id"]
    artifact_body = {"type": "doc", "title": MARK, "content": MARK}
    artifact = (await auth_site.post(secret, f"/api/runs/{run}/artifacts", artifact_body))["id"]
    await auth_site.post(secret, f"/api/threads/{thread}/tasks", {"title": MARK})
    file = (await auth_site.request(secret, "POST", f"/api/files?name={MARK}", content=MARK.encode())).json()["id"]
    task = (await auth_site.post(secret, "/agents/bot/task", {"input": MARK}, expect=202))["taskId"]
    session = (await auth_site.post(secret, "/agents/bot/chat", {"message": MARK}, expect=200))["sessionId"]
    key = (await auth_site.key("read", GLOBEX, name=MARK))["id"]
    message = (await auth_site.get(secret, f"/api/threads/{thread}/messages"))["items"][0]["id"]
    noter = (await auth_site.post(secret, "/api/threads", {"agent_type": "noter"}))["id"]
    asking = (await auth_site.post(secret, f"/api/threads/{noter}/runs?wait=30", {"input": MARK}))["id"]
    await auth_site.post(secret, f"/api/runs/{asking}/respond", {"response": {"decision": "always"}}, expect=200)
    interrupt = (await auth_site.get(secret, "/api/interrupts?status=answered"))["items"][0]["id"]
    grant = (await auth_site.get(secret, "/api/grants"))["items"][0]["id"]
    memory = (await auth_site.post(secret, "/api/memories", {"text": MARK, "entities": [{"label": ENTITY}]}))["id"]
    await auth_site.request(secret, "PUT", "/memory/MEMORY.md", json={"text": MARK})
    schedule_body = {"name": MARK, "cron": "0 9 * * *", "action": {"type": "notify", "message": MARK}}
    schedule = (await auth_site.post(secret, "/api/schedules", schedule_body))["id"]
    reminder_body = {"content": MARK, "trigger_type": "time", "trigger_value": "in 9 h"}
    reminder = (await auth_site.post(secret, "/api/reminders", reminder_body))["id"]
    webhook_body = {"url": "https://93.184.216.34/", "events": ["reminder.*"], "description": MARK}
    webhook = (await auth_site.post(secret, "/api/webhooks", webhook_body))["id"]
    return {
        "{webhook_id:str}": webhook,
        "{delivery_id:str}": "msg_none",
        "{memory_id:str}": memory,
        "{reminder_id:str}": reminder,
        "{schedule_id:str}": schedule,
        "{thread_id:str}": thread,
        "{run_id:str}": run,
        "{artifact_id:str}": artifact,
        "{file_id:str}": file,
        "{task_id:str}": task,
        "{task_id:int}": "1",
        "{session_id:str}": session,
        "{key_id:str}": key,
        "{message_id:str}": message,
        "{grant_id:str}": grant,
        "{interrupt_id:str}": interrupt,
    }


@pytest.fixture(scope="module")
def globex_admin_key(auth_site: AuthSite) -> str:
    """Return a key with scope `admin` for the space `globex`."""
    return auth_site.keys[f"{GLOBEX} admin"]


@pytest.mark.parametrize(("name", "method", "path"), WITH_ID, ids=lambda value: str(value))
async def test_an_id_of_another_space_looks_like_a_missing_one(
    auth_site: AuthSite, foreign_ids: dict[str, str], name: str, method: str, path: str
) -> None:
    ids = {part: foreign_ids[part] for part in path.split("/") if part in foreign_ids}
    found = await _request(auth_site, name, method, _with_ids(path, ids))
    missing = await _request(auth_site, name, method, _with_ids(path, dict.fromkeys(ids, "1")))
    assert found[0] == missing[0] == 404
    assert MARK not in found[1]
    for part in ids:
        found = (404, found[1].replace(ids[part], "1"))
    assert found[1] == missing[1]


@pytest.mark.parametrize(("name", "path"), LISTS, ids=lambda value: str(value))
async def test_no_list_shows_anything_of_another_space(
    auth_site: AuthSite, foreign_ids: dict[str, str], name: str, path: str
) -> None:
    status, text = await _request(auth_site, name, "GET", path)
    assert status == (404 if name in NOT_FOUND else 200) or name in WITHOUT_SPACE
    assert MARK not in text
    assert not [value for value in foreign_ids.values() if len(value) > 1 and value in text]


async def test_the_owner_sees_its_objects(
    auth_site: AuthSite, foreign_ids: dict[str, str], globex_admin_key: str
) -> None:
    for path in (
        *("/api/threads", "/api/runs", "/api/artifacts", "/api/files", "/tasks", "/sessions", "/api/keys"),
        *("/api/memories", f"/api/memories/graph?start={ENTITY}", "/api/memories/timeline", "/api/schedules"),
        *("/memory/MEMORY.md", f"/memory/search?q={MARK}"),
    ):
        assert MARK in (await auth_site.request(globex_admin_key, "GET", path)).text, path


async def _request(auth_site: AuthSite, name: str, method: str, path: str) -> tuple[int, str]:
    body = {"json": BODIES[name]} if name in BODIES else {}
    headers = bearer(auth_site.keys[f"{ACME} admin"])
    async with auth_site.site.client.stream(
        method, path, headers=headers, params=QUERIES.get(name), **body
    ) as response:
        return response.status_code, (await response.aread()).decode()


def _with_ids(path: str, ids: Mapping[str, str]) -> str:
    return "/".join(ids.get(part, "x" if part.startswith("{") else part) for part in path.split("/"))
