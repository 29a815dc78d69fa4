"""Refused requests change nothing: every table is compared before and after."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from holdfast.domain.content import Json
from tests.api.conftest import BACKENDS, NewDatabase, write_agents
from tests.api.site import Site, eventually, serve
from tests.api.test_bad_input import check_error, list_operations
from tests.conformance.tables import Rows, rows_without_projections
from tests.scenario.agents.agent_workspace import AgentWorkspace


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of one object of each kind in a space."""

    thread_id: str
    run_id: str
    failed_id: str
    waiting_id: str
    artifact_id: str
    file_id: str
    grant_id: str
    message_id: str


class IdleSite:
    """A server without background work, with objects in two spaces."""

    def __init__(self, site: Site, database: str | Path, own: Objects, other: Objects) -> None:
        self.site = site
        self.own = own
        self.other = other
        self._where = database

    async def rows(self) -> dict[str, Rows]:
        """Return the rows of every table that change only on request."""
        return await rows_without_projections(self._where)


@pytest.fixture(scope="module", params=BACKENDS)
async def idle_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> AsyncIterator[IdleSite]:
    """Yield an idle server on each backend."""
    folder = tmp_path_factory.mktemp("still")
    database = folder / "holdfast.db" if request.param == "sqlite" else await new_database()
    async with serve(write_agents(AgentWorkspace(folder / "workspace", database))) as site:
        await site.post("/api/spaces", {"id": "other"})
        idle = IdleSite(site, database, await create_objects(site, "default"), await create_objects(site, "other"))
        await wait_until_idle(idle)
        yield idle


async def create_objects(site: Site, space: str) -> Objects:
    """Create one object of each kind in a space."""
    prefix = f"/api/spaces/{space}"
    file = (
        await site.request("POST", f"{prefix}/files?name=x", content=b"x", headers={"Content-Type": "image/png"})
    ).json()
    runs = {}
    for agent in ("planner", "failing", "asker", "noter"):
        thread = await site.post(f"{prefix}/threads", {"agent_type": agent})
        runs[agent] = await site.post(f"{prefix}/threads/{thread['id']}/runs?wait=30", {"input": "go"})
    artifact_body = {"type": "other", "title": "picture", "file_id": file["id"]}
    artifact = await site.post(f"{prefix}/runs/{runs['planner']['id']}/artifacts", artifact_body)
    answer = {"response": {"decision": "always"}}
    await site.post(f"{prefix}/runs/{runs['noter']['id']}/respond", answer, expect=200)
    (grant,) = (await site.get(f"{prefix}/grants"))["items"]
    messages = await site.get(f"{prefix}/threads/{runs['planner']['thread_id']}/messages")
    return Objects(
        thread_id=runs["planner"]["thread_id"],
        run_id=runs["planner"]["id"],
        failed_id=runs["failing"]["id"],
        waiting_id=runs["asker"]["id"],
        artifact_id=artifact["id"],
        file_id=file["id"],
        grant_id=grant["id"],
        message_id=messages["items"][0]["id"],
    )


async def wait_until_idle(idle_site: IdleSite) -> None:
    """Wait until the notifications of all runs are dispatched: four runs in each space, one of which also asked."""

    async def is_idle() -> bool:
        rows = await idle_site.rows()
        return len(rows["notifications"]) == 10 and all(row["lease_owner"] is None for row in rows["run_heads"])

    await eventually(is_idle)


