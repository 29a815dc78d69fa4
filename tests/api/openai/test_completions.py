"""The official OpenAI clients complete chats with agents."""

import asyncio
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, InternalServerError, NotFoundError
from openai.types.chat import ChatCompletion

from holdfast.domain.content import ImagePart, Json
from holdfast.domain.ids import RunId, ThreadId
from tests.api.openai.clients import WEATHER, sync_client, user
from tests.api.site import Site, eventually
from tests.scenario.agents.agent_workspace import SPACE


async def stream_chat(client: AsyncOpenAI, **parameters: Any) -> tuple[str, list[Any]]:
    """Return the text and the chunks of a stream."""
    stream = await client.chat.completions.create(stream=True, **parameters)
    chunks = [chunk async for chunk in stream]
    return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices), chunks


async def messages_of(site: Site, completion: str) -> list[str]:
    """Return the messages of the run of a completion."""
    run = await site.store.runs.get(SPACE, RunId(completion.removeprefix("chatcmpl-")))
    return await site.floor.texts(run)


async def test_an_agent_that_accepts_chats_is_a_model(openai: AsyncOpenAI) -> None:
    models = [model.id async for model in openai.models.list()]
    assert "bot" in models and not {"silent", "broken"} & set(models)
    assert (await openai.models.retrieve("bot")).id == "bot"
    with pytest.raises(NotFoundError, match="there is no agent `nobody`"):
        await openai.models.retrieve("nobody")


async def test_a_chat_is_completed(site: Site, openai: AsyncOpenAI) -> None:
    messages: Json = [
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": "be brief"},
        user("hi"),
    ]
    found = await openai.chat.completions.create(model="bot", messages=messages, temperature=0.3, seed=7, user="me")
    assert isinstance(found, ChatCompletion)
    (choice,) = found.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "hello you", "stop")
    assert found.usage is not None and found.usage.prompt_tokens_details is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (7, 2, 9)
    assert found.usage.prompt_tokens_details.cached_tokens == 0
    assert (found.model, found.object) == ("bot", "chat.completion")
    assert await messages_of(site, found.id) == [
        "system: be kind",
        "system: be brief",
        "user: hi",
        "assistant: hello you",
    ]


