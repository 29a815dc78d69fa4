"""Text and reasoning: every message starts and ends once, and no word is lost."""

from msgspec.structs import replace

from holdfast.domain.events import (
    MessagesSnapshot,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageChunk,
)
from holdfast.domain.events.messages import (
    AgUiMessage,
    AgUiToolCall,
    AssistantMessage,
    FunctionCall,
    RunAgentInput,
    UserMessage,
)
from holdfast.domain.ids import MessageId, ToolCallId
from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.said import (
    FINISHED,
    NOW,
    RUN,
    STARTED,
    THREAD,
    S,
    call,
    content,
    end,
    fed,
    start,
    subagent,
)


def test_text_for_an_unknown_message_opens_it(stream: StreamNormaliser) -> None:
    assert fed(stream, content("m", "x")) == [start("m"), content("m", "x")]


def test_a_message_opened_by_its_text_has_the_owner_and_the_time_of_that_text(stream: StreamNormaliser) -> None:
    fed(stream, subagent(S))
    said = replace(content("m", "x", S), timestamp=5)
    assert stream.feed(said, at=NOW) == [replace(start("m", S), timestamp=5), said]
    thought = ReasoningMessageContent(message_id=MessageId("r"), delta="x", subagent_run_id=S, timestamp=5)
    assert stream.feed(thought, at=NOW) == [
        ReasoningMessageStart(message_id=MessageId("r"), subagent_run_id=S, timestamp=5),
        thought,
    ]


def test_a_second_start_of_an_open_message_is_left_out(stream: StreamNormaliser) -> None:
    assert fed(stream, start("m"), start("m"), content("m", "x")) == [start("m"), content("m", "x")]


