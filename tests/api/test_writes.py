"""What is said in one turn of the loop goes out in one write, and nothing of it is held up."""

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


class Wire:
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.written


class FakeCycle:
    """What writes to the transport that it has."""

    def __init__(self, wire: Wire) -> None:
        self.transport: Any = wire
        HeadCoalescingTransport(cast(RequestResponseCycle, self), asyncio.get_running_loop())


async def test_a_head_goes_out_with_what_follows_it_at_once() -> None:
    wire = Wire()
    cycle = FakeCycle(wire)
    for piece in (HEAD, b"body", b"more"):
        cycle.transport.write(piece)
    assert wire.written == [HEAD + b"body", b"more"]
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"body", b"more"]


async def test_a_head_that_nothing_follows_goes_out_in_the_next_turn() -> None:
    wire = Wire()
    cycle = FakeCycle(wire)
    cycle.transport.write(HEAD)
    assert wire.written == []
    await asyncio.sleep(0)
    assert wire.written == [HEAD]
    cycle.transport.write(b"body")
    assert wire.written == [HEAD, b"body"]


async def test_nothing_stands_between_an_answer_and_its_transport_once_its_head_is_out() -> None:
    wire = Wire()
    cycle = FakeCycle(wire)
    assert cycle.transport is not wire
    cycle.transport.write(HEAD)
    cycle.transport.write(b"body")
    assert cycle.transport is wire


async def test_a_head_goes_out_before_the_connection_is_closed() -> None:
    wire = Wire()
    cycle = FakeCycle(wire)
    assert not cycle.transport.is_closing()
    cycle.transport.write(HEAD)
    joining = cycle.transport
    joining.close()
    await asyncio.sleep(0)
    assert wire.written == [HEAD, b"closed"]
    assert joining.is_closing()


class Recorder:
    """A real transport, and what was written to it."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_each_answer_of_a_connection_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders: list[Recorder] = []

    class Recorded(HttpProtocol):
        def connection_made(self, transport: Any) -> None:
            recorders.append(Recorder(transport))
            super().connection_made(cast(asyncio.Transport, recorders[-1]))

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    monkeypatch.setattr("holdfast.api.uvicorn_protocols.HttpProtocol", Recorded)
    async with serve_app(HostOriginMiddleware(app)) as url, httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        for _ in range(3):
            assert (await client.get("/")).text == "hello"
    (recorder,) = recorders
    assert [(each[:15], each[-9:]) for each in recorder.written] == [(b"HTTP/1.1 200 OK", b"\r\n\r\nhello")] * 3


class Numbers(Channel):
    """A feed that grows by what it is told."""

    def grow(self, *sizes: int) -> None:
        first = self.last_seq + 1
        self.publish([_event(seq, size) for seq, size in enumerate(sizes, first)])

    async def page(self, after: int, *, limit: int = PAGE_ITEMS) -> Sequence[LoggedEvent]:
        raise AssertionError("all of it is in the window")

    async def _read_log(self) -> None:
        raise AssertionError("nobody reads for it")


def _event(seq: int, size: int) -> LoggedEvent:
    return LoggedEvent(seq=seq, type="X", data=b"x" * size, created_at=instant(Millis(0)))


def _body() -> tuple[Numbers, StreamBody, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    feed = Numbers(0)
    return feed, StreamBody(Subscriber(feed, 0, joined_at=0, leave=lambda _: None), send), sent


async def test_what_is_at_hand_goes_out_together_before_more_is_waited_for() -> None:
    feed, body, sent = _body()
    body.write(b"begin ")
    feed.grow(1)
    assert await body.next() is not None
    body.write(b"first")
    waiting = asyncio.ensure_future(body.next())
    await asyncio.sleep(0)
    assert [message["body"] for message in sent] == [b"begin first"]
    feed.grow(1)
    assert await waiting is not None
    body.write(b"last")
    feed.close(StreamEnd.ENDED)
    assert await body.next() is StreamEnd.ENDED
    body.write(b" end")
    await body.end()
    assert [(message["body"], message.get("more_body")) for message in sent[1:]] == [(b"last end", None)]


async def _piece_by_piece(body: StreamBody) -> StreamEnd:
    while not isinstance(found := await body.next(), StreamEnd):
        body.write(KEEPALIVE if found is None else _lengths(found.items))
    return found


@pytest.mark.parametrize("write_all", [_piece_by_piece, lambda body: body.write_all(_lengths)])
async def test_what_comes_while_a_reader_is_slow_goes_out_as_soon_as_it_can(write_all: Any) -> None:
    feed, sent = Numbers(0), list[bytes]()
    room = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message["body"])
        await room.wait()

    body = StreamBody(Subscriber(feed, 0, joined_at=0, leave=lambda _: None), send)
    feed.grow(1)
    writing = asyncio.ensure_future(write_all(body))
    await asyncio.sleep(0)
    feed.grow(2)
    room.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == [b"1;", b"2;"]
    room.clear()
    feed.grow(3)
    await asyncio.sleep(0)
    feed.close(StreamEnd.ENDED)
    room.set()
    assert await writing is StreamEnd.ENDED
    assert sent == [b"1;", b"2;", b"3;"]


async def test_not_more_is_gathered_than_is_written_at_once() -> None:
    feed, body, sent = _body()
    for _ in range(4):
        feed.grow(MAX_BATCH_BYTES)
    for _ in range(4):
        await body.next()
        body.write(b"x" * MAX_BATCH_BYTES)
    await body.end()
    assert [len(message["body"]) for message in sent] == [MAX_BATCH_BYTES] * 4


async def test_what_many_share_is_gathered_and_sent_in_the_same_way() -> None:
    feed, body, sent = _body()
    body.write(b"begin ")
    feed.grow(1, 1)
    writing = asyncio.ensure_future(body.write_all(_lengths))
    await asyncio.sleep(0)
    assert [message["body"] for message in sent] == [b"begin 1,1;"]
    feed.wake_subscribers()
    await asyncio.sleep(0)
    assert not writing.done()
    feed.grow(2)
    await asyncio.sleep(0)
    feed.grow(MAX_BATCH_BYTES)
    feed.grow(3)
    feed.close(StreamEnd.ENDED)
    assert await writing is StreamEnd.ENDED
    await body.end()
    assert b"".join(message["body"] for message in sent) == b"begin 1,1;%b2;%d;3;" % (KEEPALIVE, MAX_BATCH_BYTES)


async def test_not_more_is_gathered_of_what_many_share_than_is_written_at_once() -> None:
    feed, body, sent = _body()
    for _ in range(4):
        feed.grow(MAX_BATCH_BYTES // 2)
    feed.close(StreamEnd.ENDED)
    assert await body.write_all(lambda items: b"x" * len(items[0].data)) is StreamEnd.ENDED
    await body.end()
    assert [len(message["body"]) for message in sent] == [MAX_BATCH_BYTES, MAX_BATCH_BYTES, 0]


def _lengths(items: Sequence[LoggedEvent]) -> bytes:
    return b"%b;" % b",".join(b"%d" % len(item.data) for item in items)
