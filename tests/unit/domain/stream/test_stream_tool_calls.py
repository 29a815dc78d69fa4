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
from tests.unit.domain.stream.said import (
    FINISHED,
    NOW,
    STARTED,
    S,
    args,
    call,
    call_end,
    end,
    fed,
    result,
    start,
    subagent,
)


def test_a_tool_call_is_in_the_message_that_started_last(stream: StreamNormaliser) -> None:
    assert fed(stream, start("m"), start("n"), end("n"), call("c"))[-1] == call("c", "n")
    assert fed(stream, replace(start("o"), role="assistant"), call("d"))[-1] == call("d", "o")


def test_a_tool_call_is_in_no_message_of_a_person(stream: StreamNormaliser) -> None:
    assert fed(stream, replace(start("m"), role="user"), call("c"))[-1] == call("c", "c")


def test_a_tool_call_is_in_no_message_of_an_earlier_segment(stream: StreamNormaliser) -> None:
    fed(stream, start("m"), end("m"), FINISHED)
    assert fed(stream, call("c"))[-1] == call("c", "c")


def test_arguments_and_ends_without_a_call_are_left_out(stream: StreamNormaliser) -> None:
    assert fed(stream, args("c"), call_end("c")) == []


def test_a_second_start_of_an_open_call_is_left_out(stream: StreamNormaliser) -> None:
    assert fed(stream, call("c"), call("c"), args("c")) == [call("c", "c"), args("c")]


def test_a_tool_call_that_comes_again_gets_an_id_of_its_own_and_the_result_follows(stream: StreamNormaliser) -> None:
    fed(stream, call("c"), call_end("c"))
    assert fed(stream, call("c"), args("c"), call_end("c"), result("c", "r")) == [
        call("c-2", "c-2"),
        args("c-2"),
        call_end("c-2"),
        result("c-2", "r"),
    ]
    assert list(stream.open_tool_calls) == ["c"]


def test_a_result_ends_its_call(stream: StreamNormaliser) -> None:
    fed(stream, call("c"))
    assert list(stream.open_tool_calls) == ["c"]
    answered = replace(result("c", "r"), timestamp=5)
    assert stream.feed(answered, at=NOW) == [replace(call_end("c"), timestamp=5), answered]
    assert fed(stream, call_end("c"), args("c")) == []
    assert list(stream.open_tool_calls) == []


def test_a_sealed_value_follows_its_call(stream: StreamNormaliser) -> None:
    sealed = ReasoningEncryptedValue(subtype="tool-call", entity_id="c", encrypted_value="?")
    fed(stream, subagent(S), call("c"), call_end("c"), call("c"))
    assert fed(stream, replace(sealed, subagent_run_id=S)) == [replace(sealed, entity_id="c-2")]


def test_a_result_may_come_in_a_later_segment(stream: StreamNormaliser) -> None:
    fed(stream, call("c"), FINISHED)
    assert list(stream.open_tool_calls) == ["c"]
    assert fed(stream, result("c", "r"))[1:] == [result("c", "r")]
    assert list(stream.open_tool_calls) == []


def test_a_result_never_takes_the_id_of_another_message(stream: StreamNormaliser) -> None:
    fed(stream, start("m"), call("c", "m"))
    assert fed(stream, result("c", "m"))[-1] == result("c", "m-2")


def test_an_outcome_names_calls_by_their_logged_ids(stream: StreamNormaliser) -> None:
    c = ToolCallId("c")
    fed(stream, call("c"), call_end("c"), call("c"))
    (*_, finished) = fed(stream, replace(FINISHED, outcome=SuccessOutcome(pending_tool_call_ids=[c])))
    assert finished == replace(FINISHED, outcome=SuccessOutcome(pending_tool_call_ids=[ToolCallId("c-2")]))
    asked = AgUiInterrupt(id=InterruptId("i"), reason="tool_call", tool_call_id=c)
    (*_, finished) = fed(stream, STARTED, replace(FINISHED, outcome=InterruptOutcome(interrupts=[asked])))
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
    assert fed(stream, *chunks) == [
        call("c", "c"),
        args("c", "1"),
        call("d", "d"),
        args("d", "2"),
        args("c", "3"),
    ]


def test_what_a_tool_call_chunk_carries_is_on_the_events_it_becomes(stream: StreamNormaliser) -> None:
    fed(stream, subagent(S))
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


def test_a_tool_call_chunk_ends_the_thought_before_it_and_no_text(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    fed(stream, subagent(S), start("m"), ReasoningMessageStart(message_id=r))
    fed(stream, ReasoningMessageStart(message_id=MessageId("q"), subagent_run_id=S))
    assert fed(stream, ToolCallChunk(tool_call_id=ToolCallId("c"), tool_call_name="f")) == [
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
def test_a_first_chunk_without_what_it_needs_is_left_out(stream: StreamNormaliser, chunk: Event) -> None:
    assert fed(stream, chunk) == []