REFUSED: Final[list[tuple[str, str, Json, int, str]]] = [
    ("POST", "/api/spaces", {"id": "a b"}, 400, "INVALID"),
    ("POST", "/api/spaces", {"id": ""}, 400, "INVALID"),
    ("POST", "/api/spaces", {"id": "ok", "name": "x" * 201}, 413, "TOO_LARGE"),
    ("POST", "/api/spaces", {"id": "ok", "name": "\x00"}, 400, "INVALID"),
    ("PATCH", "/api/spaces/default", {}, 400, "INVALID"),
    ("PATCH", "/api/spaces/default", {"name": None}, 400, "INVALID"),
    ("POST", "/api/threads", {"id": "a/b"}, 400, "INVALID"),
    ("POST", "/api/threads", {"title": "x" * 501}, 413, "TOO_LARGE"),
    ("POST", "/api/threads", {"title": "\x00"}, 400, "INVALID"),
    ("POST", "/api/threads", {"context_window": 0}, 400, "INVALID"),
    ("POST", "/api/threads", {"context_window": 10**30}, 400, "INVALID"),
    ("POST", "/api/threads", {"metadata": []}, 400, "INVALID"),
    ("PATCH", "/api/threads/{thread_id}", {}, 400, "INVALID"),
    ("PATCH", "/api/threads/{thread_id}", {"status": "deleted"}, 400, "INVALID"),
    ("PATCH", "/api/threads/{thread_id}", {"summary": "mine"}, 400, "INVALID"),
    ("POST", "/api/threads/{thread_id}/runs", {"input": "x", "base_run_id": "run_none"}, 404, "NOT_FOUND"),
    ("POST", "/api/threads/{thread_id}/runs", {"input": "x", "model": "nobody:x"}, 400, "INVALID"),
    ("POST", "/api/threads/{thread_id}/runs", {"input": "x", "model": ""}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/respond", {}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/respond", {"response": 1, "interrupt_id": "int_none"}, 404, "NOT_FOUND"),
    ("POST", "/api/runs/{run_id}/retry", {"from": "middle"}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/cancel", {"reason": "x" * 501}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/messages", {"content": "x", "id": "a b"}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/artifacts", {"type": "doc", "title": "x"}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/artifacts", {"type": "film", "title": "x", "content": "x"}, 400, "INVALID"),
    ("POST", "/api/runs/{run_id}/artifacts", {"type": "doc", "title": "x", "file_id": "fil_none"}, 404, "NOT_FOUND"),
    ("POST", "/api/runs/{run_id}/artifacts", {"type": "doc", "title": "x", "content": "\x00"}, 400, "INVALID"),
    ("POST", "/api/notifications/read", {"number": 0}, 400, "INVALID"),
    ("POST", "/api/notifications/read", {"through": 10**30}, 400, "INVALID"),
    ("GET", "/api/threads?title=%00", None, 400, "INVALID"),
    ("GET", "/api/threads?status=gone", None, 400, "INVALID"),
    ("GET", "/api/runs?tag=%00", None, 400, "INVALID"),
    ("GET", "/api/runs?agent_type=%00", None, 400, "INVALID"),
    ("GET", "/api/runs/{run_id}/events?type=%00", None, 400, "INVALID"),
    ("GET", f"/api/runs?tag={'x' * 257}", None, 400, "INVALID"),
    ("GET", f"/api/runs?agent_type={'x' * 257}", None, 400, "INVALID"),
    ("GET", f"/api/runs/{{run_id}}/events?type={'x' * 129}", None, 400, "INVALID"),
    ("GET", f"/api/threads?title={'x' * 501}", None, 400, "INVALID"),
    ("GET", f"/api/threads?agent_type={'x' * 129}", None, 400, "INVALID"),
    ("GET", "/api/runs/{run_id}/context?step=99", None, 404, "NOT_FOUND"),
    ("GET", "/api/threads/{thread_id}/export?format=pdf", None, 400, "INVALID"),
    ("GET", "/api/threads/{thread_id}/messages?run_id=run_none", None, 404, "NOT_FOUND"),
    ("GET", "/api/threads/{thread_id}/messages?cursor=77", None, 400, "INVALID"),
    ("POST", "/api/files", None, 400, "INVALID"),
    ("POST", "/api/files?name=%00", None, 400, "INVALID"),
    ("GET", "/api", None, 404, "NO_SUCH_ROUTE"),
    ("GET", "/api/nothing", None, 404, "NO_SUCH_ROUTE"),
    ("GET", "/api/threads/{thread_id}/nothing", None, 404, "NO_SUCH_ROUTE"),
    ("GET", "/../etc/passwd", None, 404, "NO_SUCH_ROUTE"),
    ("PUT", "/api/threads", {}, 405, "METHOD_NOT_ALLOWED"),
    ("DELETE", "/health", None, 405, "METHOD_NOT_ALLOWED"),
    ("DELETE", "/api/spaces/default", None, 409, "IN_USE"),
    ("POST", "/api/spaces", {"id": "other"}, 409, "ID_TAKEN"),
    ("POST", "/api/threads", {"id": "{thread_id}"}, 409, "ID_TAKEN"),
    ("POST", "/api/threads", {"agent_type": "nobody"}, 404, "NOT_FOUND"),
    ("POST", "/api/threads/{thread_id}/runs", {"input": "x", "id": "{run_id}"}, 409, "ID_TAKEN"),
    ("POST", "/api/threads/{thread_id}/runs", {"input": "x", "agent_type": "nobody"}, 404, "NOT_FOUND"),
    ("POST", "/api/threads/{thread_id}/runs?wait=301", {"input": "x"}, 400, "INVALID"),
    ("POST", "/api/threads/{thread_id}/runs?wait=nan", {"input": "x"}, 400, "INVALID"),
    ("POST", "/api/threads/{thread_id}/tasks", {"title": ""}, 400, "INVALID"),
    ("PATCH", "/api/threads/{thread_id}/tasks/1", {"status": "completed"}, 400, "INVALID"),
    ("PATCH", "/api/threads/{thread_id}/tasks/1", {"status": "completed", "conclusion": "x"}, 409, "CONFLICT"),
    ("PATCH", "/api/threads/{thread_id}/tasks/99", {"title": "x"}, 404, "NOT_FOUND"),
    ("POST", "/api/runs/{run_id}/cancel", None, 409, "ILLEGAL_MOVE"),
    ("POST", "/api/runs/{run_id}/retry", None, 409, "CONFLICT"),
    ("POST", "/api/runs/{waiting_id}/retry", None, 409, "CONFLICT"),
    ("POST", "/api/runs/{run_id}/respond", {"response": 1}, 409, "ALREADY_ANSWERED"),
    ("POST", "/api/runs/{failed_id}/respond", {"response": 1}, 409, "ALREADY_ANSWERED"),
    ("POST", "/api/runs/{run_id}/messages", {"content": "x"}, 409, "CONFLICT"),
    ("POST", "/api/runs/{waiting_id}/messages", {"content": "x"}, 409, "WAITING"),
    ("DELETE", "/api/files/{file_id}", None, 409, "IN_USE"),
    ("GET", "/api/artifacts/{artifact_id}?version=2", None, 404, "NOT_FOUND"),
    ("GET", "/api/artifacts/{artifact_id}?version=0", None, 400, "INVALID"),
    ("GET", "/api/artifacts/{artifact_id}/preview", None, 400, "INVALID"),
    ("GET", "/api/artifacts/{artifact_id}/preview?version=2", None, 404, "NOT_FOUND"),
    ("GET", "/api/artifacts/art_none/preview", None, 404, "NOT_FOUND"),
    ("POST", "/api/notifications/read", {"number": 99999}, 404, "NOT_FOUND"),
    ("POST", "/api/notifications/read", {"number": 1, "through": 2}, 400, "INVALID"),
    ("GET", "/api/runs/{run_id}/sse?last_event_id=99999", None, 400, "BAD_CURSOR"),
    ("GET", "/api/runs/{run_id}/sse?last_event_id=x", None, 400, "BAD_CURSOR"),
    ("GET", "/api/notifications/sse?last_event_id=99999", None, 400, "BAD_CURSOR"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED)
async def test_a_bad_request_is_refused_with_its_code(
    idle_site: IdleSite, method: str, path: str, body: Json, status: int, code: str
) -> None:
    names = msgspec.structs.asdict(idle_site.own)
    body_options = {} if body is None else {"json": _filled(body, names)}
    before = await idle_site.rows()
    check_error(await idle_site.site.request(method, path.format(**names), **body_options), status, code)
    assert await idle_site.rows() == before


async def test_an_object_of_another_space_is_not_found(idle_site: IdleSite) -> None:
    names = msgspec.structs.asdict(idle_site.other)
    before = await idle_site.rows()
    for method, path, operation in list_operations():
        if path.startswith("/api/") and any(f"{{{name}}}" in path for name in names):
            body = {"json": BODIES[operation["operationId"]]} if operation["operationId"] in BODIES else {}
            query = {"search": "?q=x", "compare": "?a=x&b=y"}.get(path.rpartition("/")[2], "")
            address = path.format(task_id=1, **names) + query
            check_error(await idle_site.site.request(method.upper(), address, **body), 404, "NOT_FOUND")
    assert await idle_site.rows() == before


async def test_an_object_of_another_space_cannot_be_referenced(idle_site: IdleSite) -> None:
    own, other = idle_site.own, idle_site.other
    picture = [{"type": "image", "source": {"type": "file", "value": other.file_id}}]
    before = await idle_site.rows()
    for path, body in (
        (f"/api/threads/{own.thread_id}/runs", {"input": "x", "base_run_id": other.run_id}),
        (f"/api/threads/{own.thread_id}/runs", {"messages": [{"content": picture}]}),
        (f"/api/runs/{own.run_id}/artifacts", {"type": "doc", "title": "x", "file_id": other.file_id}),
    ):
        check_error(await idle_site.site.request("POST", path, json=body), 404, "NOT_FOUND")
    for query in ("messages", "tasks", "plan", "export"):
        path = f"/api/threads/{own.thread_id}/{query}?run_id={other.run_id}"
        check_error(await idle_site.site.request("GET", path), 404, "NOT_FOUND")
    assert (await idle_site.site.get("/api/runs", root_run_id=other.run_id))["items"] == []
    assert await idle_site.rows() == before


BODIES: Final[dict[str, Json]] = {
    "update_thread": {"title": "x"},
    "create_run": {"input": "x"},
    "create_plan_item": {"title": "x"},
    "update_plan_item": {"title": "x"},
    "respond": {"response": "x"},
    "steer_run": {"content": "x"},
    "create_artifact": {"type": "doc", "title": "x", "content": "x"},
}


def _filled(body: Json, names: dict[str, str]) -> Json:
    """Return a body with ids in place of the names in braces."""
    return {key: names.get(value[1:-1], value) if isinstance(value, str) else value for key, value in body.items()}
