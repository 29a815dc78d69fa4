"""The stream verifier rejects streams that clients reject or that Holdfast promises never to send."""

from typing import Final

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.domain.events import (
    ActivityDelta,
    ActivitySnapshot,
    Custom,
    Event,
    MessagesSnapshot,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageChunk,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunErrorEvent,
    RunFinished,
    RunStarted,
    StateSnapshot,
    StepFinished,
    StepStarted,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    SubagentSuspended,
    TextMessageChunk,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from holdfast.domain.events.messages import (
    ActivityMessage,
    AgUiMessage,
    AgUiToolCall,
    AssistantMessage,
    FunctionCall,
    ReasoningMessage,
    RunAgentInput,
)
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.testing.stream_verifier import IllegalStream, verify_stream

THREAD: Final = ThreadId("t")
RUN: Final = RunId("r")
M: Final = MessageId("m")
N: Final = MessageId("n")
C: Final = ToolCallId("c")
S: Final = RunId("s")
U: Final = RunId("u")

STARTED: Final = RunStarted(thread_id=THREAD, run_id=RUN, protocol_version="1.0")
FINISHED: Final = RunFinished(thread_id=THREAD, run_id=RUN)
ERROR: Final = RunErrorEvent(message="no")
TEXT: Final = TextMessageStart(message_id=M)
DELTA: Final = TextMessageContent(message_id=M, delta="x")
TEXT_END: Final = TextMessageEnd(message_id=M)
CALL: Final = ToolCallStart(tool_call_id=C, tool_call_name="f", parent_message_id=M)
ARGS: Final = ToolCallArgs(tool_call_id=C, delta="{}")
CALL_END: Final = ToolCallEnd(tool_call_id=C)
RESULT: Final = ToolCallResult(tool_call_id=C, message_id=N, content="ok")
SPAN: Final = ReasoningStart(message_id=M)
SPAN_END: Final = ReasoningEnd(message_id=M)
THOUGHT: Final = ReasoningMessageStart(message_id=M)
THOUGHT_DELTA: Final = ReasoningMessageContent(message_id=M, delta="x")
THOUGHT_END: Final = ReasoningMessageEnd(message_id=M)
STEP: Final = StepStarted(step_name="x")
STEP_END: Final = StepFinished(step_name="x")
SUB: Final = SubagentStarted(subagent_run_id=S, name="helper")
SUB_END: Final = SubagentFinished(subagent_run_id=S)
SUB_ERROR: Final = SubagentError(subagent_run_id=S, message="no")
SUSPENDED: Final = SubagentFinished(subagent_run_id=S, outcome=SubagentSuspended())
OTHER: Final = SubagentStarted(subagent_run_id=U, name="helper")
OTHER_END: Final = SubagentFinished(subagent_run_id=U)
ACTIVITY: Final = ActivitySnapshot(message_id=M, activity_type="a", content={})
ACTIVITY_DELTA: Final = ActivityDelta(message_id=M, activity_type="a", patch=[])
SEALED: Final = ReasoningEncryptedValue(subtype="message", entity_id=M, encrypted_value="x")
SEALED_CALL: Final = ReasoningEncryptedValue(subtype="tool-call", entity_id=C, encrypted_value="x")
KNOWN_CALL: Final = AgUiToolCall(id=C, function=FunctionCall(name="f", arguments=""))
HISTORY: Final[list[AgUiMessage]] = [
    AssistantMessage(id=M, tool_calls=[KNOWN_CALL], subagent_run_id=U),
    ReasoningMessage(id=N, content="", subagent_run_id=U),
    ActivityMessage(id=M, activity_type="a", content={}, subagent_run_id=U),
]
SNAPSHOT: Final = MessagesSnapshot(messages=HISTORY)
WITH_HISTORY: Final = replace(STARTED, input=RunAgentInput(thread_id=THREAD, run_id=RUN, messages=HISTORY))


def of(owner: RunId, event: Event) -> Event:
    return replace(event, subagent_run_id=owner)


ILLEGAL: Final[dict[str, tuple[Event, ...]]] = {
    "the first event is not RUN_STARTED": (TEXT,),
    "the first event is RUN_ERROR": (ERROR,),
    "the first event is RUN_FINISHED": (FINISHED,),
    "RUN_STARTED names no protocol version": (replace(STARTED, protocol_version=UNSET),),
    "RUN_STARTED names another protocol version": (replace(STARTED, protocol_version="0.9"),),
    "RUN_STARTED while a segment is open": (STARTED, STARTED),
    "an event after RUN_FINISHED": (STARTED, FINISHED, TEXT),
    "an event after RUN_ERROR": (STARTED, ERROR, StateSnapshot(snapshot=None)),
    "RUN_ERROR after RUN_FINISHED": (STARTED, FINISHED, ERROR),
    "RUN_FINISHED after RUN_ERROR": (STARTED, ERROR, FINISHED),
    "RUN_FINISHED with another run id": (STARTED, replace(FINISHED, run_id=S)),
    "RUN_FINISHED with another thread id": (STARTED, replace(FINISHED, thread_id=ThreadId("x"))),
    "RUN_FINISHED with an open text message": (STARTED, TEXT, FINISHED),
    "RUN_FINISHED with an open tool call": (STARTED, CALL, FINISHED),
    "RUN_FINISHED with an open step": (STARTED, STEP, FINISHED),
    "RUN_FINISHED with an open reasoning message": (STARTED, THOUGHT, FINISHED),
    "RUN_FINISHED with an open reasoning span": (STARTED, SPAN, FINISHED),
    "RUN_FINISHED with an open subagent": (STARTED, SUB, FINISHED),
    "RUN_ERROR with an open text message": (STARTED, TEXT, ERROR),
    "RUN_ERROR with an open tool call": (STARTED, CALL, ERROR),
    "RUN_ERROR with an open step": (STARTED, STEP, ERROR),
    "RUN_ERROR with an open reasoning message": (STARTED, THOUGHT, ERROR),
    "RUN_ERROR with an open reasoning span": (STARTED, SPAN, ERROR),
    "RUN_ERROR with an open subagent": (STARTED, SUB, ERROR),
    "text content without a start": (STARTED, DELTA),
    "text content after the end": (STARTED, TEXT, TEXT_END, DELTA),
    "a text end without a start": (STARTED, TEXT_END),
    "a text end twice": (STARTED, TEXT, TEXT_END, TEXT_END),
    "a text start twice": (STARTED, TEXT, TEXT),
    "text content in a later segment than its start": (STARTED, TEXT, TEXT_END, FINISHED, STARTED, DELTA),
    "tool arguments without a start": (STARTED, ARGS),
    "tool arguments after the end": (STARTED, CALL, CALL_END, ARGS),
    "a tool call end without a start": (STARTED, CALL_END),
    "a tool call start twice": (STARTED, CALL, CALL),
    "a tool call in no message": (STARTED, replace(CALL, parent_message_id=UNSET)),
    "STEP_FINISHED without a start": (STARTED, STEP_END),
    "STEP_STARTED twice": (STARTED, STEP, STEP),
    "STEP_FINISHED by another than who started it": (STARTED, SUB, STEP, of(S, STEP_END)),
    "reasoning content without a start": (STARTED, SPAN, THOUGHT_DELTA),
    "a reasoning message end without a start": (STARTED, THOUGHT_END),
    "a reasoning message start twice": (STARTED, THOUGHT, THOUGHT),
    "REASONING_END without a span": (STARTED, THOUGHT, SPAN_END),
    "a reasoning span start twice": (STARTED, SPAN, SPAN),
    "the end of an unknown subagent": (STARTED, SUB_END),
    "the error of an unknown subagent": (STARTED, SUB_ERROR),
    "the end of a subagent twice": (STARTED, SUB, SUB_END, SUB_ERROR),
    "a subagent start twice": (STARTED, SUB, SUB),
    "a subagent that starts after its end": (STARTED, SUB, SUB_END, SUB),
    "a subagent that starts after its error": (STARTED, SUB, SUB_ERROR, SUB),
    "a suspended subagent that goes on in the same segment": (STARTED, SUB, SUSPENDED, SUB),
    "an ended subagent that starts in a later segment": (STARTED, SUB, SUB_END, FINISHED, STARTED, SUB),
    "a subagent whose parent never started": (STARTED, replace(SUB, parent_subagent_run_id=U)),
    "a subagent that is its own parent": (STARTED, replace(SUB, parent_subagent_run_id=S)),
    "a subagent whose parent started in an earlier segment": (
        *(STARTED, OTHER, OTHER_END, FINISHED),
        *(STARTED, replace(SUB, parent_subagent_run_id=U)),
    ),
    "the tag of a subagent that never started": (STARTED, of(S, TEXT)),
    "the tag of a subagent of an earlier segment": (
        *(STARTED, SUB, SUB_END, FINISHED),
        *(STARTED, of(S, Custom(name="n", value=1))),
    ),
    "text content with another tag than its start": (STARTED, SUB, TEXT, of(S, DELTA)),
    "a text end with another tag than its start": (STARTED, SUB, OTHER, of(S, TEXT), of(U, TEXT_END)),
    "tool arguments with another tag than their start": (STARTED, SUB, CALL, of(S, ARGS)),
    "a tool call end with another tag than its start": (STARTED, SUB, OTHER, of(S, CALL), of(U, CALL_END)),
    "a tool result with another tag than its call": (STARTED, SUB, CALL, CALL_END, of(S, RESULT)),
    "a tool call with another tag than its message": (STARTED, SUB, TEXT, of(S, CALL)),
    "a tool call with another tag than the result that it is in": (
        *(STARTED, SUB, RESULT),
        of(S, replace(CALL, parent_message_id=N)),
    ),
    "tool arguments with another tag than their call's message": (
        *(STARTED, SUB, OTHER, of(S, TEXT), CALL),
        of(U, ARGS),
    ),
    "reasoning content with another tag than its start": (STARTED, SUB, THOUGHT, of(S, THOUGHT_DELTA)),
    "a reasoning message with another tag than the span of its id": (STARTED, SUB, SPAN, of(S, THOUGHT)),
    "a span end with another tag than its start": (STARTED, SUB, SPAN, of(S, SPAN_END)),
    "an activity delta with another tag than its snapshot": (STARTED, SUB, ACTIVITY, of(S, ACTIVITY_DELTA)),
    "a sealed value with another tag than its message": (STARTED, SUB, TEXT, TEXT_END, of(S, SEALED)),
    "a sealed value with another tag than its thought": (STARTED, SUB, THOUGHT, of(S, SEALED)),
    "a sealed value with another tag than its call": (STARTED, SUB, CALL, of(S, SEALED_CALL)),
    "a text with another tag than in a snapshot": (STARTED, SUB, SNAPSHOT, of(S, TEXT)),
    "a text with another tag than in the request": (WITH_HISTORY, SUB, of(S, TEXT)),
    "a thought with another tag than in a snapshot": (
        *(STARTED, SUB, SNAPSHOT),
        of(S, replace(THOUGHT, message_id=N)),
    ),
    "an activity delta with another tag than in a snapshot": (STARTED, SUB, SNAPSHOT, of(S, ACTIVITY_DELTA)),
    "a tool call in another message than in a snapshot": (
        *(STARTED, SNAPSHOT, replace(TEXT, message_id=N)),
        replace(CALL, parent_message_id=N),
    ),
    "a tool call with another tag than in a snapshot": (
        *(STARTED, SUB, SNAPSHOT),
        of(S, replace(CALL, parent_message_id=MessageId("unknown"))),
    ),
    "a tool call with the tag that its message had before a snapshot": (
        *(STARTED, SUB, of(S, TEXT), of(S, TEXT_END), SNAPSHOT),
        of(S, replace(CALL, tool_call_id=ToolCallId("d"))),
    ),
    "a text id used again": (STARTED, TEXT, TEXT_END, TEXT),
    "a text id used again in a later segment": (STARTED, TEXT, TEXT_END, FINISHED, STARTED, TEXT),
    "a text id used again by a thought": (STARTED, TEXT, THOUGHT),
    "a text id used again by a tool result": (STARTED, TEXT, TEXT_END, replace(RESULT, message_id=M)),
    "a tool call id used again": (STARTED, CALL, CALL_END, CALL),
    "a reasoning message id used again": (STARTED, THOUGHT, THOUGHT_END, THOUGHT),
    "a reasoning span id used again": (STARTED, SPAN, SPAN_END, SPAN),
    "a tool result id used again": (STARTED, RESULT, RESULT),
    "a snapshot while a text message is open": (STARTED, TEXT, MessagesSnapshot(messages=[])),
    "a snapshot while a reasoning message is open": (STARTED, THOUGHT, MessagesSnapshot(messages=[])),
    "a text chunk": (STARTED, TextMessageChunk(message_id=M, delta="x")),
    "a tool call chunk": (STARTED, ToolCallChunk(tool_call_id=C, tool_call_name="f")),
    "a reasoning chunk": (STARTED, ReasoningMessageChunk(message_id=M, delta="x")),
}

LEGAL: Final[dict[str, tuple[Event, ...]]] = {
    "nothing": (),
    "an empty segment": (STARTED, FINISHED),
    "a failed segment": (STARTED, ERROR),
    "two segments": (STARTED, FINISHED, STARTED, ERROR),
    "a segment with an id of its own": (replace(STARTED, run_id=S), replace(FINISHED, run_id=S)),
    "a message": (STARTED, TEXT, DELTA, DELTA, TEXT_END, FINISHED),
    "a message without a word": (STARTED, TEXT, TEXT_END, FINISHED),
    "messages in each other": (
        *(STARTED, TEXT, replace(TEXT, message_id=N), DELTA),
        *(TEXT_END, replace(TEXT_END, message_id=N), FINISHED),
    ),
    "a call in an open message": (STARTED, TEXT, CALL, ARGS, CALL_END, TEXT_END, RESULT, FINISHED),
    "a call in a message that has no text": (STARTED, CALL, ARGS, CALL_END, FINISHED),
    "a result before the end of its call": (STARTED, CALL, RESULT, CALL_END, FINISHED),
    "a result without a call": (STARTED, RESULT, FINISHED),
    "a result in a later segment": (STARTED, CALL, CALL_END, FINISHED, STARTED, RESULT, FINISHED),
    "thoughts in a span of the same id": (
        *(STARTED, SPAN, THOUGHT, THOUGHT_DELTA, THOUGHT_END),
        *(SPAN_END, FINISHED),
    ),
    "a thought without a span": (STARTED, THOUGHT, THOUGHT_END, FINISHED),
    "a step again": (STARTED, STEP, STEP_END, STEP, STEP_END, FINISHED),
    "steps of one name and two owners": (
        *(STARTED, SUB, STEP, of(S, STEP), STEP_END),
        *(of(S, STEP_END), SUB_END, FINISHED),
    ),
    "the work of a subagent": (
        *(STARTED, SUB, of(S, TEXT), of(S, DELTA), DELTA, of(S, CALL), ARGS),
        *(of(S, CALL_END), TEXT_END, of(S, RESULT), SUB_END, FINISHED),
    ),
    "a call of a subagent in a message that has no text": (
        *(STARTED, SUB, of(S, CALL), of(S, ARGS), of(S, CALL_END)),
        *(SUB_END, FINISHED),
    ),
    "an untagged call in a message of a subagent": (
        *(STARTED, SUB, of(S, TEXT), CALL, of(S, ARGS), of(S, CALL_END)),
        *(TEXT_END, SUB_END, FINISHED),
    ),
    "a tag of a subagent that has ended": (STARTED, SUB, SUB_END, of(S, TEXT), TEXT_END, FINISHED),
    "a subagent of a subagent": (
        *(STARTED, SUB, SUB_END, replace(OTHER, parent_subagent_run_id=S)),
        *(OTHER_END, FINISHED),
    ),
    "a suspended subagent that goes on in a later segment": (
        *(STARTED, SUB, SUSPENDED, FINISHED),
        *(STARTED, SUB, SUB_END, FINISHED),
    ),
    "a delta of an unknown activity": (STARTED, SUB, of(S, ACTIVITY_DELTA), SUB_END, FINISHED),
    "an activity that changes hands": (
        *(STARTED, SUB, ACTIVITY, of(S, ACTIVITY), of(S, ACTIVITY_DELTA)),
        *(SUB_END, FINISHED),
    ),
    "an untagged event of something that is a subagent's": (STARTED, SNAPSHOT, TEXT, DELTA, TEXT_END, FINISHED),
    "a snapshot between messages": (STARTED, TEXT, TEXT_END, SNAPSHOT, FINISHED),
    "a sealed value of something unknown": (STARTED, SUB, of(S, SEALED), SUB_END, FINISHED),
}


@pytest.mark.parametrize("events", ILLEGAL.values(), ids=ILLEGAL)
def test_a_broken_rule_is_found_where_it_is_broken(events: tuple[Event, ...]) -> None:
    verify_stream(events[:-1], complete=False)
    with pytest.raises(IllegalStream) as illegal:
        verify_stream(events, complete=False)
    assert illegal.value.index == len(events) - 1
    assert illegal.value.reason in str(illegal.value)


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_a_legal_stream_is_accepted(events: tuple[Event, ...]) -> None:
    verify_stream(events)


@pytest.mark.parametrize("events", [(STARTED,), (STARTED, FINISHED, STARTED, TEXT, TEXT_END)])
def test_a_complete_stream_has_a_terminal_event_at_its_end(events: tuple[Event, ...]) -> None:
    verify_stream(events, complete=False)
    with pytest.raises(IllegalStream, match="terminal"):
        verify_stream(events)
