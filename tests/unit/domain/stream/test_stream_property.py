"""Whatever producers say, what is logged is legal, complete, and the same after a restart."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.events import (
    Event,
    MessagesSnapshot,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    RunFinished,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallResult,
    ToolCallStart,
    event_type,
)
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.stream import STRUCTURAL_TYPES, Stream
from holdfast.testing.verifier import verify
from tests.unit.domain.stream.producers import tidy, twisted

THREAD: Final = ThreadId("thread")
RUN: Final = RunId("run")
BASE: Final = RunId("base")
NOW: Final = Millis(1_700_000_000_000)
DONE: Final = RunFinished(thread_id=THREAD, run_id=RUN)
many: Final = settings(max_examples=400, deadline=None)


@many
@given(tidy | twisted)
def test_any_sequence_of_events_becomes_a_legal_stream(said: list[Event]) -> None:
    stream = Stream(THREAD, RUN, BASE)
    logged = _fed(stream, said)
    verify(logged, complete=False)
    verify(logged + stream.end(DONE, at=NOW))


@many
@given(tidy | twisted)
def test_every_logged_event_has_a_time(said: list[Event]) -> None:
    assert all(isinstance(event.timestamp, int) for event in _fed(Stream(THREAD, RUN), said))


@many
@given(tidy | twisted, st.data())
def test_a_stream_resumed_from_its_structural_events_goes_on_like_the_one_that_was_lost(
    said: list[Event], data: st.DataObject
) -> None:
    restarts = data.draw(st.sets(st.integers(min_value=0, max_value=len(said))))
    stream, logged = Stream(THREAD, RUN, BASE), list[Event]()
    resumed = stream
    for index, event in enumerate(said):
        if index in restarts:
            resumed = Stream.resume(THREAD, RUN, _structural(logged), BASE)
        fed = stream.feed(event, at=NOW)
        assert resumed is stream or resumed.feed(event, at=NOW) == fed
        logged += fed
    resumed = Stream.resume(THREAD, RUN, _structural(logged), BASE)
    assert resumed.open_tool_calls == stream.open_tool_calls
    assert resumed.segment_id == stream.segment_id
    assert resumed.end(DONE, at=NOW) == stream.end(DONE, at=NOW)


@many
@given(tidy)
def test_no_text_and_no_thought_is_lost(said: list[Event]) -> None:
    logged = _fed(Stream(THREAD, RUN), said)
    assert _spoken(TextMessageContent, logged) == _spoken(TextMessageContent, _expanded(said, logged))
    assert _spoken(ReasoningMessageContent, logged) == _spoken(ReasoningMessageContent, _expanded(said, logged))


@many
@given(tidy)
def test_a_legal_stream_is_left_as_it_is(said: list[Event]) -> None:
    legal = _fed(Stream(THREAD, RUN, BASE), said)
    assert _fed(Stream(THREAD, RUN, BASE), legal) == legal


@many
@given(tidy | twisted)
def test_the_open_tool_calls_are_those_without_a_result(said: list[Event]) -> None:
    stream = Stream(THREAD, RUN)
    logged = _fed(stream, said)
    started = [event.tool_call_id for event in logged if isinstance(event, ToolCallStart)]
    answered = {event.tool_call_id for event in logged if isinstance(event, ToolCallResult)}
    late = _answered_before(logged)
    assert list(stream.open_tool_calls) == [call for call in started if call not in answered or call in late]
