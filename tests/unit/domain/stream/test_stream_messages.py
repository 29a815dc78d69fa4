"""Text and reasoning: every message starts and ends once, and no text is lost."""

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
from tests.unit.domain.stream.stream_events import (
    FINISHED,
    NOW,
    RUN,
    STARTED,
    THREAD,
    S,
    call,
    content,
    end,
    feed_all,
    start,
    subagent,
)


def test_text_for_an_unknown_message_opens_it(stream: StreamNormaliser) -> None:
    assert feed_all(stream, content("m", "x")) == [start("m"), content("m", "x")]


def test_a_message_opened_by_its_text_has_the_owner_and_the_time_of_that_text(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S))
    events = replace(content("m", "x", S), timestamp=5)
    assert stream.feed(events, at=NOW) == [replace(start("m", S), timestamp=5), events]
    reasoning = ReasoningMessageContent(message_id=MessageId("r"), delta="x", subagent_run_id=S, timestamp=5)
    assert stream.feed(reasoning, at=NOW) == [
        ReasoningMessageStart(message_id=MessageId("r"), subagent_run_id=S, timestamp=5),
        reasoning,
    ]


def test_a_second_start_of_an_open_message_is_left_out(stream: StreamNormaliser) -> None:
    assert feed_all(stream, start("m"), start("m"), content("m", "x")) == [start("m"), content("m", "x")]


