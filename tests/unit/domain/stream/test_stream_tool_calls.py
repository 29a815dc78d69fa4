"""Tool calls are in a message, and have ids and results of their own."""

import pytest
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    ReasoningEncryptedValue,
    ReasoningMessageChunk,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    TextMessageChunk,
    ToolCallChunk,
)
from holdfast.domain.events.messages import (
    AgUiInterrupt,
    InterruptOutcome,
    SuccessOutcome,
)
from holdfast.domain.ids import InterruptId, MessageId, ToolCallId
from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.stream_events import (
    FINISHED,
    NOW,
    STARTED,
    S,
    args,
    call,
    call_end,
    end,
    feed_all,
    result,
    start,
    subagent,
)


def test_a_tool_call_is_in_the_message_that_started_last(stream: StreamNormaliser) -> None:
    assert feed_all(stream, start("m"), start("n"), end("n"), call("c"))[-1] == call("c", "n")
    assert feed_all(stream, replace(start("o"), role="assistant"), call("d"))[-1] == call("d", "o")


def test_a_tool_call_is_not_put_into_a_user_message(stream: StreamNormaliser) -> None:
    assert feed_all(stream, replace(start("m"), role="user"), call("c"))[-1] == call("c", "c")


def test_a_tool_call_is_not_put_into_a_message_of_an_earlier_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, start("m"), end("m"), FINISHED)
    assert feed_all(stream, call("c"))[-1] == call("c", "c")


def test_arguments_and_ends_without_a_call_are_left_out(stream: StreamNormaliser) -> None:
    assert feed_all(stream, args("c"), call_end("c")) == []


def test_a_second_start_of_an_open_call_is_left_out(stream: StreamNormaliser) -> None:
    assert feed_all(stream, call("c"), call("c"), args("c")) == [call("c", "c"), args("c")]


def test_a_repeated_tool_call_gets_a_new_id_and_its_result_follows(stream: StreamNormaliser) -> None:
    feed_all(stream, call("c"), call_end("c"))
    assert feed_all(stream, call("c"), args("c"), call_end("c"), result("c", "r")) == [
        call("c-2", "c-2"),
        args("c-2"),
        call_end("c-2"),
        result("c-2", "r"),
    ]
    assert list(stream.open_tool_calls) == ["c"]


def test_a_result_ends_its_call(stream: StreamNormaliser) -> None:
    feed_all(stream, call("c"))
    assert list(stream.open_tool_calls) == ["c"]
    answered = replace(result("c", "r"), timestamp=5)
    assert stream.feed(answered, at=NOW) == [replace(call_end("c"), timestamp=5), answered]
    assert feed_all(stream, call_end("c"), args("c")) == []
    assert list(stream.open_tool_calls) == []


def test_an_encrypted_value_follows_its_call(stream: StreamNormaliser) -> None:
    sealed = ReasoningEncryptedValue(subtype="tool-call", entity_id="c", encrypted_value="?")
    feed_all(stream, subagent(S), call("c"), call_end("c"), call("c"))
    assert feed_all(stream, replace(sealed, subagent_run_id=S)) == [replace(sealed, entity_id="c-2")]


def test_a_result_may_come_in_a_later_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, call("c"), FINISHED)
    assert list(stream.open_tool_calls) == ["c"]
    assert feed_all(stream, result("c", "r"))[1:] == [result("c", "r")]
    assert list(stream.open_tool_calls) == []


def test_a_result_never_takes_the_id_of_another_message(stream: StreamNormaliser) -> None:
    feed_all(stream, start("m"), call("c", "m"))
    assert feed_all(stream, result("c", "m"))[-1] == result("c", "m-2")


def test_an_outcome_names_calls_by_their_logged_ids(stream: StreamNormaliser) -> None:
    c = ToolCallId("c")
    feed_all(stream, call("c"), call_end("c"), call("c"))
    (*_, finished) = feed_all(stream, replace(FINISHED, outcome=SuccessOutcome(pending_tool_call_ids=[c])))
    assert finished == replace(FINISHED, outcome=SuccessOutcome(pending_tool_call_ids=[ToolCallId("c-2")]))
    asked = AgUiInterrupt(id=InterruptId("i"), reason="tool_call", tool_call_id=c)
    (*_, finished) = feed_all(stream, STARTED, replace(FINISHED, outcome=InterruptOutcome(interrupts=[asked])))
    assert finished == replace(
        FINISHED, outcome=InterruptOutcome(interrupts=[replace(asked, tool_call_id=ToolCallId("c-2"))])
    )


def test_tool_call_chunks_become_calls_that_may_take_turns(stream: StreamNormaliser) -> None:
    c, d = ToolCallId("c"), ToolCallId("d")
    chunks = (
        ToolCallChunk(tool_call_id=c, tool_call_name="f", delta="1"),
        ToolCallChunk(tool_call_id=d, tool_call_name="f"),
        ToolCallChunk(delta="2"),
        ToolCallChunk(tool_call_id=c, delta="3"),
    )
    assert feed_all(stream, *chunks) == [
        call("c", "c"),
        args("c", "1"),
        call("d", "d"),
        args("d", "2"),
        args("c", "3"),
    ]


def test_the_fields_of_a_tool_call_chunk_are_on_its_events(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S))
    chunk = ToolCallChunk(
        tool_call_id=ToolCallId("c"),
        tool_call_name="f",
        parent_message_id=MessageId("m"),
        raw_event=1,
        metadata={"k": 1},
        timestamp=5,
        subagent_run_id=S,
    )
    assert stream.feed(chunk, at=NOW) == [
        replace(call("c", "m", S), metadata={"k": 1}, timestamp=5),
        replace(args("c", "", S), raw_event=1, metadata={"k": 1}, timestamp=5),
    ]


def test_a_tool_call_chunk_ends_open_reasoning_but_no_text(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    feed_all(stream, subagent(S), start("m"), ReasoningMessageStart(message_id=r))
    feed_all(stream, ReasoningMessageStart(message_id=MessageId("q"), subagent_run_id=S))
    assert feed_all(stream, ToolCallChunk(tool_call_id=ToolCallId("c"), tool_call_name="f")) == [
        ReasoningMessageEnd(message_id=r),
        call("c", "m"),
    ]


@pytest.mark.parametrize(
    "chunk",
    [
        TextMessageChunk(delta="x"),
        ReasoningMessageChunk(delta="x"),
        ToolCallChunk(delta="x"),
        ToolCallChunk(tool_call_name="f"),
        ToolCallChunk(tool_call_id=ToolCallId("c"), delta="x"),
    ],
    ids=str,
)
def test_a_first_chunk_without_id_or_name_is_left_out(stream: StreamNormaliser, chunk: Event) -> None:
    assert feed_all(stream, chunk) == []
