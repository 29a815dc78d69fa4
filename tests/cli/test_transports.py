"""Streams are read back as in the log, however the network splits them."""

import asyncio
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.streams.sse import KEEPALIVE, RETRY, sse_frames_with_ids
from holdfast.cli.follow import StreamedEvent, parse_sse
from holdfast.domain.events import TextMessageContent, encode_event
from holdfast.domain.ids import MessageId
from holdfast.domain.instant import Instant
from holdfast.ports.log import LoggedEvent

NOW = Instant("2026-01-31T12:00:00.000Z")
TEXTS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=8)


def logged(texts: list[str]) -> list[LoggedEvent]:
    """Return a log with text messages."""
    events = [TextMessageContent(message_id=MessageId("msg_1"), delta=text) for text in texts]
    return [
        LoggedEvent(seq=seq, type="TEXT_MESSAGE_CONTENT", data=encode_event(event), created_at=NOW)
        for seq, event in enumerate(events, start=1)
    ]


def read(chunks: list[bytes]) -> list[StreamedEvent]:
    """Return the events that a client reads."""

    async def network() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def client() -> list[StreamedEvent]:
        return [sent async for sent in parse_sse(network())]

    return asyncio.run(client())


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