def test_a_second_start_of_open_reasoning_is_left_out(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    events = (ReasoningStart(message_id=r), ReasoningMessageStart(message_id=r))
    assert feed_all(stream, *events, *events) == list(events)


def test_a_repeated_message_gets_a_new_id_in_any_segment(stream: StreamNormaliser) -> None:
    first = feed_all(stream, start("m"), content("m", "a"), end("m"))
    second = feed_all(stream, start("m"), content("m", "b"), end("m"), FINISHED)
    third = feed_all(stream, start("m"), content("m", "c"), end("m"))
    assert first == [start("m"), content("m", "a"), end("m")]
    assert second[:-1] == [start("m-2"), content("m-2", "b"), end("m-2")]
    assert third[1:] == [start("m-3"), content("m-3", "c"), end("m-3")]


def test_a_new_id_is_unused(stream: StreamNormaliser) -> None:
    feed_all(stream, start("m-2"), start("m"), end("m"))
    assert feed_all(stream, start("m"), content("m", "x"), content("m-2", "y")) == [
        start("m-3"),
        content("m-3", "x"),
        content("m-2", "y"),
    ]


def test_an_open_message_keeps_an_id_that_looks_generated(stream: StreamNormaliser) -> None:
    feed_all(stream, start("m"), start("m-2"))
    assert feed_all(stream, end("m"), content("m-2", "x")) == [end("m"), content("m-2", "x")]


def test_a_text_and_a_reasoning_message_never_share_an_id(stream: StreamNormaliser) -> None:
    reasoning = ReasoningMessageStart(message_id=MessageId("m"))
    assert feed_all(stream, reasoning, start("m"), content("m", "x")) == [reasoning, start("m-2"), content("m-2", "x")]
    more = ReasoningMessageContent(message_id=MessageId("m"), delta="y")
    assert feed_all(stream, more) == [more]


def test_an_id_of_the_history_is_not_reused() -> None:
    stream = StreamNormaliser(THREAD, RUN)
    messages: list[AgUiMessage] = [
        AssistantMessage(
            id=MessageId("m"),
            tool_calls=[AgUiToolCall(id=ToolCallId("c"), function=FunctionCall(name="f", arguments=""))],
        )
    ]
    feed_all(stream, replace(STARTED, input=RunAgentInput(thread_id=THREAD, run_id=RUN, messages=messages)))
    assert feed_all(stream, start("m"), call("c", "m")) == [start("m-2"), call("c-2", "m-2")]


def test_a_snapshot_ends_open_messages_which_continue_with_the_same_role_and_name(stream: StreamNormaliser) -> None:
    started = replace(start("m", S), role="user", name="Ann")
    snapshot = MessagesSnapshot(messages=[UserMessage(id=MessageId("u"), content="hi")])
    feed_all(stream, subagent(S), started)
    assert feed_all(stream, snapshot) == [end("m", S), snapshot]
    assert feed_all(stream, content("m", "x")) == [
        replace(started, message_id=MessageId("m-2")),
        content("m-2", "x", S),
    ]


def test_text_chunks_become_a_message(stream: StreamNormaliser) -> None:
    first = TextMessageChunk(message_id=MessageId("m"), role="assistant", delta="a", metadata={"k": 1})
    assert feed_all(stream, first, TextMessageChunk(delta="b"), FINISHED) == [
        replace(start("m"), role="assistant", metadata={"k": 1}),
        replace(content("m", "a"), metadata={"k": 1}),
        content("m", "b"),
        end("m"),
        FINISHED,
    ]


def test_the_fields_of_a_chunk_are_on_its_events(stream: StreamNormaliser) -> None:
    m = MessageId("m")
    feed_all(stream, subagent(S))
    chunk = TextMessageChunk(message_id=m, name="Ann", raw_event=1, metadata={"k": 1}, timestamp=5, subagent_run_id=S)
    assert stream.feed(chunk, at=NOW) == [
        replace(start("m", S), name="Ann", metadata={"k": 1}, timestamp=5),
        replace(content("m", "", S), raw_event=1, metadata={"k": 1}, timestamp=5),
    ]
    reasoning = ReasoningMessageChunk(
        message_id=MessageId("r"), raw_event=1, metadata={"k": 1}, timestamp=5, subagent_run_id=S
    )
    assert stream.feed(reasoning, at=NOW)[1:] == [
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


def test_a_chunk_without_an_id_continues_the_last_message_of_its_owner(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), start("m", S), start("n"))
    assert feed_all(stream, TextMessageChunk(delta="x", subagent_run_id=S)) == [content("m", "x", S)]


def test_a_chunk_leaves_the_messages_of_others_open(stream: StreamNormaliser) -> None:
    theirs = ReasoningMessageStart(message_id=MessageId("r"), subagent_run_id=S)
    feed_all(stream, subagent(S), start("m", S), theirs)
    assert feed_all(stream, TextMessageChunk(message_id=MessageId("n"))) == [start("n")]


def test_a_chunk_that_opens_a_message_ends_the_one_before(stream: StreamNormaliser) -> None:
    reasoning = ReasoningMessageChunk(message_id=MessageId("r"), delta="hm")
    feed_all(stream, reasoning)
    assert feed_all(stream, TextMessageChunk(message_id=MessageId("m"))) == [
        ReasoningMessageEnd(message_id=MessageId("r")),
        start("m"),
    ]
    assert feed_all(stream, TextMessageChunk(message_id=MessageId("n"))) == [end("m"), start("n")]


def test_the_metadata_of_a_chunk_without_text_is_logged_once(stream: StreamNormaliser) -> None:
    chunk = TextMessageChunk(metadata={"k": 1})
    named = replace(chunk, message_id=MessageId("m"))
    assert feed_all(stream, named) == [replace(start("m"), metadata={"k": 1})]
    assert feed_all(stream, TextMessageChunk()) == []
    assert feed_all(stream, chunk) == [replace(content("m", ""), metadata={"k": 1})]


def test_an_empty_chunk_adds_no_content(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    assert feed_all(stream, ReasoningMessageChunk(message_id=r), ReasoningMessageChunk()) == [
        ReasoningMessageStart(message_id=r)
    ]


def test_a_snapshot_ends_open_reasoning_which_continues_with_its_owner(stream: StreamNormaliser) -> None:
    r, p, renamed = MessageId("r"), MessageId("p"), MessageId("r-2")
    feed_all(stream, subagent(S))
    feed_all(stream, ReasoningStart(message_id=p), ReasoningMessageStart(message_id=r, subagent_run_id=S))
    snapshot = MessagesSnapshot(messages=[])
    assert feed_all(stream, snapshot) == [
        ReasoningMessageEnd(message_id=r, subagent_run_id=S),
        ReasoningEnd(message_id=p),
        snapshot,
    ]
    assert feed_all(stream, ReasoningMessageContent(message_id=r, delta="x")) == [
        ReasoningMessageStart(message_id=renamed, subagent_run_id=S),
        ReasoningMessageContent(message_id=renamed, delta="x", subagent_run_id=S),
    ]


def test_a_reasoning_span_and_a_message_may_share_an_id(stream: StreamNormaliser) -> None:
    r = MessageId("r")
    events = (ReasoningStart(message_id=r), ReasoningMessageStart(message_id=r), ReasoningMessageEnd(message_id=r))
    assert feed_all(stream, *events, ReasoningEnd(message_id=r)) == [*events, ReasoningEnd(message_id=r)]


def test_repeated_reasoning_gets_new_ids(stream: StreamNormaliser) -> None:
    r, renamed = MessageId("r"), MessageId("r-2")
    events = (ReasoningStart(message_id=r), ReasoningMessageContent(message_id=r, delta="x"))
    feed_all(stream, *events, ReasoningMessageEnd(message_id=r), ReasoningEnd(message_id=r))
    encrypted = ReasoningEncryptedValue(subtype="message", entity_id="r", encrypted_value="?")
    assert feed_all(stream, *events, encrypted) == [
        ReasoningStart(message_id=renamed),
        ReasoningMessageStart(message_id=renamed),
        ReasoningMessageContent(message_id=renamed, delta="x"),
        replace(encrypted, entity_id="r-2"),
    ]
