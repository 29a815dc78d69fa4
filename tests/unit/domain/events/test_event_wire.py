"""Events on the wire: camelCase, no nulls, and strict decoding."""

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.content import TextPart
from holdfast.domain.errors import Invalid
from holdfast.domain.events import (
    EVENT_TYPES,
    Custom,
    Event,
    RunFinished,
    RunStarted,
    StateDelta,
    StateSnapshot,
    TextMessageContent,
    TextMessageStart,
    ToolCallResult,
    decode_event,
    encode_event,
    event_type,
)
from holdfast.domain.events.custom import CUSTOM_EVENT_TYPES, HoldfastEvent, StatusChanged, from_custom, to_custom
from holdfast.domain.events.event import PatchMove, PatchRemove
from holdfast.domain.events.messages import AgUiTool, InterruptOutcome, ResumeEntry, RunAgentInput
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.run import RunStatus
from tests.unit.domain.events.strategies import structs

MESSAGE: Final = MessageId("m")
THREAD: Final = ThreadId("t")
RUN: Final = RunId("r")


@pytest.mark.parametrize(
    ("event", "wire"),
    [
        (
            TextMessageContent(message_id=MESSAGE, delta="hi", timestamp=1_700_000_000_000),
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "hi", "timestamp": 1_700_000_000_000},
        ),
        (
            ToolCallResult(message_id=MESSAGE, tool_call_id=ToolCallId("c"), content=[TextPart(text="ok")]),
            {
                "type": "TOOL_CALL_RESULT",
                "messageId": "m",
                "toolCallId": "c",
                "content": [{"type": "text", "text": "ok"}],
            },
        ),
        (StateSnapshot(snapshot=None), {"type": "STATE_SNAPSHOT", "snapshot": None}),
        (
            StateDelta(delta=[PatchMove(from_="/a", path="/b"), PatchRemove(path="")]),
            {
                "type": "STATE_DELTA",
                "delta": [{"op": "move", "from": "/a", "path": "/b"}, {"op": "remove", "path": ""}],
            },
        ),
        (Custom(name="n", value=None), {"type": "CUSTOM", "name": "n", "value": None}),
    ],
    ids=["text", "result", "state", "patch", "custom"],
)
def test_an_event_is_encoded_in_camel_case_without_unset_fields(event: Event, wire: dict[str, Any]) -> None:
    assert json.loads(encode_event(event)) == wire
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("type_", EVENT_TYPES.values(), ids=EVENT_TYPES)
@settings(max_examples=25)
@given(data=st.data())
def test_an_event_round_trips_through_json(type_: type[Event], data: st.DataObject) -> None:
    event = data.draw(structs(type_))
    assert decode_event(encode_event(event)) == event
    assert EVENT_TYPES[event_type(event)] is type_


