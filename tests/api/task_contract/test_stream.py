"""The stream of a task: replayed events, status, live events, end event."""

import socket

import pytest

from holdfast.api.streams.sse import NO_RETRY
from holdfast.control.streams.live_streams import StreamLimits
from holdfast.domain.content import Json
from holdfast.domain.events import TextMessageContent, TextMessageStart
from holdfast.domain.ids import MessageId
from holdfast.domain.run import RunStatus
from tests.api.site import eventually, serve
from tests.api.streams.manual_run import with_timeout
from tests.api.streams.readers import Frame, SseReader
from tests.api.task_contract.manual_worker import claim_new_task
from tests.api.task_contract.task_client import TERMINAL_STATUSES, TaskClient, check_error, read_frames, run_of
from tests.scenario.agents.agent_workspace import AgentWorkspace


async def test_an_ended_task_is_replayed_then_its_status_and_the_end_event(any_client: TaskClient) -> None:
    task = await any_client.run_to_end("worker")
    frames = await any_client.read_stream(task)
    events = await any_client.events(task)
    assert [frame.event for frame in frames] == [*["task"] * len(events), "status", "task"]
    assert [frame.id for frame in frames] == [*(event["id"] for event in events), None, None]
    assert read_frames(frames)[:-1] == events
    (status,) = read_frames(frames, "status")
    assert status == {"taskId": task, "status": "finished", "output": "did", "error": None}
    _check_end_event(read_frames(frames)[-1], status)


def _check_end_event(event: Json, status: Json) -> None:
    assert set(event) == {"type", "data", "created_at", "event", "timestamp"}
    assert (event["type"], event["data"]) == ("task.status", status)
    assert event["event"] == {"type": "task.status", **status}
    assert isinstance(event["timestamp"], int)


async def test_a_live_stream_equals_the_replay(any_client: TaskClient) -> None:
    task = await any_client.run_to_interrupt()
    async with any_client.stream(task) as stream:
        live = [await with_timeout(stream.frame()) for _ in range(5)]
        assert [frame.event for frame in live] == [None, "task", "task", "task", "status"]
        assert read_frames(live, "status") == [{"taskId": task, "status": "waiting", "output": None, "error": None}]
        await any_client.site.post(f"/tasks/{task}/respond", {"message": "so"}, expect=200)
        live += await stream.rest()
        assert stream.ended
    assert read_frames(live)[:-1] == await any_client.events(task)
    replayed = [frame for frame in await any_client.read_stream(task) if frame.event == "task"]
    assert [frame for frame in live if frame.event == "task"] == replayed, "byte for byte"


async def test_a_failed_task_ends_its_stream_with_the_error(client: TaskClient) -> None:
    task = await client.create("failing")
    frames = read_frames(await client.read_stream(task))
    assert frames[-1]["event"]["status"] == "failed"
    assert frames[-1]["event"]["error"]["code"] == frames[-2]["data"]["reason"] == "MODEL_REFUSED"


async def test_a_cancelled_task_ends_its_stream(client: TaskClient) -> None:
    task = await client.wait_for_text(await client.create("staller"))
    async with client.stream(task) as stream:
        await _until_status(stream)
        await client.site.post(f"/tasks/{task}/cancel", expect=200)
        frames = read_frames(await stream.rest())
    assert [frame["event"]["status"] for frame in frames] == ["canceled", "canceled"]


async def test_a_stream_can_be_opened_before_the_task_starts(idle_client: TaskClient) -> None:
    task = await idle_client.create()
    async with idle_client.stream(task) as stream:
        assert (await _until_status(stream))["status"] == "pending"
        await idle_client.site.post(f"/tasks/{task}/cancel", expect=200)
        assert read_frames(await stream.rest())[0]["data"] == {"from": "pending", "to": "canceled"}


async def test_a_task_that_waits_for_its_mcp_server_is_processing(client: TaskClient) -> None:
    task = await client.create("patient")
    async with client.stream(task) as stream:
        started: list[Json] = []
        while not started:  # before or after the status frame, depending on which came first
            started = read_frames([await with_timeout(stream.frame())])
        assert started[0]["data"] == {"from": "pending", "to": "processing"}
        await client.site.post(f"/tasks/{task}/cancel", expect=200)
        assert read_frames(await stream.rest())[0]["data"] == {"from": "processing", "to": "canceled"}


async def test_the_status_frame_matches_the_events_sent_so_far(idle_client: TaskClient) -> None:
    task = await idle_client.create()
    await idle_client.claim(task)
    assert (await idle_client.read(task))["status"] == "processing"
    async with idle_client.stream(task) as stream:
        assert (await _until_status(stream))["status"] == "pending"  # no event has changed it yet


async def test_a_stream_resumes_after_any_event(client: TaskClient) -> None:
    task = await client.run_to_end("worker")
    frames = await client.read_stream(task)
    for after in range((await client.run(task)).last_event_seq + 1):
        rest = await client.read_stream(task, after=after)
        assert rest == [frame for frame in frames if frame.id is None or frame.id > after]


