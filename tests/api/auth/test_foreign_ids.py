"""Ids of another space, on every route that takes one: they look like ids of nothing."""

from collections.abc import Mapping
from typing import Final

import pytest

from holdfast.domain.content import Json
from tests.api.auth.conftest import OURS, THEIRS, House, bearer
from tests.api.auth.test_rules import REQUESTS

MARK: Final = "the secret of globex"
BODIES: Final[Mapping[str, Json]] = {
    "update_thread": {"title": "x"},
    "create_run": {"input": "x"},
    "respond": {"response": "x"},
    "steer_run": {"content": "x"},
    "create_artifact": {"type": "doc", "title": "x", "content": "x"},
    "create_plan_item": {"title": "x"},
    "update_plan_item": {"title": "x"},
    "respond_to_task": {"message": "x"},
}
NAMING: Final = ("thread_id", "run_id", "artifact_id", "file_id", "key_id", "task_id:str", "session_id")
ALIASES: Final = [request for request in REQUESTS if "{space_id" not in request[2]]
WITH_ID: Final = [request for request in ALIASES if any(f"{{{name}" in request[2] for name in NAMING)]
LISTS: Final = [
    (name, path) for name, method, path in ALIASES if method == "GET" and "{" not in path and "sse" not in path
]
ANYBODYS: Final = {"read_metrics", "read_settings", "read_version"}


@pytest.fixture(scope="module")
async def foreign(house: House, theirs_of_module: str) -> dict[str, str]:
    """Return the ids of what the other space has; all of it says so."""
    secret = theirs_of_module
    thread = (await house.post(secret, "/api/threads", {"title": MARK, "agent_type": "bot"}))["id"]
    run = (await house.post(secret, f"/api/threads/{thread}/runs?wait=30", {"input": MARK, "tags": [MARK]}))["id"]
    made = {"type": "doc", "title": MARK, "content": MARK}
    artifact = (await house.post(secret, f"/api/runs/{run}/artifacts", made))["id"]
    await house.post(secret, f"/api/threads/{thread}/tasks", {"title": MARK})
    file = (await house.ask(secret, "POST", f"/api/files?name={MARK}", content=MARK.encode())).json()["id"]
    task = (await house.post(secret, "/agents/bot/task", {"input": MARK}, expect=202))["taskId"]
    session = (await house.post(secret, "/agents/bot/chat", {"message": MARK}, expect=200))["sessionId"]
    key = (await house.key("read", THEIRS, name=MARK))["id"]
    return {
        "{thread_id:str}": thread,
        "{run_id:str}": run,
        "{artifact_id:str}": artifact,
        "{file_id:str}": file,
        "{task_id:str}": task,
        "{task_id:int}": "1",
        "{session_id:str}": session,
        "{key_id:str}": key,
    }


@pytest.fixture(scope="module")
def theirs_of_module(house: House) -> str:
    """Return the key of the other space."""
    return house.keys[f"{THEIRS} admin"]


@pytest.mark.parametrize(("name", "method", "path"), WITH_ID, ids=lambda value: str(value))
async def test_an_id_of_another_space_looks_like_one_that_never_was(
    house: House, foreign: dict[str, str], name: str, method: str, path: str
) -> None:
    ids = {part: foreign[part] for part in path.split("/") if part in foreign}
    theirs = await _asked(house, name, method, _filled(path, ids))
    missing = await _asked(house, name, method, _filled(path, dict.fromkeys(ids, "1")))
    assert theirs[0] == missing[0] == 404
    assert MARK not in theirs[1]
    for part in ids:
        theirs = (404, theirs[1].replace(ids[part], "1"))
    assert theirs[1] == missing[1]


@pytest.mark.parametrize(("name", "path"), LISTS, ids=lambda value: str(value))
async def test_no_list_shows_anything_of_another_space(
    house: House, foreign: dict[str, str], name: str, path: str
) -> None:
    status, shown = await _asked(house, name, "GET", path)
    assert status == 200 or name in ANYBODYS
    assert MARK not in shown
    assert not [value for value in foreign.values() if len(value) > 1 and value in shown]


async def test_the_owner_sees_it_all(house: House, foreign: dict[str, str], theirs_of_module: str) -> None:
    for path in ("/api/threads", "/api/runs", "/api/artifacts", "/api/files", "/tasks", "/sessions", "/api/keys"):
        assert MARK in (await house.ask(theirs_of_module, "GET", path)).text, path


async def _asked(house: House, name: str, method: str, path: str) -> tuple[int, str]:
    body = {"json": BODIES[name]} if name in BODIES else {}
    headers = bearer(house.keys[f"{OURS} admin"])
    async with house.site.client.stream(method, path, headers=headers, **body) as answer:
        return answer.status_code, (await answer.aread()).decode()


def _filled(path: str, ids: Mapping[str, str]) -> str:
    return "/".join(ids.get(part, "x" if part.startswith("{") else part) for part in path.split("/"))
