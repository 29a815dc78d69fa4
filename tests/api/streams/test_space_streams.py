"""Streams of a space: notifications, and the status of its runs."""

import msgspec

from tests.api.site import Site
from tests.api.streams.manual_run import start_manual_run, with_timeout
from tests.api.streams.readers import SseReader, sse
from tests.scenario.agents.agent_workspace import SPACE


async def test_the_notification_stream_starts_with_the_next_notification(backend_site: Site) -> None:
    await _notify(backend_site)
    latest = (await backend_site.store.notifications.latest(SPACE))[0].number
    async with sse(backend_site.host, "/api/notifications/sse") as stream:
        opening = [await with_timeout(stream.frame()) for _ in range(2)]
        assert [frame.id for frame in opening] == [None, latest]
        run = await _notify(backend_site)
        frame = await _next_data(stream)
    assert frame["number"] == latest + 1
    assert (frame["run_id"], frame["kind"]) == (run, "run.completed")


async def test_notifications_are_replayed_after_a_number(own_site: Site) -> None:
    runs = [await _notify(own_site) for _ in range(3)]
    for path in ("/api/notifications/sse", f"/api/spaces/{SPACE}/notifications/sse"):
        async with sse(own_site.host, path, after=1) as stream:
            assert [(await _next_data(stream))["run_id"] for _ in range(2)] == runs[1:]
    async with sse(own_site.host, "/api/notifications/sse?last_event_id=0") as stream:
        assert [(await _next_data(stream))["run_id"] for _ in range(3)] == runs


async def test_an_invalid_notification_cursor_is_refused(site: Site) -> None:
    for cursor in ("999999", "x"):
        response = await site.request("GET", "/api/notifications/sse", params={"last_event_id": cursor})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_the_feed_of_a_space_sends_the_status_of_runs(backend_site: Site) -> None:
    async with sse(backend_site.host, f"/api/spaces/{SPACE}/feed") as stream:
        assert (await with_timeout(stream.frame())).retry == 1000
        manual_run = await start_manual_run(backend_site.store)
        await manual_run.say("a")
        await manual_run.finish()
        while (hint := await _next_data(stream))["status"] != "completed":
            assert hint["run_id"] == manual_run.id
    run = await backend_site.store.runs.get(SPACE, manual_run.id)
    assert hint == {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "status": "completed",
        "last_event_seq": run.last_event_seq,
    }


async def test_streams_of_a_missing_space_are_not_found(site: Site) -> None:
    for path in ("/api/spaces/none/feed", "/api/spaces/none/notifications/sse", "/api/spaces/none/runs/x/sse"):
        response = await site.request("GET", path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND"), path


async def test_deleting_a_space_ends_its_streams(site: Site) -> None:
    await site.post("/api/spaces", {"id": "brief"})
    async with (
        sse(site.host, "/api/spaces/brief/feed") as hints,
        sse(site.host, "/api/spaces/brief/notifications/sse") as news,
    ):
        await site.delete("/api/spaces/brief")
        for stream in (hints, news):
            while (comment := (await with_timeout(stream.frame())).comment) in (None, "keepalive"):
                pass
            assert comment == "gone: the subject of this stream was deleted"


async def _notify(site: Site) -> str:
    """Complete a run, dispatch its notification, and return its id."""
    before = len(await site.store.notifications.latest(SPACE))
    manual_run = await start_manual_run(site.store)
    await manual_run.finish()
    while len(await site.store.notifications.latest(SPACE)) == before:
        await site.store.notifications.dispatch()
    return manual_run.id


async def _next_data(stream: SseReader) -> dict[str, object]:
    while (frame := await with_timeout(stream.frame())).data is None:
        pass
    decoded: dict[str, object] = msgspec.json.decode(frame.data)
    return decoded
