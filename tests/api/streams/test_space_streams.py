"""What keeps lists up to date: notifications, and hints of where runs stand."""

import msgspec

from tests.api.site import Site
from tests.api.streams.manual_run import start_manual_run, with_timeout
from tests.api.streams.readers import SseReader, sse
from tests.scenario.agents.workshop import SPACE


async def test_notifications_are_sent_from_now_on(backend_site: Site) -> None:
    await _news(backend_site)
    latest = (await backend_site.store.notifications.latest(SPACE))[0].number
    async with sse(backend_site.host, "/api/notifications/sse") as stream:
        opening = [await with_timeout(stream.frame()) for _ in range(2)]
        assert [frame.id for frame in opening] == [None, latest]
        run = await _news(backend_site)
        frame = await _next(stream)
    assert frame["number"] == latest + 1
    assert (frame["run_id"], frame["kind"]) == (run, "run.completed")


async def test_notifications_are_replayed_after_a_number(own_site: Site) -> None:
    runs = [await _news(own_site) for _ in range(3)]
    for path in ("/api/notifications/sse", f"/api/spaces/{SPACE}/notifications/sse"):
        async with sse(own_site.host, path, after=1) as stream:
            assert [(await _next(stream))["run_id"] for _ in range(2)] == runs[1:]
    async with sse(own_site.host, "/api/notifications/sse?last_event_id=0") as stream:
        assert [(await _next(stream))["run_id"] for _ in range(3)] == runs


async def test_a_notification_from_the_future_is_refused(site: Site) -> None:
    for cursor in ("999999", "x"):
        response = await site.request("GET", "/api/notifications/sse", params={"last_event_id": cursor})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_the_feed_of_a_space_tells_where_runs_stand(backend_site: Site) -> None:
    async with sse(backend_site.host, f"/api/spaces/{SPACE}/feed") as stream:
        assert (await with_timeout(stream.frame())).retry == 1000
        manual_run = await start_manual_run(backend_site.store)
        await manual_run.say("a")
        await manual_run.finish()
        while (hint := await _next(stream))["status"] != "completed":
            assert hint["run_id"] == manual_run.id
    run = await backend_site.store.runs.get(SPACE, manual_run.id)
    assert hint == {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "status": "completed",
        "last_event_seq": run.last_event_seq,
    }


async def test_a_space_that_is_not_there_has_no_streams(site: Site) -> None:
    for path in ("/api/spaces/none/feed", "/api/spaces/none/notifications/sse", "/api/spaces/none/runs/x/sse"):
        response = await site.request("GET", path)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "NOT_FOUND"), path


async def test_a_space_that_is_deleted_ends_its_streams(site: Site) -> None:
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


async def _news(site: Site) -> str:
    """Complete a run, and have it told."""
    before = len(await site.store.notifications.latest(SPACE))
    manual_run = await start_manual_run(site.store)
    await manual_run.finish()
    while len(await site.store.notifications.latest(SPACE)) == before:
        await site.store.notifications.dispatch()
    return manual_run.id


async def _next(stream: SseReader) -> dict[str, object]:
    while (frame := await with_timeout(stream.frame())).data is None:
        pass
    found: dict[str, object] = msgspec.json.decode(frame.data)
    return found
