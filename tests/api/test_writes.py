"""What is said in one turn of the loop goes out in one write, and nothing of it is held up."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.api.http import HeadWithBody
from holdfast.api.streams.body import Body
from holdfast.control.feeds.chunk import MOST
from holdfast.control.feeds.feed import PAGE, Ending, Feed
from holdfast.control.feeds.follower import Follower
from holdfast.domain.instant import Millis, instant
from holdfast.ports.event_log import LoggedEvent

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


def _transport() -> tuple[Wire, HeadWithBody]:
    wire = Wire()
    return wire, HeadWithBody(wire, asyncio.get_running_loop())


async def test_a_head_goes_out_with_what_follows_it_at_once() -> None:
    wire, transport = _transport()
    transport.write(HEAD)
    transport.write(b"body")
    transport.write(b"more")
    await asyncio.sleep(0)
    assert wire.written == [HEAD + b"body", b"more"]


async def test_a_head_that_nothing_follows_goes_out_in_the_next_turn() -> None:
    wire, transport = _transport()
    transport.write(HEAD)
    await asyncio.sleep(0)
    transport.write(b"body")
    assert wire.written == [HEAD, b"body"]


async def test_a_head_goes_out_before_the_connection_is_closed() -> None:
    wire, transport = _transport()
    transport.write(HEAD)
    transport.close()
    await asyncio.sleep(0)
    assert wire.written == [HEAD, b"closed"]
    assert transport.is_closing()


class Numbers(Feed):
    """A feed that grows by what it is told."""

    def grow(self, *sizes: int) -> None:
        first = self.last + 1
        self.add([_event(seq, size) for seq, size in enumerate(sizes, first)])

    async def page(self, after: int, *, limit: int = PAGE) -> Sequence[LoggedEvent]:
        raise AssertionError("all of it is in the window")

    async def _follow(self) -> None:
        raise AssertionError("nobody reads for it")


def _event(seq: int, size: int) -> LoggedEvent:
    return LoggedEvent(seq=seq, type="X", data=b"x" * size, created_at=instant(Millis(0)))


def _body() -> tuple[Numbers, Body, list[dict[str, Any]]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    feed = Numbers(0)
    return feed, Body(Follower(feed, 0, joined_at=0, leave=lambda _: None), send), sent


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
    feed.end(Ending.ENDED)
    assert await body.next() is Ending.ENDED
    body.write(b" end")
    await body.end()
    assert [(message["body"], message.get("more_body")) for message in sent[1:]] == [(b"last end", None)]


async def test_not_more_is_gathered_than_is_written_at_once() -> None:
    feed, body, sent = _body()
    for _ in range(4):
        feed.grow(MOST)
    for _ in range(4):
        await body.next()
        body.write(b"x" * MOST)
    await body.end()
    assert [len(message["body"]) for message in sent] == [MOST] * 4
