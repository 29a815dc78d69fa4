"""Data of one iteration of the event loop is sent in one write, and none of it is delayed."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import httpx2
import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.api.streams.sse import KEEPALIVE, StreamBody
from holdfast.api.uvicorn_protocols import HeadCoalescingTransport, HttpProtocol
from holdfast.control.streams.broadcast import MAX_BATCH_BYTES, PAGE_ITEMS, Channel, StreamEnd, Subscriber
from holdfast.domain.instant import Millis, instant
from holdfast.ports.log import LoggedEvent
from tests.api.site import serve_app

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class FakeTransport:
    """A transport that records writes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.written


class FakeCycle:
    """The part of a request cycle that the wrapper of the transport uses."""

    def __init__(self, transport: FakeTransport) -> None:
        self.transport: Any = transport
        HeadCoalescingTransport(cast(RequestResponseCycle, self), asyncio.get_running_loop())


async def test_a_response_head_is_written_with_the_first_body() -> None:
    transport = FakeTransport()
    cycle = FakeCycle(transport)
    for data in (HEAD, b"body", b"more"):
        cycle.transport.write(data)
    assert transport.written == [HEAD + b"body", b"more"]
    await asyncio.sleep(0)
    assert transport.written == [HEAD + b"body", b"more"]


async def test_a_response_head_alone_is_written_in_the_next_iteration_of_the_loop() -> None:
    transport = FakeTransport()
    cycle = FakeCycle(transport)
    cycle.transport.write(HEAD)
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [HEAD]
    cycle.transport.write(b"body")
    assert transport.written == [HEAD, b"body"]


async def test_the_wrapper_of_the_transport_is_removed_after_the_head() -> None:
    transport = FakeTransport()
    cycle = FakeCycle(transport)
    assert cycle.transport is not transport
    cycle.transport.write(HEAD)
    cycle.transport.write(b"body")
    assert cycle.transport is transport


async def test_a_response_head_is_written_before_the_connection_is_closed() -> None:
    transport = FakeTransport()
    cycle = FakeCycle(transport)
    assert not cycle.transport.is_closing()
    cycle.transport.write(HEAD)
    wrapper = cycle.transport
    wrapper.close()
    await asyncio.sleep(0)
    assert transport.written == [HEAD, b"closed"]
    assert wrapper.is_closing()


class RecordingTransport:
    """A wrapper of a real transport that records writes."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_each_response_of_a_connection_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders: list[RecordingTransport] = []

    class RecordingProtocol(HttpProtocol):
        def connection_made(self, transport: Any) -> None:
            recorders.append(RecordingTransport(transport))
            super().connection_made(cast(asyncio.Transport, recorders[-1]))

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    monkeypatch.setattr("holdfast.api.uvicorn_protocols.HttpProtocol", RecordingProtocol)
    async with serve_app(HostOriginMiddleware(app)) as url, httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        for _ in range(3):
            assert (await client.get("/")).text == "hello"
    (recorder,) = recorders
    assert [(each[:15], each[-9:]) for each in recorder.written] == [(b"HTTP/1.1 200 OK", b"\r\n\r\nhello")] * 3


class SizedChannel(Channel):
    """A channel to which a test appends events of given sizes."""

    def grow(self, *sizes: int) -> None:
        first = self.last_seq + 1
        self.publish([_event(seq, size) for seq, size in enumerate(sizes, first)])

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[LoggedEvent]:
        raise AssertionError("every event is in the window")

    async def _read_log(self) -> None:
        raise AssertionError("the log is not read")


def _event(seq: int, size: int) -> LoggedEvent:
    return LoggedEvent(seq=seq, type="X", data=b"x" * size, created_at=instant(Millis(0)))


def _body() -> tuple[SizedChannel, StreamBody, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    channel = SizedChannel(0)
    return channel, StreamBody(Subscriber(channel, 0, joined_at=0, leave=lambda _: None), send), sent


async def test_pending_frames_are_written_together_before_waiting_for_more() -> None:
    channel, body, sent = _body()
    body.write(b"begin ")
    channel.grow(1)
    assert await body.next() is not None
    body.write(b"first")
    waiting = asyncio.ensure_future(body.next())
    await asyncio.sleep(0)
    assert [message["body"] for message in sent] == [b"begin first"]
    channel.grow(1)
    assert await waiting is not None
    body.write(b"last")
    channel.close(StreamEnd.ENDED)
    assert await body.next() is StreamEnd.ENDED
    body.write(b" end")
    await body.end()
    assert [(message["body"], message.get("more_body")) for message in sent[1:]] == [(b"last end", None)]


async def _write_one_by_one(body: StreamBody) -> StreamEnd:
    while not isinstance(batch := await body.next(), StreamEnd):
        body.write(KEEPALIVE if batch is None else _lengths(batch.items))
    return batch


@pytest.mark.parametrize("write_all", [_write_one_by_one, lambda body: body.write_all(_lengths)])
async def test_events_for_a_slow_reader_are_written_as_soon_as_possible(write_all: Any) -> None:
    channel, sent = SizedChannel(0), list[bytes]()
    writable = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["body"])
        await writable.wait()

    body = StreamBody(Subscriber(channel, 0, joined_at=0, leave=lambda _: None), send)
    channel.grow(1)
    writing = asyncio.ensure_future(write_all(body))
    await asyncio.sleep(0)
    channel.grow(2)
    writable.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == [b"1;", b"2;"]
    writable.clear()
    channel.grow(3)
    await asyncio.sleep(0)
    channel.close(StreamEnd.ENDED)
    writable.set()
    assert await writing is StreamEnd.ENDED
    assert sent == [b"1;", b"2;", b"3;"]


async def test_a_write_has_at_most_the_bytes_of_a_batch() -> None:
    channel, body, sent = _body()
    for _ in range(4):
        channel.grow(MAX_BATCH_BYTES)
    for _ in range(4):
        await body.next()
        body.write(b"x" * MAX_BATCH_BYTES)
    await body.end()
    assert [len(message["body"]) for message in sent] == [MAX_BATCH_BYTES] * 4


async def test_shared_batches_are_written_together() -> None:
    channel, body, sent = _body()
    body.write(b"begin ")
    channel.grow(1, 1)
    writing = asyncio.ensure_future(body.write_all(_lengths))
    await asyncio.sleep(0)
    assert [message["body"] for message in sent] == [b"begin 1,1;"]
    channel.wake_subscribers()
    await asyncio.sleep(0)
    assert not writing.done()
    channel.grow(2)
    await asyncio.sleep(0)
    channel.grow(MAX_BATCH_BYTES)
    channel.grow(3)
    channel.close(StreamEnd.ENDED)
    assert await writing is StreamEnd.ENDED
    await body.end()
    assert b"".join(message["body"] for message in sent) == b"begin 1,1;%b2;%d;3;" % (KEEPALIVE, MAX_BATCH_BYTES)


async def test_a_write_of_shared_batches_has_at_most_the_bytes_of_a_batch() -> None:
    channel, body, sent = _body()
    for _ in range(4):
        channel.grow(MAX_BATCH_BYTES // 2)
    channel.close(StreamEnd.ENDED)
    assert await body.write_all(lambda items: b"x" * len(items[0].data)) is StreamEnd.ENDED
    await body.end()
    assert [len(message["body"]) for message in sent] == [MAX_BATCH_BYTES, MAX_BATCH_BYTES, 0]


def _lengths(items: Sequence[LoggedEvent]) -> bytes:
    return b"%b;" % b",".join(b"%d" % len(item.data) for item in items)
