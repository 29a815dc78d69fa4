"""`JsonRpcLines`: messages are split by line, and limits end the server."""

from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from holdfast.domain.errors import McpServerFailed
from holdfast.mcp import transports as stdio
from holdfast.mcp.transports import MAX_INVALID_LINES, JsonRpcLines


def notification(number: int) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"number": number, "text": "\n"}}


def response(number: int) -> dict[str, Any]:
    """Return a response."""
    return {"jsonrpc": "2.0", "id": number, "result": {}}


def parse(*pieces: bytes, most: int = 1000) -> list[Any]:
    """Return the messages in some pieces of output."""
    sending, receiving = anyio.create_memory_object_stream[SessionMessage | Exception](most)
    found = []
    with sending, receiving:
        lines = JsonRpcLines(sending)
        for piece in pieces:
            lines.feed(piece)
        while receiving.statistics().current_buffer_used:
            item = receiving.receive_nowait()
            assert isinstance(item, SessionMessage)
            found.append(item.message.model_dump(by_alias=True, exclude_unset=True))
    return found


@given(numbers=st.lists(st.integers(0, 9), max_size=5), cuts=st.lists(st.integers(0, 500), max_size=8))
def test_messages_are_joined_however_the_bytes_are_split(numbers: list[int], cuts: list[int]) -> None:
    text = b"".join(msgspec.json.encode(notification(number)) + b"\n" for number in numbers)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert parse(*pieces) == [notification(number) for number in numbers]


def test_a_few_invalid_lines_are_ignored() -> None:
    noise = b"starting up\n\n  \n\xff\xfe\n[1]\n"
    assert parse(noise, msgspec.json.encode(response(1)) + b"\n") == [response(1)]
    with pytest.raises(McpServerFailed, match="it sent invalid messages"):
        parse(b"no\n" * (MAX_INVALID_LINES + 1))


def test_a_message_that_is_too_long_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100)
    with pytest.raises(McpServerFailed, match="a message of more than 100 bytes"):
        parse(b"x" * 60, b"x" * 60)


def test_a_message_with_too_many_values_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_VALUES", 9)
    text = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"text": ',[{"\\' * 9}}) + b"\n"
    for cut in range(len(text)):  # what is in a text does not count, wherever it is cut
        assert len(parse(text[:cut], text[cut:], text)) == 2
    with pytest.raises(McpServerFailed, match="a message of more than 9 values"):
        parse(b'{"jsonrpc":"2.0","id":1,"result":{"x":[[],[],', b"[],[],[],[]]}}")


def test_too_many_unsolicited_messages_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_UNSOLICITED_MESSAGES", 3)
    line, reply = msgspec.json.encode(notification(1)) + b"\n", msgspec.json.encode(response(1)) + b"\n"
    assert len(parse(line * 3 + reply + line * 3)) == 7
    with pytest.raises(McpServerFailed, match="3 unsolicited messages in a row"):
        parse(line * 4)


def test_too_many_unread_messages_end_the_server() -> None:
    with pytest.raises(McpServerFailed, match="faster than they can be read"):
        parse((msgspec.json.encode(response(1)) + b"\n") * 3, most=2)