@pytest.mark.parametrize(
    ("wire", "why"),
    [
        ({"type": "THINKING_START"}, "'THINKING_START'"),
        ({"messageId": "m"}, "`type`"),
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}, "`delta`"),
        ({"type": "TEXT_MESSAGE_CONTENT", "message_id": "m", "delta": ""}, "`messageId`"),
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": 1}, "`$.delta`"),
        ({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "tool"}, "`$.role`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": 1.0}, "`$.timestamp`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": 1.5}, "`$.timestamp`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": "2026-01-01"}, "`$.timestamp`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": None}, "`$.timestamp`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": 2**53}, "`$.timestamp`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "metadata": None}, "`$.metadata`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "metadata": []}, "`$.metadata`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "rawEvent": None}, "`$.rawEvent`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": None}, "`$.subagentRunId`"),
        ({"type": "TEXT_MESSAGE_END", "messageId": None}, "`$.messageId`"),
        ({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "parentRunId": None}, "`$.parentRunId`"),
        ({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": {}}, "`threadId`"),
        ({"type": "RUN_FINISHED", "runId": "r"}, "`threadId`"),
        ({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "result": None}, "`$.result`"),
        (
            {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "paused"}},
            "'paused'",
        ),
        (
            {
                "type": "RUN_FINISHED",
                "threadId": "t",
                "runId": "r",
                "outcome": {"type": "interrupt", "interrupts": []},
            },
            "`interrupts`",
        ),
        ({"type": "RUN_ERROR", "message": "m", "usage": [{"inputTokens": -1}]}, "`$.usage[0].inputTokens`"),
        ({"type": "STATE_SNAPSHOT"}, "`snapshot`"),
        ({"type": "STATE_DELTA", "delta": [{"op": "merge", "path": "/a"}]}, "'merge'"),
        ({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "a"}]}, "`$.delta[0].path`"),
        ({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "\n"}]}, "`$.delta[0].path`"),
        ({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a"}]}, "`value`"),
        (
            {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "assistant", "content": None}]},
            "`$.messages[0].content`",
        ),
        ({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "robot"}]}, "'robot'"),
        ({"type": "CUSTOM", "name": "n"}, "`value`"),
        ([], "array"),
    ],
    ids=str,
)
def test_an_invalid_event_is_rejected_with_the_reason(wire: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        decode_event(json.dumps(wire).encode())
    assert why in refused.value.message


@pytest.mark.parametrize("data", [b"", b"{", b'{"type": "\xff"}', b'{"type":"RAW","event":' + b"[" * 100_000])
def test_bytes_that_are_not_json_are_rejected(data: bytes) -> None:
    with pytest.raises(Invalid):
        decode_event(data)


@pytest.mark.parametrize("value", [object(), "\ud800"])
def test_a_value_that_json_cannot_encode_is_rejected(value: object) -> None:
    with pytest.raises(Invalid, match="STATE_SNAPSHOT"):
        encode_event(StateSnapshot(snapshot=value))


def test_an_unknown_field_is_ignored() -> None:
    assert decode_event(b'{"type":"TEXT_MESSAGE_START","messageId":"m","createdAt":1}') == TextMessageStart(
        message_id=MESSAGE
    )


def test_a_null_from_a_client_counts_as_unset() -> None:
    run_input = RunAgentInput(
        thread_id=THREAD,
        run_id=RUN,
        messages=[],
        state=None,
        forwarded_props=None,
        tools=[AgUiTool(name="n", description="d", parameters=None)],
        resume=[ResumeEntry(interrupt_id=InterruptId("i"), status="resolved", payload=None)],
    )
    assert b"null" not in encode_event(RunStarted(thread_id=THREAD, run_id=RUN, input=run_input))


def test_an_interrupt_outcome_names_at_least_one_interrupt() -> None:
    with pytest.raises(Invalid):
        RunFinished(thread_id=THREAD, run_id=RUN, outcome=InterruptOutcome(interrupts=[]))


@pytest.mark.parametrize("type_", CUSTOM_EVENT_TYPES.values(), ids=CUSTOM_EVENT_TYPES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_holdfast_event_round_trips_through_its_custom_event(type_: type[HoldfastEvent], data: st.DataObject) -> None:
    event = data.draw(structs(type_))
    carried = to_custom(event)
    assert CUSTOM_EVENT_TYPES[carried.name] is type_
    assert decode_event(encode_event(carried)) == carried
    assert from_custom(carried) == event


def test_a_status_change_has_from_and_to() -> None:
    changed = StatusChanged(from_=RunStatus.QUEUED, to=RunStatus.RUNNING)
    assert to_custom(changed) == Custom(name="holdfast.status", value={"from": "queued", "to": "running"})


def test_a_foreign_custom_event_is_not_a_holdfast_event() -> None:
    assert from_custom(Custom(name="theirs", value=1)) is None


def test_a_custom_event_with_our_name_and_a_wrong_value_is_rejected() -> None:
    with pytest.raises(Invalid, match="holdfast.abandoned"):
        from_custom(Custom(name="holdfast.abandoned", value={"message_ids": "m"}))
