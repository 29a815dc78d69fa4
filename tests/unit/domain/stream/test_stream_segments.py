"""Segments begin and end as they must, whatever a producer forgets."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    ReasoningEnd,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunStarted,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    TerminalEvent,
    TextMessageChunk,
)
from holdfast.domain.events.messages import (
    CancelledOutcome,
)
from holdfast.domain.ids import MessageId, ThreadId
from holdfast.domain.stream import StreamNormaliser
from tests.unit.domain.stream.stream_events import (
    BASE,
    FINISHED,
    NOW,
    RUN,
    STARTED,
    THREAD,
    S,
    args,
    call,
    call_end,
    content,
    end,
    feed_all,
    start,
    subagent,
)


def test_a_missing_run_started_is_added() -> None:
    stream = StreamNormaliser(THREAD, RUN, BASE)
    assert stream.segment_id is None
    assert stream.feed(start("m"), at=NOW) == [
        replace(STARTED, parent_run_id=BASE),
        replace(start("m"), timestamp=NOW),
    ]
    assert stream.segment_id == RUN


def test_a_start_keeps_its_own_run_id_and_gets_thread_version_and_base() -> None:
    stream = StreamNormaliser(THREAD, RUN, BASE)
    (started,) = feed_all(stream, RunStarted(thread_id=ThreadId("wrong"), run_id=S, protocol_version="0.1"))
    assert started == RunStarted(thread_id=THREAD, run_id=S, protocol_version="1.0", parent_run_id=BASE)
    (finished,) = feed_all(stream, FINISHED)
    assert finished == replace(FINISHED, run_id=S)


def test_a_start_may_name_another_parent_than_the_base() -> None:
    stream = StreamNormaliser(THREAD, RUN, BASE)
    produced = replace(STARTED, timestamp=UNSET, parent_run_id=S)
    assert feed_all(stream, produced) == [produced]


def test_a_terminal_event_that_comes_first_gets_its_start() -> None:
    assert StreamNormaliser(THREAD, RUN).feed(FINISHED, at=NOW) == [STARTED, replace(FINISHED, timestamp=NOW)]


def test_a_start_in_an_open_segment_is_left_out(stream: StreamNormaliser) -> None:
    assert feed_all(stream, STARTED) == []


def test_a_second_terminal_event_is_left_out(stream: StreamNormaliser) -> None:
    assert len(feed_all(stream, FINISHED, RunErrorEvent(message="late"), FINISHED)) == 1


def test_an_event_after_the_end_opens_the_next_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, FINISHED)
    assert feed_all(stream, content("m", "x")) == [replace(STARTED, timestamp=UNSET), start("m"), content("m", "x")]


def test_an_event_that_is_left_out_opens_no_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, FINISHED)
    assert feed_all(stream, end("m"), args("c"), call_end("c"), TextMessageChunk(delta="x")) == []
    assert stream.segment_id is None


def test_a_producers_timestamp_is_kept(stream: StreamNormaliser) -> None:
    early = replace(start("m"), timestamp=4)
    assert stream.feed(early, at=NOW) == [early]
    assert stream.feed(replace(content("m", "x"), timestamp=5), at=NOW) == [replace(content("m", "x"), timestamp=5)]
    assert stream.feed(content("m", "x"), at=NOW) == [replace(content("m", "x"), timestamp=NOW)]


def test_metadata_and_raw_events_are_kept(stream: StreamNormaliser) -> None:
    produced = replace(content("m", "x"), metadata={"k": 1}, raw_event={"r": 2})
    assert feed_all(stream, produced)[-1] == produced
    assert feed_all(stream, produced) == [produced]


@pytest.mark.parametrize("terminal", [FINISHED, RunErrorEvent(message="no", code="C")])
def test_everything_open_is_closed_before_either_end(stream: StreamNormaliser, terminal: TerminalEvent) -> None:
    step, span = StepStarted(step_name="x"), ReasoningStart(message_id=MessageId("p"))
    reasoning = ReasoningMessageStart(message_id=MessageId("r"))
    feed_all(stream, subagent(S), step, span, reasoning, start("m"), start("n", S), call("c", "m"))
    assert feed_all(stream, terminal) == [
        ReasoningMessageEnd(message_id=MessageId("r")),
        end("m"),
        end("n", S),
        ReasoningEnd(message_id=MessageId("p")),
        call_end("c"),
        StepFinished(step_name="x"),
        SubagentFinished(subagent_run_id=S)
        if terminal is FINISHED
        else SubagentError(subagent_run_id=S, message="no", code="C"),
        terminal,
    ]


def test_closing_ends_what_a_model_streams_and_nothing_else(stream: StreamNormaliser) -> None:
    feed_all(stream, subagent(S), StepStarted(step_name="x"), start("m"), call("c", "m"))
    assert stream.close(at=NOW) == [
        replace(end("m"), timestamp=NOW),
        replace(call_end("c"), timestamp=NOW),
    ]
    assert stream.close(at=NOW) == []
    assert stream.segment_id == RUN


def test_an_end_closes_the_open_segment(stream: StreamNormaliser) -> None:
    feed_all(stream, start("m"))
    assert stream.end(RunErrorEvent(message="no"), at=NOW) == [
        replace(end("m"), timestamp=NOW),
        RunErrorEvent(message="no", timestamp=NOW),
    ]


def test_an_end_opens_a_segment_if_none_is_open(stream: StreamNormaliser) -> None:
    feed_all(stream, FINISHED)
    cancelled = replace(FINISHED, outcome=CancelledOutcome())
    assert stream.end(cancelled, at=NOW) == [STARTED, replace(cancelled, timestamp=NOW)]
    assert stream.segment_id is None


def test_a_stream_resumes_from_its_log() -> None:
    lost = StreamNormaliser(THREAD, RUN)
    logged = lost.feed(start("m"), at=NOW) + lost.feed(end("m"), at=NOW) + lost.feed(start("m"), at=NOW)
    stream = StreamNormaliser.resume(THREAD, RUN, logged)
    assert feed_all(stream, content("m", "x"), start("m")) == [content("m-2", "x")]
