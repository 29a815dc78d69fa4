from typing import Any

import pytest

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models.messages import PROVIDER_METADATA_KEY
from holdfast.ports.model import ModelSettings
from tests.builders import result, user
from tests.unit.models.fake_transport import FakeTransport, anthropic, blocks, error, events
from tests.unit.models.model_calls import calls, deltas, finished, model_request, text, thoughts

THOUGHT = (
    {"type": "thinking", "thinking": "", "signature": ""},
    [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "signed"}],
)
WORDS = (
    {"type": "text", "text": ""},
    [{"type": "text_delta", "text": "I "}, {"type": "text_delta", "text": "look."}],
)
CALL: tuple[dict[str, Any], list[dict[str, Any]]] = (
    {"type": "tool_use", "id": "toolu_01A09q90qw", "name": "look", "input": {}},
    [{"type": "input_json_delta", "partial_json": '{"at"'}, {"type": "input_json_delta", "partial_json": ": 1}"}],
)
DONE = events(*blocks(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "done"}]), stop="end_turn"))


async def test_reasoning_text_and_calls_are_streamed_and_signed_parts_are_sent_back() -> None:
    transport = FakeTransport(events(*blocks(THOUGHT, WORDS, CALL, stop="tool_use")), DONE)
    model = anthropic(transport)
    output = await deltas(model, model_request(tools=["look"]))
    assert (thoughts(output), text(output), calls(output)) == ("hm", "I look.", [("look", {"at": 1})])
    assert finished(output).reason == "tool_calls"
    answer = NewMessage(
        role=Role.ASSISTANT,
        content="I look.",
        tool_calls=[ToolCall(id=ToolCallId("toolu_01A09q90qw"), name="look", arguments={"at": 1})],
        metadata={PROVIDER_METADATA_KEY: finished(output).provider_data},
    )
    await deltas(model, model_request(user("hi"), answer, result("toolu_01A09q90qw", "seen"), tools=["look"]))
    sent = transport.requests[1]["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "tool_use"]
    assert (sent[0]["thinking"], sent[0]["signature"]) == ("hm", "signed")


async def test_cached_tokens_are_counted_and_priced() -> None:
    usage = finished(await deltas(anthropic(FakeTransport(DONE)))).usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (150, 50, 20)
    assert usage.cost_usd == pytest.approx((100 * 3 + 50 * 0.3 + 20 * 15) / 1_000_000)


async def test_a_turn_requests_prompt_caching() -> None:
    transport = FakeTransport(DONE)
    await deltas(anthropic(transport), model_request(tools=["look"]))
    assert "cache_control" in str(transport.requests)


async def test_thinking_and_the_token_limit_are_sent() -> None:
    transport = FakeTransport(DONE)
    await deltas(anthropic(transport), model_request(settings=ModelSettings(thinking="high", max_output_tokens=20_000)))
    assert transport.requests[0]["thinking"]["type"] != "disabled"
    assert transport.requests[0]["max_tokens"] == 20_000


@pytest.mark.parametrize(("stop", "reason"), [("max_tokens", "length"), ("refusal", "refused"), ("end_turn", "stop")])
async def test_the_stop_reason_is_converted(stop: str, reason: str) -> None:
    assert finished(await deltas(anthropic(FakeTransport(events(*blocks(WORDS, stop=stop)))))).reason == reason


async def test_a_stream_that_ends_without_a_reason_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="was cut off"):
        await deltas(anthropic(FakeTransport(events(*blocks(WORDS, stop=None)))))


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum", ContextOverflow),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ContextOverflow,
        ),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow),
        (401, "authentication_error", "invalid x-api-key", ModelRefused),
        (404, "not_found_error", "model: claude-9", ModelRefused),
        (400, "invalid_request_error", "messages: at least one is needed", ModelRefused),
        (529, "overloaded_error", "Overloaded", ModelUnavailable),
        (429, "rate_limit_error", "slow down", ModelUnavailable),
        (500, "api_error", "Internal server error", ModelUnavailable),
    ],
)
async def test_errors_are_classified(status: int, kind: str, message: str, expected: type[HoldfastError]) -> None:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    with pytest.raises(HoldfastError) as caught:
        await deltas(anthropic(FakeTransport(error(status, body, **{"retry-after": "4"}))))
    assert type(caught.value) is expected
    assert message in caught.value.message
    assert caught.value.details["retry_after"] == 4.0


async def test_an_error_in_the_middle_of_a_stream_is_the_same_error() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelUnavailable, match="529: Overloaded"):
        await deltas(anthropic(FakeTransport(events(*blocks(WORDS, stop=None), overloaded))))
