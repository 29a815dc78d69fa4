"""The real client accepts the log of any producer without a failure or a warning."""

from collections.abc import Iterable, Iterator
from typing import Final

from hypothesis import Phase, given, settings
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    ActivityDelta,
    ActivitySnapshot,
    Event,
    MessagesSnapshot,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    RunFinished,
    RunStarted,
    StateDelta,
    TextMessageChunk,
    TextMessageStart,
    ToolCallResult,
)
from holdfast.domain.ids import MessageId, RunId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.stream import StreamNormaliser
from tests.api.ag_ui.driver import Driver
from tests.unit.domain.stream.producers import steady, tidy, twisted

THREAD: Final = ThreadId("thread")
RUN: Final = RunId("run")
NOW: Final = Millis(1_700_000_000_000)
DONE: Final = RunFinished(thread_id=THREAD, run_id=RUN)


@settings(max_examples=60, phases=[Phase.generate])
@given(tidy | twisted | steady)
async def test_the_real_client_accepts_any_logged_stream(driver: Driver, events: list[Event]) -> None:
    stream = StreamNormaliser(THREAD, RUN)
    logged = [event for each in _as_ours(events) for event in stream.feed(each, at=NOW)]
    outcome = await driver.receive([*logged, *stream.end(DONE, at=NOW)])
    assert outcome.failed is None, outcome.failed


def _as_ours(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events that our producers may emit: no snapshots or patches, no other roles, unique ids."""
    for event in events:
        match event:
            case StateDelta() | ActivityDelta() | MessagesSnapshot():
                pass
            case RunStarted():
                yield replace(event, input=UNSET)
            case TextMessageStart() | TextMessageChunk():
                yield replace(event, role=UNSET)
            case ToolCallResult(message_id=name):
                yield replace(event, message_id=MessageId(f"result-{name}"))
            case ActivitySnapshot(message_id=name):
                yield replace(event, message_id=MessageId(f"activity-{name}"))
            case ReasoningMessageStart() | ReasoningMessageContent() | ReasoningMessageEnd() | ReasoningMessageChunk():
                yield event if event.message_id is UNSET else replace(event, message_id=f"thought-{event.message_id}")
            case _:
                yield event
