"""Starting a run with its event stream as the response."""

import re
from pathlib import Path

import pytest

from holdfast.api.parameters import prefers_stream
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId
from tests.api.conftest import write_agents
from tests.api.site import Site, serve
from tests.api.test_runs import wait_for_end
from tests.scenario.agents.agent_workspace import AgentWorkspace

STREAM = {"Accept": "text/event-stream"}


async def start_stream(
    site: Site, thread: str, *, status: int = 200, headers: Json = None, **body: Json
) -> tuple[Json, str]:
    """Start a run, and return the headers and the text of its stream once it has ended."""
    path = f"/api/threads/{thread}/runs"
    response = await site.request("POST", path, json={"input": "go", **body}, headers={**STREAM, **(headers or {})})
    assert response.status_code == status, response.text
    return response.headers, response.text


async def expected_stream(site: Site, run: str) -> str:
    """Return the log of a run in the format of an SSE stream."""
    return "".join(f"id: {seq}\ndata: {data.decode()}\n\n" for seq, data in await site.log(RunId(run)))


def events(text: str) -> str:
    """Return the text of a stream without comments and `retry` lines."""
    return re.sub(r"(?m)^(retry: \d+|: .*)\n\n", "", text)


async def test_the_stream_of_a_new_run_is_its_log_byte_for_byte(backend_site: Site) -> None:
    thread = await backend_site.thread()
    headers, text = await start_stream(backend_site, thread)
    run = headers["x-run-id"]
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["content-location"] == f"/api/spaces/default/runs/{run}"
    assert events(text) == await expected_stream(backend_site, run)
    assert (await backend_site.get(headers["content-location"]))["status"] == "completed"


async def test_a_repeated_request_gets_the_stream_of_the_first_run(backend_site: Site) -> None:
    thread, key = await backend_site.thread(), {"Idempotency-Key": "stream-once"}
    first, text = await start_stream(backend_site, thread, headers=key)
    replay, replayed_text = await start_stream(backend_site, thread, headers=key)
    assert (replay["x-run-id"], events(replayed_text)) == (first["x-run-id"], events(text))
    assert ("idempotency-replayed" in first, replay["idempotency-replayed"]) == (False, "true")
    json_response = await backend_site.request("POST", f"/api/threads/{thread}/runs", json={"input": "go"}, headers=key)
    assert (json_response.status_code, json_response.json()["id"]) == (201, first["x-run-id"])
    assert len((await backend_site.get(f"/api/threads/{thread}/runs"))["items"]) == 1


async def test_closing_a_stream_does_not_stop_its_run(site: Site) -> None:
    thread = await site.thread(agent_type="asker")
    path = f"/api/threads/{thread}/runs"
    async with site.client.stream("POST", path, json={"input": "go"}, headers=STREAM) as stream:
        run = await site.get(f"/api/runs/{stream.headers['x-run-id']}")
    assert (await site.post(f"/api/runs/{run['id']}/cancel", expect=200))["status"] == "cancelled"
    assert (await wait_for_end(site, run))["status"] == "cancelled"


async def test_wait_and_stream_cannot_be_combined(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    refused = await site.post(f"{path}?wait=5", {"input": "go"}, headers=STREAM, expect=400)
    assert (refused["error"]["code"], refused["error"]["details"]) == ("INVALID", {"field": "wait"})
    assert (await site.get(path))["items"] == []
    assert (await site.request("POST", f"{path}?wait=0", json={"input": "go"}, headers=STREAM)).status_code == 200


async def test_an_error_of_a_stream_request_is_json(site: Site) -> None:
    thread = await site.thread()
    path = f"/api/threads/{thread}/runs"
    response = await site.request("POST", path, json={"input": "go", "agent_type": "nobody"}, headers=STREAM)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert response.headers["content-type"] == "application/json"


async def test_no_run_is_created_above_the_stream_limit(tmp_path: Path) -> None:
    workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
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
def test_a_stream_is_sent_only_if_the_client_prefers_it(accept: str, stream: bool) -> None:
    assert prefers_stream(accept) is stream
