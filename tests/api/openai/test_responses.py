"""The official OpenAI client creates responses with agents: text, streams, tools, structured output, and branches."""

from typing import Any, Final

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError

from holdfast.domain.ids import RunId
from tests.api.site import Site
from tests.scenario.agents.agent_workspace import SPACE

WEATHER: Final[Any] = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def run_of(response: Any) -> RunId:
    return RunId(response.id.removeprefix("resp_"))


async def stream(openai: AsyncOpenAI, **parameters: Any) -> list[Any]:
    return [event async for event in await openai.responses.create(stream=True, **parameters)]


async def test_a_response_has_the_answer_and_the_usage(site: Site, openai: AsyncOpenAI) -> None:
    response = await openai.responses.create(model="bot", input="hi", instructions="be kind")
    assert (response.output_text, response.status, response.model) == ("hello you", "completed", "bot")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (7, 2, 9)
    run = await site.store.runs.get(SPACE, run_of(response))
    assert await site.floor.texts(run) == ["system: be kind", "user: hi", "assistant: hello you"]


async def test_a_previous_response_is_continued_and_used_twice_it_branches(site: Site, openai: AsyncOpenAI) -> None:
    first = await openai.responses.create(model="echo", input="one")
    second = await openai.responses.create(model="echo", input="two", previous_response_id=first.id)
    branch = await openai.responses.create(
        model="echo", input=[{"role": "user", "content": "zwei"}], previous_response_id=first.id
    )
    assert (second.output_text, branch.output_text) == ("you said two", "you said zwei")
    assert second.previous_response_id == first.id
    runs = [await site.store.runs.get(SPACE, run_of(each)) for each in (first, second, branch)]
    assert len({run.thread_id for run in runs}) == 1
    assert [run.base_run_id for run in runs] == [None, runs[0].id, runs[0].id]
    history = await site.store.messages.history(SPACE, runs[2].id)
    assert [message.content for message in history] == ["one", "you said one", "zwei", "you said zwei"]


async def test_a_stream_has_the_events_of_the_api_in_order(openai: AsyncOpenAI) -> None:
    events = await stream(openai, model="bot", input="hi")
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "hello you"
    assert events[-1].response.output_text == "hello you"


@pytest.mark.parametrize("streamed", [False, True])
async def test_tools_of_the_caller_are_called_and_answered(openai: AsyncOpenAI, streamed: bool) -> None:
    asked: Any
    if streamed:
        events = await stream(openai, model="tourist", input="go", tools=[WEATHER])
        asked = events[-1].response
        (arguments,) = [event for event in events if event.type == "response.function_call_arguments.done"]
        assert arguments.arguments == '{"city":"Rome"}'
    else:
        asked = await openai.responses.create(model="tourist", input="go", tools=[WEATHER])
    (call,) = [item for item in asked.output if item.type == "function_call"]
    assert (call.name, call.arguments) == ("weather", '{"city":"Rome"}')
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    answered = await openai.responses.create(
        model="tourist", input=[result], previous_response_id=asked.id, tools=[WEATHER]
    )
    assert answered.output_text == "it is sunny"
    with pytest.raises(APIStatusError) as again:
        await openai.responses.create(model="tourist", input=[result], previous_response_id=asked.id)
    assert again.value.status_code == 409


async def test_a_conversation_that_the_client_keeps_has_its_calls_as_items(site: Site, openai: AsyncOpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": "go"}]
    asked = await openai.responses.create(model="tourist", input=items, tools=[WEATHER])
    items += [item.model_dump(exclude_none=True) for item in asked.output]
    (call,) = [item for item in asked.output if item.type == "function_call"]
    output = [{"type": "input_text", "text": "sun"}, {"type": "input_text", "text": "ny"}]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    answered = await openai.responses.create(model="tourist", input=items, tools=[WEATHER])
    assert answered.output_text == "it is sunny"
    assert (await site.store.runs.get(SPACE, run_of(asked))).status == "completed"
    items += [item.model_dump(exclude_none=True) for item in answered.output]
    later = await openai.responses.create(model="echo", input=[*items, {"role": "user", "content": "thanks"}])
    messages = await site.store.messages.of_run(SPACE, run_of(later))
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [each.name for each in messages[1].tool_calls] == ["weather"]


async def test_a_question_of_the_agent_is_answered_with_the_next_message(openai: AsyncOpenAI) -> None:
    asked = await openai.responses.create(model="asker", input="go")
    assert asked.output_text == "which?"
    answered = await openai.responses.create(model="asker", input="red", previous_response_id=asked.id)
    assert answered.output_text == "it is red"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_structured_answer_is_checked(openai: AsyncOpenAI, streamed: bool) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "city", "schema": {"type": "object", "required": ["city"]}}}
    if streamed:
        events = await stream(openai, model="structured", input="where?", text=form)
        assert "".join(each.delta for each in events if each.type == "response.output_text.delta") == '{"city": "Rome"}'
    else:
        response = await openai.responses.create(model="structured", input="where?", text=form)
        assert response.output_text == '{"city": "Rome"}'


async def test_a_failed_run_is_an_error(openai: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError, match="no"):
        await openai.responses.create(model="failing", input="go")
    *_, last = await stream(openai, model="failing", input="go")
    assert (last.type, last.code, last.message) == ("error", "MODEL_REFUSED", "no")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"input": "x", "background": True}, "start a task instead"),
        ({"input": "x", "tool_choice": "required"}, "an agent chooses its tools"),
        ({"input": "x", "conversation": "conv_1"}, "continue one with `previous_response_id`"),
        ({"input": [{"type": "reasoning"}]}, "not a message, a function call or its output"),
        (
            {"input": [{"type": "function_call", "call_id": "a", "name": "b", "arguments": "["}]},
            r"`input\[0\].arguments` must be a JSON object",
        ),
        ({"input": "x", "previous_response_id": "chatcmpl-1"}, "is not the id of a response"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}, "needs `schema`"),
        ({"input": [{"role": "assistant", "content": "x"}], "previous_response_id": "BASE"}, "there is no new message"),
    ],
)
async def test_requests_that_cannot_be_met_are_refused(
    openai: AsyncOpenAI, parameters: dict[str, Any], message: str
) -> None:
    if parameters.get("previous_response_id") == "BASE":
        base = await openai.responses.create(model="echo", input="one")
        parameters = {**parameters, "previous_response_id": base.id}
    with pytest.raises(BadRequestError, match=message):
        await openai.responses.create(model="echo", **parameters)


async def test_an_unknown_response_or_agent_is_not_found(openai: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError):
        await openai.responses.create(model="echo", input="x", previous_response_id="resp_run_none")
    with pytest.raises(NotFoundError, match="there is no agent `nobody`"):
        await openai.responses.create(model="nobody", input="x")
