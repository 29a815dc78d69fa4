"""`ProviderModel` over models of pydantic-ai that need no network."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.message import NewMessage, Role
from holdfast.models.messages import PROVIDER_METADATA_KEY
from holdfast.models.provider_model import DEFAULT_CONTEXT_WINDOW_TOKENS, ProviderModel
from holdfast.ports.model import ModelCallPurpose, ModelSettings
from tests.builders import user
from tests.unit.models.model_calls import calls, deltas, finished, model_request, text, thoughts


def answering(*output: Any, requests: list[Any] | None = None) -> ProviderModel:
    async def stream(messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if requests is not None:
            requests.append((messages, info))
        for piece in output:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return ProviderModel("function:test", FunctionModel(stream_function=stream))


async def test_text_is_streamed() -> None:
    output = await deltas(answering("hel", "lo"))
    assert text(output) == "hello"
    assert finished(output).reason == "stop"


async def test_interleaved_calls_have_their_arguments() -> None:
    output = await deltas(
        answering(
            {0: DeltaToolCall(name="look", json_args='{"at"', tool_call_id="call_one")},
            {1: DeltaToolCall(name="jump", json_args="{}", tool_call_id="call_two")},
            {0: DeltaToolCall(json_args=":1}")},
        ),
        model_request(tools=["look", "jump"]),
    )
    assert calls(output) == [("look", {"at": 1}), ("jump", {})]
    assert finished(output).reason == "tool_calls"


async def test_signed_reasoning_is_stored_and_sent_back() -> None:
    output = await deltas(answering({0: DeltaThinkingPart(content="hm", signature="signed")}, "so"))
    assert (thoughts(output), text(output)) == ("hm", "so")
    message = NewMessage(
        role=Role.ASSISTANT, content="so", metadata={PROVIDER_METADATA_KEY: finished(output).provider_data}
    )
    requests: list[Any] = []
    await deltas(answering("ok", requests=requests), model_request(user("hi"), message, user("go on")))
    ((_, response, _), _) = requests[0]
    assert [(type(part), getattr(part, "signature", None)) for part in response.parts] == [
        (ai.ThinkingPart, "signed"),
        (ai.TextPart, None),
    ]


async def test_reasoning_that_cannot_be_stored_is_dropped() -> None:
    output = await deltas(answering({0: DeltaThinkingPart(content="hm \ud800", signature="signed")}, "so"))
    assert (thoughts(output), text(output)) == ("hm \ufffd", "so")
    assert finished(output).provider_data == {}


async def test_the_settings_of_a_request_are_sent() -> None:
    requests: list[Any] = []
    wanted = ModelSettings(temperature=0.2, thinking="high", max_output_tokens=99)
    await deltas(answering("ok", requests=requests), model_request(tools=["look"], settings=wanted))
    ((_, info),) = requests
    assert info.instructions == "Be brief."
    assert [tool.name for tool in info.function_tools] == ["look"]
    assert (info.model_settings["temperature"], info.model_settings["max_tokens"]) == (0.2, 99)


async def test_settings_that_are_not_set_are_not_sent() -> None:
    requests: list[Any] = []
    await deltas(answering("ok", requests=requests), model_request(purpose=ModelCallPurpose.SUMMARY))
    ((_, info),) = requests
    assert not {"temperature", "max_tokens", "thinking", "cache"} & set(info.model_settings or {})


async def test_an_error_in_the_middle_of_a_stream_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="`function:test` disconnected"):
        await deltas(answering("so far", KeyError("choices")))


async def test_an_exception_of_the_caller_passes_through() -> None:
    with pytest.raises(KeyError, match="of the caller"):
        async with answering("hel", "lo").stream(model_request()) as stream:
            await anext(stream)
            raise KeyError("of the caller")


async def test_an_unknown_model_has_the_default_window_and_no_price() -> None:
    model = answering("x")
    assert (model.context_window, model.price_known) == (DEFAULT_CONTEXT_WINDOW_TOKENS, False)
    assert finished(await deltas(model)).usage.cost_usd is None


async def test_the_test_model_of_pydantic_ai_calls_its_tools() -> None:
    model = ProviderModel("test", TestModel())
    assert [name for name, _ in calls(await deltas(model, model_request(tools=["look", "jump"])))] == ["look", "jump"]
