"""The connection of a client: streams that resume, requests that are repeated safely, and clear errors."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Client, HoldfastApi, HoldfastError, Invalid, ServerUnreachable, SyncClient
from holdfast.api.streams.sse import KEEPALIVE, RETRY, sse_frames_with_ids
from holdfast.client.api import RunEvent, RunHandle
from holdfast.client.client import RemoteRun
from holdfast.client.wire import Outage, SseParser
from holdfast.domain.errors import NotHoldfast
from holdfast.domain.events import TextMessageContent, encode_event
from holdfast.domain.ids import MessageId
from holdfast.domain.instant import Instant
from holdfast.ports.log import LoggedEvent
from tests.api.server_process import run_server
from tests.client.sync_source import CLIENT, MODULES, sync_source
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say

NOW = Instant("2026-01-31T12:00:00.000Z")
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=8)


def test_the_sync_client_is_generated_from_the_async_one() -> None:
    for module in MODULES:
        assert (CLIENT / "sync" / f"{module}.py").read_text() == sync_source(module), "run the module that generates it"


def test_the_clients_implement_the_protocol() -> None:
    api: Callable[[], HoldfastApi] = Client
    handle: Callable[[Client, str], RunHandle] = RemoteRun
    assert api is Client and handle is RemoteRun


def logged(texts: list[str]) -> list[LoggedEvent]:
    """Return a log with text messages."""
    events = [TextMessageContent(message_id=MessageId("msg_1"), delta=text) for text in texts]
    return [
        LoggedEvent(seq=seq, type="TEXT_MESSAGE_CONTENT", data=encode_event(event), created_at=NOW)
        for seq, event in enumerate(events, start=1)
    ]


def read(chunks: list[bytes]) -> list[tuple[int, bytes]]:
    """Return the events that a client reads."""
    parser = SseParser()
    return [(event.seq, event.data) for chunk in chunks for event in parser.feed(chunk)]


@given(texts=TEXTS, data=st.data())
def test_a_stream_is_read_the_same_wherever_it_is_split(texts: list[str], data: st.DataObject) -> None:
    log = logged(texts)
    stream = RETRY + KEEPALIVE.join(sse_frames_with_ids([event]) for event in log) + KEEPALIVE
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(chunks) == [(event.seq, event.data) for event in log]


@given(texts=TEXTS, data=st.data())
def test_an_incomplete_event_is_dropped(texts: list[str], data: st.DataObject) -> None:
    log = logged(texts)
    stream = sse_frames_with_ids(log)
    received = read([stream[: data.draw(st.integers(0, len(stream)))]])
    assert received == [(event.seq, event.data) for event in log][: len(received)]


def test_an_outage_is_reported_again_and_again_and_then_ends() -> None:
    said: list[str] = []
    lasting = Outage("http://x", retry_seconds=1000, notify=said.append, reminder_seconds=0)
    error = ServerUnreachable("nothing listens there")
    delays = [lasting.delay(error) for _ in range(20)]
    assert 0 < delays[0] <= 0.1 and max(delays) <= 2
    assert "the run is safe" in said[0] and "no answer from http://x" in said[1] and "Ctrl-C detaches" in said[1]
    lasting.restored(7)
    assert said[-1] == "reconnected, after event 7"
    with pytest.raises(ServerUnreachable, match="no server at http://x .nothing listens there.: start one"):
        Outage("http://x", retry_seconds=0).delay(error)


async def test_a_stream_continues_where_it_was_when_the_server_is_killed(tmp_path: Path) -> None:
    workspace = AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db")
    workspace.agent(calling(call("ask_user", question="go on?")), say("done"), name="bot", tools=["ask_user"])
    with run_server(tmp_path, "--quiet") as first:
        async with Client(first.url, retry_seconds=120) as hf:
            run = await hf.start("bot", "go")
            await run.wait()
            said: asyncio.Queue[str] = asyncio.Queue()
            seen: list[RunEvent] = []
            begun = asyncio.Event()

            async def follow() -> None:
                async for event in run.stream(on_connection=said.put_nowait):
                    seen.append(event)
                    begun.set()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follow())
                await asyncio.wait_for(begun.wait(), 60)
                first.kill()
                assert "the run is safe" in await said.get()
                with run_server(tmp_path, "--quiet", "--port", first.port):
                    await run.respond("yes")
                    assert await run.result() == "done"
                    assert [event.seq async for event in run.stream()] == list(
                        range(1, (await run.get()).last_event_seq + 1)
                    )
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1)) and seen[-1].type == "RUN_FINISHED"


@asynccontextmanager
async def replying(*replies: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve raw responses, one per connection; an empty one closes it. Yield the URL and the requests."""
    pending, requests = list(replies), list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        requests.append(head + await reader.readexactly(length))
        writer.write(pending.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


def reply(body: str, status: str = "200 OK") -> bytes:
    """Return a raw response."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


FULL = '{"error": {"code": "STORE_FULL", "message": "the disk is full"}}'
LIMITED = '{"error": {"code": "RATE_LIMITED", "message": "slow down", "details": {"retry_after": 0}}}'


async def test_a_keyed_request_is_repeated_with_the_same_key_and_body() -> None:
    async with (
        replying(b"", reply(FULL, "503 Unavailable"), reply(LIMITED, "429 Slow"), reply('{"id": "x"}')) as (
            url,
            requests,
        ),
        Client(url, retry_seconds=60) as hf,
    ):
        assert await hf.send("POST", "/threads", dict, body={"a": 1}, key="one") == {"id": "x"}
    assert len(requests) == 4 and len(set(requests)) == 1
    assert b"idempotency-key: one" in requests[0].lower()


async def test_a_request_without_a_key_is_not_repeated_once_it_was_sent() -> None:
    async with replying(b"", reply("{}")) as (url, requests), Client(url, retry_seconds=60) as hf:
        with pytest.raises(ServerUnreachable):
            await hf.run("run_x").cancel()
        assert len(requests) == 1


async def test_an_error_code_of_a_newer_server_is_kept() -> None:
    body = '{"error": {"code": "BRAND_NEW", "message": "so new"}}'
    async with replying(reply(body, "409 Conflict")) as (url, _), Client(url, retry_seconds=0) as hf:
        with pytest.raises(HoldfastError, match="so new") as error:
            await hf.run("run_x").get()
    assert (error.value.code, type(error.value).__name__) == ("BRAND_NEW", "Conflict")


@pytest.mark.parametrize("raw", [reply("<html>"), reply("<html>", "404 Not Found")])
async def test_another_server_is_recognised(raw: bytes) -> None:
    async with replying(raw) as (url, _), Client(url, retry_seconds=0) as hf:
        with pytest.raises(NotHoldfast):
            await hf.run("run_x").get()


def test_no_server_is_an_error_that_says_what_to_do() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        refused = pytest.raises(ServerUnreachable, match="nothing listens there.*holdfast serve")
        with SyncClient(url, retry_seconds=0) as hf, refused:
            hf.ask("bot", "x")


@pytest.mark.parametrize("url", ["localhost:5050", "ftp://x", "http://", "http://x/?a=1", "http://x:99999"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        Client(url)


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "http://example.org:7/")
    monkeypatch.setenv("HOLDFAST_SPACE", "acme")
    monkeypatch.setenv("HOLDFAST_API_KEY", "secret")
    client = SyncClient()
    assert (client.url, client.path("/runs")) == ("http://example.org:7", "/api/spaces/acme/runs")
    assert client.headers == {"Authorization": "Bearer secret"}
    assert SyncClient("http://other", key="", space="b").headers == {}
    monkeypatch.setenv("HOLDFAST_API_KEY", "no key")
    with pytest.raises(Invalid, match="HOLDFAST_API_KEY"):
        SyncClient()
