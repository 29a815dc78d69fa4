"""Whatever producers say, the real client hears what is logged of it without a failure and without a warning."""

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


@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(tidy | twisted | steady)
async def test_any_stream_that_is_logged_is_heard_by_the_real_client(driver: Driver, said: list[Event]) -> None:
    stream = StreamNormaliser(THREAD, RUN)
    logged = [event for each in _as_ours(said) for event in stream.feed(each, at=NOW)]
    heard = await driver.hear([*logged, *stream.end(DONE, at=NOW)])
    assert heard.failed is None, heard.failed


def _as_ours(said: Iterable[Event]) -> Iterator[Event]:
    """Yield what producers of ours may say: no history or patch, no words of others, and each id for one thing."""
    for event in said:
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
