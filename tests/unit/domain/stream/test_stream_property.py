"""For any events of producers, the log is legal, complete, and the same after a restart."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from holdfast.domain.events import (
    Event,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    RunFinished,
    TextMessageChunk,
    TextMessageContent,
    ToolCallResult,
    ToolCallStart,
    encode_event,
    event_type,
)
from holdfast.domain.ids import RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Millis
from holdfast.domain.stream import STRUCTURAL_TYPES, StreamNormaliser
from holdfast.testing.stream_verifier import verify_stream
from tests.unit.domain.stream.producers import steady, tidy, twisted

THREAD: Final = ThreadId("thread")
RUN: Final = RunId("run")
BASE: Final = RunId("base")
NOW: Final = Millis(1_700_000_000_000)
DONE: Final = RunFinished(thread_id=THREAD, run_id=RUN)
Spoken: TypeAlias = TextMessageContent | TextMessageChunk | ReasoningMessageContent | ReasoningMessageChunk
TEXT: Final = (TextMessageContent, TextMessageChunk)
THOUGHT: Final = (ReasoningMessageContent, ReasoningMessageChunk)
many: Final = settings(max_examples=100)


@many
@given(tidy | twisted)
def test_any_sequence_of_events_becomes_a_legal_stream_with_times(produced: list[Event]) -> None:
    stream = StreamNormaliser(THREAD, RUN, BASE)
    logged = _feed_all(stream, produced)
    verify_stream(logged, complete=False)
    logged += stream.end(DONE, at=NOW)
    verify_stream(logged)
    assert all(isinstance(event.timestamp, int) for event in logged)


@many
@given(tidy | twisted, st.data())
def test_a_stream_resumed_from_its_structural_events_goes_on_like_the_one_that_was_lost(
    produced: list[Event], data: st.DataObject
) -> None:
    restarts = data.draw(st.sets(st.integers(min_value=0, max_value=len(produced))))
    stream, logged = StreamNormaliser(THREAD, RUN, BASE), list[Event]()
    resumed = stream
    for index, event in enumerate(produced):
        if index in restarts:
            resumed = StreamNormaliser.resume(THREAD, RUN, _structural(logged), BASE)
        fed = stream.feed(event, at=NOW)
        assert resumed is stream or resumed.feed(event, at=NOW) == fed
        logged += fed
    resumed = StreamNormaliser.resume(THREAD, RUN, _structural(logged), BASE)
    assert resumed.open_tool_calls == stream.open_tool_calls
    assert resumed.segment_id == stream.segment_id
    assert resumed.end(DONE, at=NOW) == stream.end(DONE, at=NOW)


@many
@given(tidy)
def test_no_text_and_no_thought_is_lost(produced: list[Event]) -> None:
    named = [event for event in produced if not (isinstance(event, TEXT + THOUGHT) and event.message_id is UNSET)]
    logged = _feed_all(StreamNormaliser(THREAD, RUN), named)
    assert _text_by_id(logged, TEXT) == _text_by_id(named, TEXT)
    assert _text_by_id(logged, THOUGHT) == _text_by_id(named, THOUGHT)


@many
@given(steady)
def test_a_legal_stream_is_left_as_it_is_until_an_id_comes_again(produced: list[Event]) -> None:
    logged = _feed_all(StreamNormaliser(THREAD, RUN, BASE), produced)
    legal = list(takewhile(lambda event: b'-2"' not in encode_event(event), logged))
    assert _feed_all(StreamNormaliser(THREAD, RUN, BASE), legal) == legal


@many
@given(tidy | twisted)
def test_a_tool_call_is_open_until_its_result_is_logged(produced: list[Event]) -> None:
    stream, waiting = StreamNormaliser(THREAD, RUN), list[ToolCallId]()
    for event in _feed_all(stream, produced):
        match event:
            case ToolCallStart(tool_call_id=call):
                waiting.append(call)
            case ToolCallResult(tool_call_id=call) if call in waiting:
                waiting.remove(call)
            case _:
                pass
    assert list(stream.open_tool_calls) == waiting


def _feed_all(stream: StreamNormaliser, produced: Iterable[Event]) -> list[Event]:
    return [event for each in produced for event in stream.feed(each, at=NOW)]


def _structural(logged: Iterable[Event]) -> Iterator[Event]:
    return (event for event in logged if event_type(event) in STRUCTURAL_TYPES)


def _text_by_id(events: Iterable[Event], kinds: tuple[type[Spoken], ...]) -> dict[str, str]:
    """Return the text of each message, by the id of the producer."""
    words: dict[str, str] = defaultdict(str)
    for event in events:
        if isinstance(event, kinds) and event.message_id is not UNSET:
            words[event.message_id.partition("-")[0]] += event.delta or ""
    return {message: text for message, text in words.items() if text}
