"""The log of a run as server-sent events."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from holdfast.api.streams.sse import NO_RETRY
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.run import RunStatus
from tests.api.site import TIMEOUT_SECONDS, Site, serve
from tests.api.streams.manual_run import start_manual_run, with_timeout
from tests.api.streams.readers import sse
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace


async def test_the_headers_of_a_stream_keep_proxies_from_buffering(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        first = await with_timeout(stream.frame())
        assert (first.retry, first.data) == (1000, None)


async def test_a_stream_sends_the_log_unchanged_and_closes_after_the_end_of_the_run(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say("one", "two")
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        assert (await with_timeout(stream.frame())).retry is not None
        frames = [await with_timeout(stream.frame()) for _ in range(4)]
        await manual_run.say("three")
        await manual_run.finish()
        frames += await stream.rest()
        assert stream.ended
    assert [(each.id, each.data) for each in frames] == await site.log(manual_run.id)
    assert all(each.event is None for each in frames)


async def test_an_ended_run_is_replayed_in_full_and_browsers_do_not_reconnect(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say(*"abc")
    await manual_run.finish()
    response = await site.request("GET", f"/api/runs/{manual_run.id}/sse")
    assert response.content.endswith(NO_RETRY)
    log = await site.log(manual_run.id)
    assert response.content.count(b"data: ") == len(log)


@pytest.mark.parametrize("header", [True, False])
async def test_a_stream_resumes_after_the_last_event_id(site: Site, header: bool) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say(*"abcdef")
    await manual_run.finish()
    log = await site.log(manual_run.id)
    query = "" if header else "?last_event_id=4"
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse{query}", after=4 if header else None) as stream:
        assert [(frame.id, frame.data) for frame in await stream.rest()] == log[4:]


async def test_the_last_event_id_header_wins_over_the_query(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.say(*"abcdef")
    await manual_run.finish()
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse?last_event_id=1", after=5) as stream:
        assert (await stream.rest())[0].id == 6


async def test_a_log_longer_than_a_page_is_replayed_in_full(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    for _ in range(4):
        await manual_run.say(*(f"{number}" for number in range(300)))
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        await manual_run.finish()
        assert [(frame.id, frame.data) for frame in await stream.rest()] == await site.log(manual_run.id)


@pytest.mark.parametrize("cursor", ["999", "-1", "abc", "1.5", "1e3", "٣", "1 2", "9" * 40, "0x1"])
@pytest.mark.parametrize("header", [True, False])
async def test_an_invalid_cursor_is_refused(site: Site, cursor: str, header: bool) -> None:
    manual_run = await start_manual_run(site.store)
    if header and cursor.isascii():
        path, options = f"/api/runs/{manual_run.id}/sse", {"headers": {"Last-Event-ID": cursor}}
    else:
        path, options = f"/api/runs/{manual_run.id}/sse", {"params": {"last_event_id": cursor}}
    response = await site.request("GET", path, **options)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_a_missing_run_is_not_found(site: Site) -> None:
    for path in ("/api/runs/run_none/sse", "/api/spaces/other/runs/run_none/sse", "/api/runs/run%2F/sse"):
        response = await site.request("GET", path)
        assert response.status_code == 404, path
    response = await site.request("GET", f"/api/runs/{(await start_manual_run(site.store)).id}/sse?nonsense=1")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID")


async def test_a_task_id_names_the_same_run(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    await manual_run.finish()
    task = manual_run.id.replace("run_", "task_", 1)
    responses = [(await site.request("GET", f"/api/runs/{name}/sse")).content for name in (manual_run.id, task)]
    assert responses[0] == responses[1] != b""


async def test_a_reader_that_disconnects_does_not_stop_the_run(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse") as stream:
        await with_timeout(stream.frame())
    await manual_run.say("still here")
    await manual_run.finish()
    assert (await site.store.runs.get(SPACE, manual_run.id)).status is RunStatus.COMPLETED


async def test_ending_a_run_from_outside_ends_its_stream(site: Site) -> None:
    manual_run = await start_manual_run(site.store)
    async with sse(site.host, f"/api/runs/{manual_run.id}/sse", after=1) as stream:
        await with_timeout(stream.frame())
        await site.store.runs.end(SPACE, manual_run.id)
        frames = await stream.rest()
    assert [frame.id for frame in frames] == [2]


async def test_a_silent_stream_sends_keepalives(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(keepalive_seconds=0.03)) as site:
        manual_run = await start_manual_run(site.store)
        async with sse(site.host, f"/api/runs/{manual_run.id}/sse", after=1) as stream:
            comments = [(await with_timeout(stream.frame())).comment for _ in range(4)]
        assert comments == [None, "keepalive", "keepalive", "keepalive"]


async def test_a_stream_above_the_limit_is_refused(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=2)) as site:
        path = f"/api/runs/{(await start_manual_run(site.store)).id}/sse"
        async with sse(site.host, path), sse(site.host, path):
            response = await site.request("GET", path)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "TOO_MANY_STREAMS")
        await _until(lambda: site.streams.open_count == 0)
        async with sse(site.host, path) as stream:
            assert stream.status == 200


async def test_a_stopping_server_ends_its_streams(own_site: Site) -> None:
    manual_run = await start_manual_run(own_site.store)
    async with sse(own_site.host, f"/api/runs/{manual_run.id}/sse", after=1) as stream:
        await with_timeout(stream.frame())
        own_site.streams.close()
        last = await with_timeout(stream.frame())
        assert last.comment is not None and last.comment.startswith("closing")
        assert await with_timeout(stream.frame()) is None
    response = await own_site.request("GET", f"/api/runs/{manual_run.id}/sse")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "UNAVAILABLE")


async def test_a_stalled_reader_is_disconnected_and_can_resume(
    workshop: AgentWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as site:
        manual_run = await start_manual_run(site.store)
        stalled = await _open_stalled(site, f"/api/runs/{manual_run.id}/sse")
        try:
            while site.streams.open_count:
                await manual_run.say("x" * 100_000)
        finally:
            stalled.close()
        assert f"disconnected a stalled subscriber of run {SPACE}/{manual_run.id}" in caplog.messages
        await manual_run.finish()
        async with sse(site.host, f"/api/runs/{manual_run.id}/sse", after=1) as stream:
            assert [(frame.id, frame.data) for frame in await stream.rest()] == (await site.log(manual_run.id))[1:]


async def test_a_slow_reader_does_not_grow_the_buffers(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0) as site:
        manual_run = await start_manual_run(site.store)
        stalled = await _open_stalled(site, f"/api/runs/{manual_run.id}/sse")
        try:
            for _ in range(100):
                await manual_run.say("x" * 100_000)
            assert site.streams.buffered_bytes < 500_000
        finally:
            stalled.close()


async def _open_stalled(site: Site, path: str) -> socket.socket:
    """Open a stream, and read nothing of it."""
    address, port = site.host.split(":")
    stalled = socket.create_connection((address, int(port)))
    stalled.sendall(f"GET {path} HTTP/1.1\r\nHost: {site.host}\r\n\r\n".encode())
    await _until(lambda: site.streams.open_count > 0)
    return stalled


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, by polling."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
