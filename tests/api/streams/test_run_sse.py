"""The log of a run as server-sent events."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from holdfast.api.streams.sse import NO_RETRY
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.run import RunStatus
from tests.api.site import LIMIT, Site, served
from tests.api.streams.readers import sse
from tests.api.streams.stage import begun, soon
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace


async def test_a_stream_begins_with_headers_that_no_proxy_holds_up(stage: Site) -> None:
    hand = await begun(stage)
    async with sse(stage.host, f"/api/runs/{hand.id}/sse") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        first = await soon(stream.frame())
        assert (first.retry, first.data) == (1000, None)


async def test_a_stream_sends_the_log_as_it_is_and_closes_after_the_end_of_the_run(stage: Site) -> None:
    hand = await begun(stage)
    await hand.say("one", "two")
    async with sse(stage.host, f"/api/runs/{hand.id}/sse") as stream:
        assert (await soon(stream.frame())).retry is not None
        frames = [await soon(stream.frame()) for _ in range(4)]
        await hand.say("three")
        await hand.finish()
        frames += await stream.rest()
        assert stream.ended
    assert [(each.id, each.data) for each in frames] == await stage.log(hand.id)
    assert all(each.event is None for each in frames)


async def test_an_ended_run_is_replayed_whole_and_a_browser_does_not_come_back(stage: Site) -> None:
    hand = await begun(stage)
    await hand.say(*"abc")
    await hand.finish()
    answer = await stage.ask("GET", f"/api/runs/{hand.id}/sse")
    assert answer.content.endswith(NO_RETRY)
    log = await stage.log(hand.id)
    assert answer.content.count(b"data: ") == len(log)


@pytest.mark.parametrize("header", [True, False])
async def test_a_stream_goes_on_after_the_event_that_is_named(stage: Site, header: bool) -> None:
    hand = await begun(stage)
    await hand.say(*"abcdef")
    await hand.finish()
    log = await stage.log(hand.id)
    query = "" if header else "?last_event_id=4"
    async with sse(stage.host, f"/api/runs/{hand.id}/sse{query}", after=4 if header else None) as stream:
        assert [(frame.id, frame.data) for frame in await stream.rest()] == log[4:]


async def test_the_header_is_newer_than_the_address(stage: Site) -> None:
    hand = await begun(stage)
    await hand.say(*"abcdef")
    await hand.finish()
    async with sse(stage.host, f"/api/runs/{hand.id}/sse?last_event_id=1", after=5) as stream:
        assert (await stream.rest())[0].id == 6


async def test_a_log_that_is_longer_than_a_page_is_replayed_whole(stage: Site) -> None:
    hand = await begun(stage)
    for _ in range(4):
        await hand.say(*(f"{number}" for number in range(300)))
    async with sse(stage.host, f"/api/runs/{hand.id}/sse") as stream:
        await hand.finish()
        assert [(frame.id, frame.data) for frame in await stream.rest()] == await stage.log(hand.id)


@pytest.mark.parametrize("cursor", ["999", "-1", "abc", "1.5", "1e3", "٣", "1 2", "9" * 40, "0x1"])
@pytest.mark.parametrize("header", [True, False])
async def test_a_cursor_that_is_none_of_ours_is_refused(stage: Site, cursor: str, header: bool) -> None:
    hand = await begun(stage)
    if header and cursor.isascii():
        path, options = f"/api/runs/{hand.id}/sse", {"headers": {"Last-Event-ID": cursor}}
    else:
        path, options = f"/api/runs/{hand.id}/sse", {"params": {"last_event_id": cursor}}
    answer = await stage.ask("GET", path, **options)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_a_run_that_is_not_there_is_not_found(stage: Site) -> None:
    for path in ("/api/runs/run_none/sse", "/api/spaces/other/runs/run_none/sse", "/api/runs/run%2F/sse"):
        answer = await stage.ask("GET", path)
        assert answer.status_code == 404, path
    answer = await stage.ask("GET", f"/api/runs/{(await begun(stage)).id}/sse?nonsense=1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID")


async def test_a_task_id_names_the_same_run(stage: Site) -> None:
    hand = await begun(stage)
    await hand.finish()
    task = hand.id.replace("run_", "task_", 1)
    answers = [(await stage.ask("GET", f"/api/runs/{name}/sse")).content for name in (hand.id, task)]
    assert answers[0] == answers[1] != b""


async def test_a_reader_that_goes_away_does_not_stop_the_run(stage: Site) -> None:
    hand = await begun(stage)
    async with sse(stage.host, f"/api/runs/{hand.id}/sse") as stream:
        await soon(stream.frame())
    await hand.say("still here")
    await hand.finish()
    assert (await stage.store.runs.get(SPACE, hand.id)).status is RunStatus.COMPLETED


async def test_a_run_that_is_ended_from_outside_ends_its_stream(stage: Site) -> None:
    hand = await begun(stage)
    async with sse(stage.host, f"/api/runs/{hand.id}/sse", after=1) as stream:
        await soon(stream.frame())
        await stage.store.runs.end(SPACE, hand.id)
        frames = await stream.rest()
    assert [frame.id for frame in frames] == [2]


async def test_a_silent_stream_shows_signs_of_life(workshop: AgentWorkspace) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(keepalive_seconds=0.03)) as stage:
        hand = await begun(stage)
        async with sse(stage.host, f"/api/runs/{hand.id}/sse", after=1) as stream:
            comments = [(await soon(stream.frame())).comment for _ in range(4)]
        assert comments == [None, "keepalive", "keepalive", "keepalive"]


async def test_more_streams_than_may_be_open_are_refused(workshop: AgentWorkspace) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(max_streams=2)) as stage:
        path = f"/api/runs/{(await begun(stage)).id}/sse"
        async with sse(stage.host, path), sse(stage.host, path):
            answer = await stage.ask("GET", path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "TOO_MANY_STREAMS")
        await _until(lambda: stage.feeds.open_count == 0)
        async with sse(stage.host, path) as stream:
            assert stream.status == 200


async def test_a_server_that_stops_lets_its_readers_go(own_stage: Site) -> None:
    hand = await begun(own_stage)
    async with sse(own_stage.host, f"/api/runs/{hand.id}/sse", after=1) as stream:
        await soon(stream.frame())
        own_stage.feeds.close()
        last = await soon(stream.frame())
        assert last.comment is not None and last.comment.startswith("closing")
        assert await soon(stream.frame()) is None
    answer = await own_stage.ask("GET", f"/api/runs/{hand.id}/sse")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE")


async def test_a_reader_that_takes_nothing_is_cut_off_and_can_resume(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(workshop, workers=0, habits=StreamLimits(stall_timeout_seconds=0.1)) as stage:
        hand = await begun(stage)
        stuck = await _stuck(stage, f"/api/runs/{hand.id}/sse")
        try:
            while stage.feeds.open_count:
                await hand.say("x" * 100_000)
        finally:
            stuck.close()
        assert f"disconnected a stalled reader of run {SPACE}/{hand.id}" in caplog.messages
        await hand.finish()
        async with sse(stage.host, f"/api/runs/{hand.id}/sse", after=1) as stream:
            assert [(frame.id, frame.data) for frame in await stream.rest()] == (await stage.log(hand.id))[1:]


async def test_a_slow_reader_costs_the_server_no_memory(workshop: AgentWorkspace) -> None:
    async with served(workshop, workers=0) as stage:
        hand = await begun(stage)
        stuck = await _stuck(stage, f"/api/runs/{hand.id}/sse")
        try:
            for _ in range(100):
                await hand.say("x" * 100_000)
            assert stage.feeds.buffered_bytes < 500_000
        finally:
            stuck.close()


async def _stuck(stage: Site, path: str) -> socket.socket:
    """Open a stream, and read nothing of it."""
    address, port = stage.host.split(":")
    stuck = socket.create_connection((address, int(port)))
    stuck.sendall(f"GET {path} HTTP/1.1\r\nHost: {stage.host}\r\n\r\n".encode())
    await _until(lambda: stage.feeds.open_count > 0)
    return stuck


async def _until(true: Callable[[], bool]) -> None:
    """Wait until the server has noticed something of which it tells nobody."""
    async with asyncio.timeout(LIMIT):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
