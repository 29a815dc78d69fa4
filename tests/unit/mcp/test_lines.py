"""Messages come by lines, however the bytes are cut; what is too much ends the server."""

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


def note(number: int) -> dict[str, Any]:
    """Return a message that answers nothing."""
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"number": number, "text": "\n"}}


def answer(number: int) -> dict[str, Any]:
    """Return a message that answers something."""
    return {"jsonrpc": "2.0", "id": number, "result": {}}


def heard(*pieces: bytes, most: int = 1000) -> list[Any]:
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
def test_messages_are_whole_however_they_are_cut(numbers: list[int], cuts: list[int]) -> None:
    text = b"".join(msgspec.json.encode(note(number)) + b"\n" for number in numbers)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert heard(*pieces) == [note(number) for number in numbers]


def test_a_few_words_that_are_no_message_are_passed_over() -> None:
    noise = b"starting up\n\n  \n\xff\xfe\n[1]\n"
    assert heard(noise, msgspec.json.encode(answer(1)) + b"\n") == [answer(1)]
    with pytest.raises(McpServerFailed, match="it talks nonsense"):
        heard(b"no\n" * (MAX_INVALID_LINES + 1))


def test_a_message_without_an_end_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100)
    with pytest.raises(McpServerFailed, match="a message of more than 100 bytes"):
        heard(b"x" * 60, b"x" * 60)


def test_messages_that_answer_nothing_may_be_many_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_UNSOLICITED_MESSAGES", 3)
    line, reply = msgspec.json.encode(note(1)) + b"\n", msgspec.json.encode(answer(1)) + b"\n"
    assert len(heard(line * 3 + reply + line * 3)) == 7
    with pytest.raises(McpServerFailed, match="3 messages in a row that answer nothing"):
        heard(line * 4)


def test_what_nobody_reads_is_too_much() -> None:
    with pytest.raises(McpServerFailed, match="faster than they can be read"):
        heard((msgspec.json.encode(answer(1)) + b"\n") * 3, most=2)
