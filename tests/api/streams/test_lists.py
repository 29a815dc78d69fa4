"""What keeps lists up to date: notifications, and hints of where runs stand."""

import msgspec

from tests.api.site import Site
from tests.api.streams.readers import SseReader, sse
from tests.api.streams.stage import begun, soon
from tests.scenario.agents.agent_workspace import SPACE


async def test_notifications_are_sent_from_now_on(everywhere: Site) -> None:
    await _news(everywhere)
    latest = (await everywhere.store.notifications.latest(SPACE))[0].number
    async with sse(everywhere.host, "/api/notifications/sse") as stream:
        opening = [await soon(stream.frame()) for _ in range(2)]
        assert [frame.id for frame in opening] == [None, latest]
        run = await _news(everywhere)
        frame = await _next(stream)
    assert frame["number"] == latest + 1
    assert (frame["run_id"], frame["kind"]) == (run, "run.completed")


async def test_notifications_are_replayed_after_a_number(own_stage: Site) -> None:
    runs = [await _news(own_stage) for _ in range(3)]
    for path in ("/api/notifications/sse", f"/api/spaces/{SPACE}/notifications/sse"):
        async with sse(own_stage.host, path, after=1) as stream:
            assert [(await _next(stream))["run_id"] for _ in range(2)] == runs[1:]
    async with sse(own_stage.host, "/api/notifications/sse?last_event_id=0") as stream:
        assert [(await _next(stream))["run_id"] for _ in range(3)] == runs


async def test_a_notification_from_the_future_is_refused(stage: Site) -> None:
    for cursor in ("999999", "x"):
        answer = await stage.ask("GET", "/api/notifications/sse", params={"last_event_id": cursor})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_the_feed_of_a_space_tells_where_runs_stand(everywhere: Site) -> None:
    async with sse(everywhere.host, f"/api/spaces/{SPACE}/feed") as stream:
        assert (await soon(stream.frame())).retry == 1000
        hand = await begun(everywhere)
        await hand.say("a")
        await hand.finish()
        while (hint := await _next(stream))["status"] != "completed":
            assert hint["run_id"] == hand.id
    run = await everywhere.store.runs.get(SPACE, hand.id)
    assert hint == {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "status": "completed",
        "last_event_seq": run.last_event_seq,
    }


async def test_a_space_that_is_not_there_has_no_streams(stage: Site) -> None:
    for path in ("/api/spaces/none/feed", "/api/spaces/none/notifications/sse", "/api/spaces/none/runs/x/sse"):
        answer = await stage.ask("GET", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND"), path


async def test_a_space_that_is_deleted_ends_its_streams(stage: Site) -> None:
    await stage.post("/api/spaces", {"id": "brief"})
    async with (
        sse(stage.host, "/api/spaces/brief/feed") as hints,
        sse(stage.host, "/api/spaces/brief/notifications/sse") as news,
    ):
        await stage.delete("/api/spaces/brief")
        for stream in (hints, news):
            while (comment := (await soon(stream.frame())).comment) in (None, "keepalive"):
                pass
            assert comment == "gone: the subject of this stream was deleted"


async def _news(stage: Site) -> str:
    """Complete a run, and have it told."""
    before = len(await stage.store.notifications.latest(SPACE))
    hand = await begun(stage)
    await hand.finish()
    while len(await stage.store.notifications.latest(SPACE)) == before:
        await stage.store.notifications.dispatch()
    return hand.id


async def _next(stream: SseReader) -> dict[str, object]:
    while (frame := await soon(stream.frame())).data is None:
        pass
    found: dict[str, object] = msgspec.json.decode(frame.data)
    return found
