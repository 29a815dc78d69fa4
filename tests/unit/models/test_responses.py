from typing import Any

import pytest

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models.messages import PROVIDER_METADATA_KEY
from tests.builders import result, user
from tests.unit.models.asking import asking, calls, deltas, finished
from tests.unit.models.wire import Wire, events, responses

HEAD: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1750000000,
    "model": "gpt-5",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
REASONING: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
CALL: dict[str, Any] = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_abcdefgh",
    "name": "look",
    "arguments": '{"at": 1}',
    "status": "completed",
}
USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens_details": {"reasoning_tokens": 2},
}


def answer(*, completed: bool = True) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**HEAD, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**REASONING, "encrypted_content": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 1,
            "delta": '{"at": 1}',
        },
        {"type": "response.output_item.done", "output_index": 1, "item": CALL},
    ]
    done = {**HEAD, "status": "completed", "output": [REASONING, CALL], "usage": USAGE}
    told += [{"type": "response.completed", "response": done}] if completed else []
    return [{**event, "sequence_number": number} for number, event in enumerate(told)]


async def test_sealed_thoughts_go_back_before_the_call_that_they_led_to() -> None:
    wire = Wire(events(*answer()), events(*answer()))
    model = responses(wire)
    said = await deltas(model, asking(tools=["look"]))
    assert calls(said) == [("look", {"at": 1})]
    assert finished(said).usage.cached_input_tokens == 4
    message = NewMessage(
        role=Role.ASSISTANT,
        content="",
        tool_calls=[ToolCall(id=ToolCallId("call_abcdefgh"), name="look", arguments={"at": 1})],
        metadata={PROVIDER_METADATA_KEY: finished(said).provider_data},
    )
    await deltas(model, asking(user("hi"), message, result("call_abcdefgh", "seen"), tools=["look"]))
    kinds = [item.get("type", item.get("role")) for item in wire.asked[1]["input"]]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert wire.asked[1]["input"][1]["encrypted_content"] == "sealed"


async def test_an_answer_that_grew_too_long_is_told_as_one() -> None:
    *told, done = answer()
    cut = {**done["response"], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    wire = Wire(events(*told, {**done, "type": "response.incomplete", "response": cut}))
    assert finished(await deltas(responses(wire), asking(tools=["look"]))).reason == "length"


async def test_a_stream_that_was_never_completed_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="ended before it was finished"):
        await deltas(responses(Wire(events(*answer(completed=False)))), asking(tools=["look"]))
