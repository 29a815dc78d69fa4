"""The adapter over models of pydantic-ai that need no network."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import messages as told
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.message import NewMessage, Role
from holdfast.models.messages import PROVIDER_METADATA_KEY
from holdfast.models.provider_model import DEFAULT_CONTEXT_WINDOW, ProviderModel
from holdfast.ports.model import ModelCallPurpose, ModelSettings
from tests.builders import user
from tests.unit.models.asking import asking, calls, deltas, finished, text, thoughts


def answering(*said: Any, asked: list[Any] | None = None) -> ProviderModel:
    async def stream(messages: list[told.ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if asked is not None:
            asked.append((messages, info))
        for piece in said:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return ProviderModel("function:test", FunctionModel(stream_function=stream))


async def test_words_come_as_they_are_said() -> None:
    said = await deltas(answering("hel", "lo"))
    assert text(said) == "hello"
    assert finished(said).reason == "stop"


async def test_calls_side_by_side_are_told_with_their_arguments() -> None:
    said = await deltas(
        answering(
            {0: DeltaToolCall(name="look", json_args='{"at"', tool_call_id="call_one")},
            {1: DeltaToolCall(name="jump", json_args="{}", tool_call_id="call_two")},
            {0: DeltaToolCall(json_args=":1}")},
        ),
        asking(tools=["look", "jump"]),
    )
    assert calls(said) == [("look", {"at": 1}), ("jump", {})]
    assert finished(said).reason == "tool_calls"


async def test_signed_thoughts_are_kept_and_sent_back() -> None:
    said = await deltas(answering({0: DeltaThinkingPart(content="hm", signature="signed")}, "so"))
    assert (thoughts(said), text(said)) == ("hm", "so")
    message = NewMessage(
        role=Role.ASSISTANT, content="so", metadata={PROVIDER_METADATA_KEY: finished(said).provider_data}
    )
    asked: list[Any] = []
    await deltas(answering("ok", asked=asked), asking(user("hi"), message, user("go on")))
    ((_, response, _), _) = asked[0]
    assert [(type(part), getattr(part, "signature", None)) for part in response.parts] == [
        (told.ThinkingPart, "signed"),
        (told.TextPart, None),
    ]


async def test_thoughts_that_cannot_be_stored_are_not_kept() -> None:
    said = await deltas(answering({0: DeltaThinkingPart(content="hm \ud800", signature="signed")}, "so"))
    assert (thoughts(said), text(said)) == ("hm \ufffd", "so")
    assert finished(said).provider_data == {}


async def test_what_the_request_wants_is_asked_for() -> None:
    asked: list[Any] = []
    wanted = ModelSettings(temperature=0.2, thinking="high", max_output_tokens=99)
    await deltas(answering("ok", asked=asked), asking(tools=["look"], settings=wanted))
    ((_, info),) = asked
    assert info.instructions == "Be brief."
    assert [tool.name for tool in info.function_tools] == ["look"]
    assert (info.model_settings["temperature"], info.model_settings["max_tokens"]) == (0.2, 99)


async def test_nothing_is_asked_for_that_the_request_leaves_to_the_model() -> None:
    asked: list[Any] = []
    await deltas(answering("ok", asked=asked), asking(purpose=ModelCallPurpose.SUMMARY))
    ((_, info),) = asked
    assert not {"temperature", "max_tokens", "thinking", "cache"} & set(info.model_settings or {})


async def test_what_breaks_in_the_middle_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable, match="`function:test` broke off"):
        await deltas(answering("so far", KeyError("choices")))


async def test_what_the_caller_raises_is_the_callers_own() -> None:
    with pytest.raises(KeyError, match="of the caller"):
        async with answering("hel", "lo").stream(asking()) as stream:
            await anext(stream)
            raise KeyError("of the caller")


async def test_a_model_that_nobody_knows_has_the_default_window_and_no_price() -> None:
    model = answering("x")
    assert (model.context_window, model.price_known) == (DEFAULT_CONTEXT_WINDOW, False)
    assert finished(await deltas(model)).usage.cost_usd is None


async def test_the_test_model_of_pydantic_ai_calls_what_it_is_offered() -> None:
    model = ProviderModel("test", TestModel())
    assert [name for name, _ in calls(await deltas(model, asking(tools=["look", "jump"])))] == ["look", "jump"]