async def test_last_event_id_may_be_a_query_parameter(client: TaskClient) -> None:
    task = await client.run_to_end("worker")
    response = await client.request("GET", f"/tasks/{task}/stream?last_event_id=7")
    first = int(response.text.split("id: ")[1].split("\n")[0])
    assert first == next(event["id"] for event in await client.events(task) if event["id"] > 7)


async def test_a_stream_has_the_documented_frames_and_headers_against_buffering(client: TaskClient) -> None:
    task = await client.run_to_end()
    response = await client.request("GET", f"/tasks/{task}/stream")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert "\r" not in response.text and response.content.endswith(NO_RETRY), "browsers must not reconnect"
    assert f'\n\nevent: status\ndata: {{"taskId":"{task}","status":"finished"' in response.text
    assert (
        '\nevent: task\ndata: {"id":2,"type":"status.change","data":{"from":"pending","to":"processing"}'
        in response.text
    )


async def test_a_stream_accepts_run_ids_and_task_ids(client: TaskClient) -> None:
    task = await client.run_to_end()
    assert await client.read_stream(run_of(task)) == await client.read_stream(task)


@pytest.mark.parametrize("cursor", ["999", "-1", "abc", "1.5", "1 2", "9" * 40])
@pytest.mark.parametrize("header", [True, False])
async def test_an_invalid_last_event_id_is_rejected(client: TaskClient, cursor: str, header: bool) -> None:
    task = await client.run_to_end()
    options = {"headers": {"Last-Event-ID": cursor}} if header else {"params": {"last_event_id": cursor}}
    check_error(await client.request("GET", f"/tasks/{task}/stream", **options), 400, "VALIDATION_ERROR")


async def test_deleting_a_task_ends_its_stream(any_client: TaskClient) -> None:
    task = await any_client.run_to_interrupt()
    async with any_client.stream(task) as stream:
        await _until_status(stream)
        await any_client.site.delete(f"/tasks/{task}?force=true", expect=200)
        frames = await with_timeout(_frames(stream))
    assert stream.ended
    # The stream may see the end before the deletion, or only the deletion.
    assert "canceled" in str(frames) or any((frame.comment or "").startswith("gone") for frame in frames)
    assert frames[-1].retry == 86_400_000


async def test_a_stream_without_task_events_sends_keepalives(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(keepalive_seconds=0.03)) as site:
        worker = await claim_new_task(TaskClient(site))
        async with TaskClient(site).stream(worker.task) as stream:
            await _until_status(stream)
            comments = [(await with_timeout(stream.frame())).comment for _ in range(3)]
            await worker.append(TextMessageStart(message_id=MessageId("m"), role="assistant"))
            for word in ["and", "so", "on"]:
                await worker.append(TextMessageContent(message_id=MessageId("m"), delta=word))
            comments += [(await with_timeout(stream.frame())).comment for _ in range(3)]
        assert comments == ["keepalive"] * 6
    assert StreamLimits().keepalive_seconds == 15, "by default"


async def test_a_task_continues_after_its_reader_disconnects(client: TaskClient) -> None:
    task = await client.run_to_interrupt()
    async with client.stream(task) as stream:
        await _until_status(stream)
    await client.site.post(f"/tasks/{task}/respond", {"message": "so"}, expect=200)
    await client.wait_for_status(task, *TERMINAL_STATUSES)
    assert (await client.run(task)).status is RunStatus.COMPLETED


async def test_a_stalled_reader_is_disconnected_and_can_resume(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(stall_timeout_seconds=0.1)) as site:
        client = TaskClient(site)
        worker = await claim_new_task(client)
        await worker.call_tools(25, input="x" * 200_000)
        address, port = site.host.split(":")
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect((address, int(port)))
            stalled.sendall(f"GET /tasks/{worker.task}/stream HTTP/1.1\r\nHost: {site.host}\r\n\r\n".encode())
            await eventually(lambda: _holds(site.streams.open_count == 1))
            await eventually(lambda: _holds(site.streams.open_count == 0))
        await worker.finish()
        assert read_frames(await client.read_stream(worker.task))[:-1] == await client.events(worker.task)


async def test_a_stopping_server_ends_streams_and_a_full_one_rejects_them(workshop: AgentWorkspace) -> None:
    async with serve(workshop, workers=0, limits=StreamLimits(max_streams=1)) as site:
        client = TaskClient(site)
        worker = await claim_new_task(client)
        async with client.stream(worker.task) as stream:
            await _until_status(stream)
            check_error(await client.request("GET", f"/tasks/{worker.task}/stream"), 503, "TOO_MANY_STREAMS")
            site.streams.close()
            last = await with_timeout(stream.frame())
            assert last.comment is not None and last.comment.startswith("closing")
            assert await with_timeout(stream.frame()) is None


async def _until_status(stream: SseReader) -> Json:
    """Read up to the status frame, and return its data."""
    while True:
        frame = await with_timeout(stream.frame())
        if frame.event == "status":
            return read_frames([frame], "status")[0]


async def _frames(stream: SseReader) -> list[Frame]:
    """Return all remaining frames, including comments."""
    frames = []
    while (frame := await stream.frame()) is not None:
        frames.append(frame)
    return frames


async def _holds(true: bool) -> bool:
    return true