def test_a_second_start_of_open_reasoning_is_left_out(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    said = (ReasoningStart(message_id=r), ReasoningMessageStart(message_id=r))
    assert fed(stream, *said, *said) == list(said)


def test_a_message_that_comes_again_gets_an_id_of_its_own_in_any_segment(stream: StreamNormaliser) -> None:
    first = fed(stream, start("m"), content("m", "a"), end("m"))
    second = fed(stream, start("m"), content("m", "b"), end("m"), FINISHED)
    third = fed(stream, start("m"), content("m", "c"), end("m"))
    assert first == [start("m"), content("m", "a"), end("m")]
    assert second[:-1] == [start("m-2"), content("m-2", "b"), end("m-2")]
    assert third[1:] == [start("m-3"), content("m-3", "c"), end("m-3")]


def test_a_fresh_id_is_one_that_nobody_used(stream: StreamNormaliser) -> None:
    fed(stream, start("m-2"), start("m"), end("m"))
    assert fed(stream, start("m"), content("m", "x"), content("m-2", "y")) == [
        start("m-3"),
        content("m-3", "x"),
        content("m-2", "y"),
    ]


def test_an_open_message_is_not_taken_for_another_whose_id_looks_like_its_next(stream: StreamNormaliser) -> None:
    fed(stream, start("m"), start("m-2"))
    assert fed(stream, end("m"), content("m-2", "x")) == [end("m"), content("m-2", "x")]


def test_a_text_and_a_thought_never_share_an_id(stream: StreamNormaliser) -> None:
    thought = ReasoningMessageStart(message_id=MessageId("m"))
    assert fed(stream, thought, start("m"), content("m", "x")) == [thought, start("m-2"), content("m-2", "x")]
    more = ReasoningMessageContent(message_id=MessageId("m"), delta="y")
    assert fed(stream, more) == [more]


def test_a_message_of_the_history_is_not_written_to() -> None:
    stream = StreamNormaliser(THREAD, RUN)
    messages: list[AgUiMessage] = [
        AssistantMessage(
            id=MessageId("m"),
            tool_calls=[AgUiToolCall(id=ToolCallId("c"), function=FunctionCall(name="f", arguments=""))],
        )
    ]
    fed(stream, replace(STARTED, input=RunAgentInput(thread_id=THREAD, run_id=RUN, messages=messages)))
    assert fed(stream, start("m"), call("c", "m")) == [start("m-2"), call("c-2", "m-2")]


def test_a_snapshot_ends_open_messages_first_and_they_go_on_in_the_same_voice(stream: StreamNormaliser) -> None:
    spoken = replace(start("m", S), role="user", name="Ann")
    snapshot = MessagesSnapshot(messages=[UserMessage(id=MessageId("u"), content="hi")])
    fed(stream, subagent(S), spoken)
    assert fed(stream, snapshot) == [end("m", S), snapshot]
    assert fed(stream, content("m", "x")) == [
        replace(spoken, message_id=MessageId("m-2")),
        content("m-2", "x", S),
    ]


def test_text_chunks_become_a_message(stream: StreamNormaliser) -> None:
    first = TextMessageChunk(message_id=MessageId("m"), role="assistant", delta="a", metadata={"k": 1})
    assert fed(stream, first, TextMessageChunk(delta="b"), FINISHED) == [
        replace(start("m"), role="assistant", metadata={"k": 1}),
        replace(content("m", "a"), metadata={"k": 1}),
        content("m", "b"),
        end("m"),
        FINISHED,
    ]


def test_what_a_chunk_carries_is_on_the_events_it_becomes(stream: StreamNormaliser) -> None:
    m = MessageId("m")
    fed(stream, subagent(S))
    chunk = TextMessageChunk(message_id=m, name="Ann", raw_event=1, metadata={"k": 1}, timestamp=5, subagent_run_id=S)
    assert stream.feed(chunk, at=NOW) == [
        replace(start("m", S), name="Ann", metadata={"k": 1}, timestamp=5),
        replace(content("m", "", S), raw_event=1, metadata={"k": 1}, timestamp=5),
    ]
    thought = ReasoningMessageChunk(
        message_id=MessageId("r"), raw_event=1, metadata={"k": 1}, timestamp=5, subagent_run_id=S
    )
    assert stream.feed(thought, at=NOW)[1:] == [
        ReasoningMessageStart(message_id=MessageId("r"), metadata={"k": 1}, timestamp=5, subagent_run_id=S),
        ReasoningMessageContent(
            message_id=MessageId("r"),
            delta="",
            raw_event=1,
            metadata={"k": 1},
            timestamp=5,
            subagent_run_id=S,
        ),
    ]


def test_a_chunk_without_an_id_goes_on_with_the_last_message_of_its_owner(stream: StreamNormaliser) -> None:
    fed(stream, subagent(S), start("m", S), start("n"))
    assert fed(stream, TextMessageChunk(delta="x", subagent_run_id=S)) == [content("m", "x", S)]


def test_a_chunk_leaves_the_messages_of_others_open(stream: StreamNormaliser) -> None:
    theirs = ReasoningMessageStart(message_id=MessageId("r"), subagent_run_id=S)
    fed(stream, subagent(S), start("m", S), theirs)
    assert fed(stream, TextMessageChunk(message_id=MessageId("n"))) == [start("n")]


def test_a_chunk_that_opens_a_message_ends_the_one_before(stream: StreamNormaliser) -> None:
    thought = ReasoningMessageChunk(message_id=MessageId("r"), delta="hm")
    fed(stream, thought)
    assert fed(stream, TextMessageChunk(message_id=MessageId("m"))) == [
        ReasoningMessageEnd(message_id=MessageId("r")),
        start("m"),
    ]
    assert fed(stream, TextMessageChunk(message_id=MessageId("n"))) == [end("m"), start("n")]


def test_a_chunk_of_nothing_but_metadata_still_carries_it_once(stream: StreamNormaliser) -> None:
    chunk = TextMessageChunk(metadata={"k": 1})
    named = replace(chunk, message_id=MessageId("m"))
    assert fed(stream, named) == [replace(start("m"), metadata={"k": 1})]
    assert fed(stream, TextMessageChunk()) == []
    assert fed(stream, chunk) == [replace(content("m", ""), metadata={"k": 1})]


def test_a_chunk_of_nothing_says_nothing(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    assert fed(stream, ReasoningMessageChunk(message_id=r), ReasoningMessageChunk()) == [
        ReasoningMessageStart(message_id=r)
    ]


def test_a_snapshot_ends_open_reasoning_and_a_thought_goes_on_for_its_owner(stream: StreamNormaliser) -> None:
    r, p, again = MessageId("r"), MessageId("p"), MessageId("r-2")
    fed(stream, subagent(S))
    fed(stream, ReasoningStart(message_id=p), ReasoningMessageStart(message_id=r, subagent_run_id=S))
    snapshot = MessagesSnapshot(messages=[])
    assert fed(stream, snapshot) == [
        ReasoningMessageEnd(message_id=r, subagent_run_id=S),
        ReasoningEnd(message_id=p),
        snapshot,
    ]
    assert fed(stream, ReasoningMessageContent(message_id=r, delta="x")) == [
        ReasoningMessageStart(message_id=again, subagent_run_id=S),
        ReasoningMessageContent(message_id=again, delta="x", subagent_run_id=S),
    ]


def test_a_reasoning_span_and_a_message_may_share_an_id(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    said = (ReasoningStart(message_id=r), ReasoningMessageStart(message_id=r), ReasoningMessageEnd(message_id=r))
    assert fed(stream, *said, ReasoningEnd(message_id=r)) == [*said, ReasoningEnd(message_id=r)]


def test_reasoning_that_comes_again_gets_ids_of_its_own(stream: StreamNormaliser) -> None:
    r, again = MessageId("r"), MessageId("r-2")
    said = (ReasoningStart(message_id=r), ReasoningMessageContent(message_id=r, delta="x"))
    fed(stream, *said, ReasoningMessageEnd(message_id=r), ReasoningEnd(message_id=r))
    sealed = ReasoningEncryptedValue(subtype="message", entity_id="r", encrypted_value="?")
    assert fed(stream, *said, sealed) == [
        ReasoningStart(message_id=again),
        ReasoningMessageStart(message_id=again),
        ReasoningMessageContent(message_id=again, delta="x"),
        replace(sealed, entity_id="r-2"),
    ]
