"""Short constructors of the events that stream tests feed."""

from typing import Final, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.domain.events import (
    Event,
    RunFinished,
    RunStarted,
    SubagentStarted,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Millis
from holdfast.domain.stream import StreamNormaliser

Owner: TypeAlias = RunId | UnsetType

THREAD: Final = ThreadId("thread")
RUN: Final = RunId("run")
BASE: Final = RunId("base")
S: Final = RunId("s")
U: Final = RunId("u")
NOW: Final = Millis(1_000)
STARTED: Final = RunStarted(thread_id=THREAD, run_id=RUN, protocol_version="1.0", timestamp=NOW)
FINISHED: Final = RunFinished(thread_id=THREAD, run_id=RUN)


def feed_all(stream: StreamNormaliser, *events: Event) -> list[Event]:
    """Return the logged events, without timestamps."""
    return [replace(event, timestamp=UNSET) for each in events for event in stream.feed(each, at=NOW)]


def start(message: str, owner: Owner = UNSET) -> TextMessageStart:
    return TextMessageStart(message_id=MessageId(message), subagent_run_id=owner)


def content(message: str, delta: str, owner: Owner = UNSET) -> TextMessageContent:
    return TextMessageContent(message_id=MessageId(message), delta=delta, subagent_run_id=owner)


def end(message: str, owner: Owner = UNSET) -> TextMessageEnd:
    return TextMessageEnd(message_id=MessageId(message), subagent_run_id=owner)


def call(name: str, parent: str | None = None, owner: Owner = UNSET) -> ToolCallStart:
    return ToolCallStart(
        tool_call_id=ToolCallId(name),
        tool_call_name="f",
        parent_message_id=UNSET if parent is None else MessageId(parent),
        subagent_run_id=owner,
    )


def args(name: str, delta: str = "{}", owner: Owner = UNSET) -> ToolCallArgs:
    return ToolCallArgs(tool_call_id=ToolCallId(name), delta=delta, subagent_run_id=owner)


def call_end(name: str, owner: Owner = UNSET) -> ToolCallEnd:
    return ToolCallEnd(tool_call_id=ToolCallId(name), subagent_run_id=owner)


def result(name: str, message: str) -> ToolCallResult:
    return ToolCallResult(tool_call_id=ToolCallId(name), message_id=MessageId(message), content="ok")


def subagent(name: RunId, parent: Owner = UNSET) -> SubagentStarted:
    return SubagentStarted(subagent_run_id=name, name="helper", parent_subagent_run_id=parent)
