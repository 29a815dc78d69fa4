from typing import Any

import pytest

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models.messages import PROVIDER_METADATA_KEY
from tests.builders import result, user
from tests.unit.models.fake_transport import FakeTransport, events, responses
from tests.unit.models.model_calls import calls, deltas, finished, model_request

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
    ai: list[dict[str, Any]] = [
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
    ai += [{"type": "response.completed", "response": done}] if completed else []
    return [{**event, "sequence_number": number} for number, event in enumerate(ai)]


async def test_encrypted_reasoning_is_sent_back_before_its_call() -> None:
    transport = FakeTransport(events(*answer()), events(*answer()))
    model = responses(transport)
    output = await deltas(model, model_request(tools=["look"]))
    assert calls(output) == [("look", {"at": 1})]
    assert finished(output).usage.cached_input_tokens == 4
    message = NewMessage(
        role=Role.ASSISTANT,
        content="",
        tool_calls=[ToolCall(id=ToolCallId("call_abcdefgh"), name="look", arguments={"at": 1})],
        metadata={PROVIDER_METADATA_KEY: finished(output).provider_data},
    )
    await deltas(model, model_request(user("hi"), message, result("call_abcdefgh", "seen"), tools=["look"]))
    kinds = [item.get("type", item.get("role")) for item in transport.requests[1]["input"]]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert transport.requests[1]["input"][1]["encrypted_content"] == "sealed"


async def test_a_response_over_the_token_limit_ends_with_length() -> None:
    *ai, done = answer()
    cut = {**done["response"], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    transport = FakeTransport(events(*ai, {**done, "type": "response.incomplete", "response": cut}))
    assert finished(await deltas(responses(transport), model_request(tools=["look"]))).reason == "length"


async def test_an_incomplete_stream_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="was cut off"):
        await deltas(responses(FakeTransport(events(*answer(completed=False)))), model_request(tools=["look"]))
