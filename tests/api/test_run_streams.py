"""A run whose answer is its own stream."""

import re
from pathlib import Path

import pytest

from holdfast.api.parameters import prefers_stream
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from tests.api.conftest import write_agents
from tests.api.site import Site, serve
from tests.api.test_runs import ended
from tests.scenario.agents.agent_workspace import AgentWorkspace

STREAM = {"Accept": "text/event-stream"}


async def begun(site: Site, thread: str, *, status: int = 200, headers: Json = None, **body: Json) -> tuple[Json, str]:
    """Start a run, and return the headers and the text of its stream once it has ended."""
    path = f"/api/threads/{thread}/runs"
    response = await site.request("POST", path, json={"input": "go", **body}, headers={**STREAM, **(headers or {})})
    assert response.status_code == status, response.text
    return response.headers, response.text


async def written(site: Site, run: str) -> str:
    """Return a run's log, as a stream writes its events."""
    return "".join(f"id: {seq}\ndata: {data.decode()}\n\n" for seq, data in await site.log(RunId(run)))


def events(text: str) -> str:
    """Return a stream without what is not of the log."""
    return re.sub(r"(?m)^(retry: \d+|: .*)\n\n", "", text)


async def test_a_run_answers_with_its_log_byte_for_byte(backend_site: Site) -> None:
    thread = await backend_site.thread()
    headers, text = await begun(backend_site, thread)
    run = headers["x-run-id"]
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["content-location"] == f"/api/spaces/default/runs/{run}"
    assert events(text) == await written(backend_site, run)
    assert (await backend_site.get(headers["content-location"]))["status"] == "completed"


async def test_a_request_that_is_sent_again_gets_the_stream_of_the_first_run(backend_site: Site) -> None:
    thread, key = await backend_site.thread(), {"Idempotency-Key": "stream-once"}
    first, text = await begun(backend_site, thread, headers=key)
    again, same = await begun(backend_site, thread, headers=key)
    assert (again["x-run-id"], events(same)) == (first["x-run-id"], events(text))
    assert ("idempotency-replayed" in first, again["idempotency-replayed"]) == (False, "true")
    plain = await backend_site.request("POST", f"/api/threads/{thread}/runs", json={"input": "go"}, headers=key)
    assert (plain.status_code, plain.json()["id"]) == (201, first["x-run-id"])
    assert len((await backend_site.get(f"/api/threads/{thread}/runs"))["items"]) == 1


async def test_a_stream_that_is_left_leaves_its_run_alone(site: Site) -> None:
    thread = await site.thread(agent_type="asker")
    path = f"/api/threads/{thread}/runs"
    async with site.client.stream("POST", path, json={"input": "go"}, headers=STREAM) as stream:
        run = await site.get(f"/api/runs/{stream.headers['x-run-id']}")
    assert (await site.post(f"/api/runs/{run['id']}/cancel", expect=200))["status"] == "cancelled"
    assert (await ended(site, run))["status"] == "cancelled"


async def test_a_stream_is_not_waited_for(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    refused = await site.post(f"{path}?wait=5", {"input": "go"}, headers=STREAM, expect=400)
    assert (refused["error"]["code"], refused["error"]["details"]) == ("INVALID", {"field": "wait"})
    assert (await site.get(path))["items"] == []
    assert (await site.request("POST", f"{path}?wait=0", json={"input": "go"}, headers=STREAM)).status_code == 200


async def test_what_is_refused_is_told_in_json(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    response = await site.request("POST", path, json={"input": "go", "agent_type": "nobody"}, headers=STREAM)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert response.headers["content-type"] == "application/json"


async def test_where_no_stream_may_be_opened_no_run_is_made(tmp_path: Path) -> None:
    workshop = write_agents(Workshop(tmp_path / "workspace", tmp_path / "holdfast.db"))
    async with serve(workshop, limits=StreamLimits(max_streams=1)) as site:
        stalled = f"/api/threads/{await site.thread(agent_type='staller')}/runs"
        thread = await site.thread()
        async with site.client.stream("POST", stalled, json={"input": "go"}, headers=STREAM) as stream:
            response = await site.request("POST", f"/api/threads/{thread}/runs", json={"input": "go"}, headers=STREAM)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "TOO_MANY_STREAMS")
            assert response.json()["error"]["details"] == {"limit": 1}
            assert (await site.get(f"/api/threads/{thread}/runs"))["items"] == []
            run = stream.headers["x-run-id"]
            await site.post(f"/api/runs/{run}/cancel", expect=200)


@pytest.mark.parametrize(
    ("accept", "stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/event-stream, application/json", True),
        ("application/json;q=0.5, text/event-stream", True),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=9", False),
        ("text/*", False),
        ("*/*", False),
        ("", False),
        (",;=,", False),
    ],
)
def test_a_stream_is_for_those_who_name_it_and_want_nothing_more(accept: str, stream: bool) -> None:
    assert prefers_stream(accept) is stream