async def test_a_stream_has_the_same_reply_in_chunks(openai: AsyncOpenAI) -> None:
    text, chunks = await stream_chat(openai, model="bot", messages=[user("hi")], stream_options={"include_usage": True})
    assert text == "hello you"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-2:] == [None, "stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 9
    assert {each.usage for each in chunks[:-1]} == {None}
    assert len({each.id for each in chunks}) == 1
    _, without = await stream_chat(openai, model="bot", messages=[user("hi")])
    assert all(each.choices and each.usage is None for each in without)


async def test_the_sync_client_completes_chats_too(site: Site) -> None:
    def talk() -> list[str | None]:
        with sync_client(site) as client:
            plain = client.chat.completions.create(model="bot", messages=[user("hi")])
            with client.chat.completions.create(model="bot", messages=[user("hi")], stream=True) as stream:
                streamed = "".join(each.choices[0].delta.content or "" for each in stream)
            return [plain.choices[0].message.content, streamed, *(model.id for model in client.models.list())]

    replies = await asyncio.to_thread(talk)
    assert replies[:2] == ["hello you", "hello you"] and "bot" in replies


async def test_tool_calls_of_the_agent_are_not_shown_to_the_client(openai: AsyncOpenAI) -> None:
    found = await openai.chat.completions.create(model="worker", messages=[user("go")])
    assert found.choices[0].message.content == "I note it\n\nnoted"
    assert found.choices[0].message.tool_calls is None
    assert (await stream_chat(openai, model="worker", messages=[user("go")]))[0] == "I note it\n\nnoted"


async def test_without_a_thread_the_message_list_is_the_whole_chat(site: Site, openai: AsyncOpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    messages: Json = [
        user("hi"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
        {"role": "assistant", "content": "it is sunny"},
        user("thanks"),
    ]
    found = await openai.chat.completions.create(model="bot", messages=messages)
    run = await site.store.runs.get(SPACE, RunId(found.id.removeprefix("chatcmpl-")))
    stored = await site.floor.messages(run)
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert (stored[1].tool_calls[0].arguments, stored[2].tool_call_id, stored[2].content) == (
        {"city": "Rome"},
        "call_1",
        "sunny",
    )
    assert found.choices[0].message.content == "hello you"


async def test_images_audio_and_documents_reach_the_agent(site: Site, openai: AsyncOpenAI) -> None:
    parts: Json = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERg==", "filename": "a.pdf"}},
    ]
    found = await openai.chat.completions.create(model="bot", messages=[user(parts)])
    run = await site.store.runs.get(SPACE, RunId(found.id.removeprefix("chatcmpl-")))
    content = (await site.floor.messages(run))[0].content
    assert not isinstance(content, str) and isinstance(content[1], ImagePart)
    kinds = [type(part).__name__ for part in content]
    assert kinds == ["TextPart", "ImagePart", "ImagePart", "AudioPart", "DocumentPart"]


class TestThreads:
    """Chats on a thread."""

    async def test_only_new_messages_are_added_to_a_thread(self, site: Site, openai: AsyncOpenAI) -> None:
        first = await openai.chat.completions.with_raw_response.create(model="bot", messages=[user("hi")])
        thread = first.headers["x-holdfast-thread"]
        header = {"X-Holdfast-Thread": thread}
        messages: Json = [user("hi"), {"role": "assistant", "content": "hello you"}, user("again")]
        second = await openai.chat.completions.create(model="bot", messages=messages, extra_headers=header)
        third = await openai.chat.completions.create(model="bot", messages=[user("more")], extra_headers=header)
        assert await messages_of(site, second.id) == ["user: again", "assistant: hello you"]
        last = RunId(third.id.removeprefix("chatcmpl-"))
        assert [each.content for each in await site.store.messages.history(SPACE, last)][::2] == [
            "hi",
            "again",
            "more",
        ]

    async def test_a_thread_is_created_on_first_use(self, site: Site, openai: AsyncOpenAI) -> None:
        header = {"X-Holdfast-Thread": "my-chat"}
        for text in ("one", "two"):
            found = await openai.chat.completions.with_raw_response.create(
                model="bot", messages=[user(text)], extra_headers=header
            )
            assert found.headers["x-holdfast-thread"] == "my-chat"
        assert (await site.store.threads.get(SPACE, ThreadId("my-chat"))).next_sequence == 4

    async def test_a_message_to_a_waiting_thread_is_the_response(self, openai: AsyncOpenAI) -> None:
        header = {"X-Holdfast-Thread": "asking"}
        asked = await openai.chat.completions.create(model="asker", messages=[user("go")], extra_headers=header)
        assert (asked.choices[0].message.content, asked.choices[0].finish_reason) == ("which?", "stop")
        text, _ = await stream_chat(openai, model="asker", messages=[user("the red one")], extra_headers=header)
        assert text == "it is the red one"
        assert (await stream_chat(openai, model="asker", messages=[user("go")]))[0] == "which?"

    async def test_an_approval_is_requested_and_given_as_text(self, openai: AsyncOpenAI) -> None:
        header = {"X-Holdfast-Thread": "approving"}
        asked = await openai.chat.completions.create(model="guarded", messages=[user("go")], extra_headers=header)
        assert "todo_write" in (asked.choices[0].message.content or "")
        with pytest.raises(APIStatusError, match="respond to an approval with") as refused:
            await openai.chat.completions.create(model="guarded", messages=[user("hm")], extra_headers=header)
        assert refused.value.status_code == 400
        done = await openai.chat.completions.create(model="guarded", messages=[user("approve")], extra_headers=header)
        assert done.choices[0].message.content == "done"


class TestClientTools:
    """Tools that the client runs."""

    @pytest.mark.parametrize("thread", [None, "tools-kept"])
    async def test_a_client_tool_call_ends_the_completion_and_its_result_continues_it(
        self, site: Site, openai: AsyncOpenAI, thread: str | None
    ) -> None:
        parameters: Any = {"model": "tourist", "tools": [WEATHER]}
        if thread is not None:
            parameters["extra_headers"] = {"X-Holdfast-Thread": thread}
        first = await openai.chat.completions.create(messages=[user("Rome?")], **parameters)
        (choice,) = first.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", "let me look")
        assert choice.message.tool_calls is not None and first.usage is not None
        (call,) = choice.message.tool_calls
        assert call.type == "function"
        assert (call.function.name, call.function.arguments) == ("weather", '{"city":"Rome"}')
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        messages: Any = [user("Rome?"), choice.message.model_dump(exclude_none=True), result]
        second = await openai.chat.completions.create(messages=messages, **parameters)
        assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("it is sunny", "stop")
        assert second.usage is not None
        assert (first.usage.total_tokens, second.usage.total_tokens) == (9, 9)
        run = RunId(first.id.removeprefix("chatcmpl-"))
        assert await messages_of(site, run) == [
            "user: Rome?",
            "assistant: let me look",
            "tool: sunny",
            "assistant: it is sunny",
        ]

    async def test_tool_calls_are_streamed_whole(self, openai: AsyncOpenAI) -> None:
        parameters: Any = {"model": "traveller", "tools": [WEATHER]}
        text, chunks = await stream_chat(openai, messages=[user("where?")], **parameters)
        assert (text, chunks[-1].choices[0].finish_reason) == ("", "tool_calls")
        calls = [call for each in chunks for call in each.choices[0].delta.tool_calls or ()]
        assert [(each.index, each.function.arguments) for each in calls] == [
            (0, '{"city":"Rome"}'),
            (1, '{"city":"Oslo"}'),
        ]
        asked = [{"id": each.id, "type": "function", "function": each.function.model_dump()} for each in calls]
        results = [{"role": "tool", "tool_call_id": each.id, "content": "cold"} for each in calls]
        messages: Any = [user("where?"), {"role": "assistant", "tool_calls": asked}, *results]
        assert (await stream_chat(openai, messages=messages, **parameters))[0] == "seen both"
        again = await openai.chat.completions.create(
            messages=messages, **parameters
        )  # already answered: the results are history
        assert again.choices[0].message.content == "seen both"

    async def test_a_message_after_the_results_reaches_the_run(self, site: Site, openai: AsyncOpenAI) -> None:
        parameters: Any = {"model": "traveller", "tools": [WEATHER]}
        first = await openai.chat.completions.create(messages=[user("where?")], **parameters)
        calls: Any = first.choices[0].message.model_dump(exclude_none=True)
        rome, oslo = ({"role": "tool", "tool_call_id": each["id"], "content": "x"} for each in calls["tool_calls"])
        part: Any = [user("where?"), {**calls, "tool_calls": calls["tool_calls"][:1]}, rome]
        with pytest.raises(APIStatusError, match="waits for more results"):
            await openai.chat.completions.create(messages=[*part, user("and?")], **parameters)
        some = await openai.chat.completions.create(messages=part, **parameters)
        remaining = some.choices[0].message.tool_calls
        assert remaining is not None and [each.id for each in remaining] == [oslo["tool_call_id"]]
        rest: Any = [{**calls, "tool_calls": calls["tool_calls"][1:]}, oslo, user("and?")]
        await openai.chat.completions.create(messages=rest, **parameters)
        assert "user: and?" in await messages_of(site, first.id)

    async def test_a_thread_waits_for_results(self, openai: AsyncOpenAI) -> None:
        parameters: Any = {"model": "tourist", "tools": [WEATHER], "extra_headers": {"X-Holdfast-Thread": "owing"}}
        first = await openai.chat.completions.create(messages=[user("Rome?")], **parameters)
        with pytest.raises(APIStatusError, match="send them as `tool` messages") as refused:
            await openai.chat.completions.create(messages=[user("well?")], **parameters)
        assert (refused.value.status_code, refused.value.code) == (409, "WAITING")
        calls: Any = first.choices[0].message.model_dump(exclude_none=True)
        messages: Any = [calls, {"role": "tool", "tool_call_id": calls["tool_calls"][0]["id"], "content": "wet"}]
        assert (await openai.chat.completions.create(messages=messages, **parameters)).choices[
            0
        ].message.content == "it is wet"
        with pytest.raises(APIStatusError, match="does not wait for these results") as refused:
            await openai.chat.completions.create(messages=messages, **parameters)
        assert (refused.value.status_code, refused.value.code) == (409, "ALREADY_ANSWERED")

    async def test_tool_choice_none_offers_no_tools(self, openai: AsyncOpenAI) -> None:
        with pytest.raises(APIStatusError, match="the tools of this call are: none"):
            await openai.chat.completions.create(
                model="traveller", messages=[user("x")], tools=[WEATHER], tool_choice="none"
            )


async def test_requests_with_one_idempotency_key_start_one_run(openai: AsyncOpenAI) -> None:
    parameters: Any = {"messages": [user("hi")], "extra_headers": {"Idempotency-Key": "k1"}}
    first = await openai.chat.completions.create(model="bot", tools=[WEATHER], **parameters)
    again = await openai.chat.completions.with_raw_response.create(model="bot", tools=[WEATHER], **parameters)
    assert (again.parse(), again.headers["idempotency-replayed"]) == (first, "true")


async def test_a_run_continues_after_the_client_disconnects(site: Site, openai: AsyncOpenAI) -> None:
    stream = await openai.chat.completions.create(model="staller", messages=[user("x")], stream=True)
    run = RunId((await anext(aiter(stream))).id.removeprefix("chatcmpl-"))
    await stream.close()

    async def disconnected() -> bool:
        return site.streams.open_count == 0

    await eventually(disconnected)
    assert not (await site.store.runs.get(SPACE, run)).status.terminal
    await site.post(f"/api/runs/{run}/cancel", expect=200)


class TestStructuredOutput:
    """`response_format`: the reply is JSON that matches a schema."""

    FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"required": ["city"]}}}

    async def test_the_reply_is_only_the_valid_answer(self, openai: AsyncOpenAI) -> None:
        chat: Any = {"model": "structured", "messages": [user("go")], "response_format": self.FORMAT}
        completion = await openai.chat.completions.create(**chat)
        assert completion.choices[0].message.content == '{"city": "Rome"}'
        text, _ = await stream_chat(openai, **chat)
        assert text == '{"city": "Rome"}'

    async def test_any_object_will_do_without_a_schema(self, openai: AsyncOpenAI) -> None:
        completion = await openai.chat.completions.create(
            model="structured", messages=[user("go")], response_format={"type": "json_object"}
        )
        assert completion.choices[0].message.content == '{"town": "Rome"}'

    async def test_a_reply_that_never_matches_is_an_error(self, openai: AsyncOpenAI) -> None:
        with pytest.raises(InternalServerError) as caught:
            await openai.chat.completions.create(
                model="unstructured", messages=[user("go")], response_format={"type": "json_object"}
            )
        assert (caught.value.status_code, caught.value.code) == (502, "OUTPUT_INVALID")
