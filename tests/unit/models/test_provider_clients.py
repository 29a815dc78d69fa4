"""The clients of OpenAI and Anthropic send messages and tools as they are, without walking them."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import JsonSchemaTransformer
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.domain.content import DataSource, ImagePart, TextPart
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import ToolCallId
from holdfast.domain.message import NewMessage, Role, ToolCall
from holdfast.models import provider_model
from holdfast.models.provider_model import ProviderModel
from holdfast.models.sdk_requests import hook_requests
from holdfast.ports.model import ModelRequest, ToolDefinition
from tests.builders import result, user
from tests.unit.models.fake_transport import FakeTransport, error
from tests.unit.models.model_calls import RUN, deltas, model_request

CLIENTS = tuple(client.__path__[0] for client in (anthropic, openai))
CALL = ToolCall(id=ToolCallId("call_1"), name="look", arguments={"at": [1, None]})
CONVERSATION = [
    user("hi"),
    NewMessage(role=Role.ASSISTANT, content="I look.", tool_calls=[CALL]),
    result("call_1", "seen"),
    NewMessage(
        role=Role.USER,
        content=[TextPart(text="this?"), ImagePart(source=DataSource(value="aGk=", mime_type="image/png"))],
    ),
]


def openai_client(transport: FakeTransport) -> OpenAIProvider:
    """Return OpenAI's client over a fake transport."""
    return OpenAIProvider(openai_client=AsyncOpenAI(api_key="k", http_client=transport.client(), max_retries=0))


def anthropic_client(transport: FakeTransport) -> AnthropicProvider:
    """Return Anthropic's client over a fake transport."""
    client = AsyncAnthropic(api_key="k", http_client=transport.client(), max_retries=0)
    return AnthropicProvider(anthropic_client=client)


MODELS: dict[str, Callable[[FakeTransport], Any]] = {
    "chat": lambda transport: OpenAIChatModel("gpt-4o", provider=openai_client(transport)),
    "responses": lambda transport: OpenAIResponsesModel("gpt-5", provider=openai_client(transport)),
    "anthropic": lambda transport: AnthropicModel("claude-sonnet-5", provider=anthropic_client(transport)),
}


async def sent_body(kind: str, messages: list[NewMessage], *, as_is: bool, tools: Sequence[str] = ("look",)) -> Any:
    """Return the body that a model's client sends."""
    transport = FakeTransport(error(400, {}))
    model = MODELS[kind](transport)
    if as_is:
        hook_requests(model)
        hook_requests(model)
    with pytest.raises(HoldfastError):
        await deltas(ProviderModel("m", model), model_request(*messages, tools=list(tools)))
    return transport.requests[0]


async def sent_bodies(kind: str, requests: Sequence[ModelRequest]) -> list[Any]:
    """Return the bodies that one model sends."""
    transport = FakeTransport(*[error(400, {}) for _ in requests])
    model = ProviderModel("m", MODELS[kind](transport))
    for request in requests:
        with pytest.raises(HoldfastError):
            await deltas(model, request)
    return transport.requests


@pytest.mark.parametrize("tools", [[], ["look"], ["look", "see", "touch"]])
@pytest.mark.parametrize("kind", MODELS)
async def test_the_body_of_a_request_is_the_same(kind: str, tools: list[str]) -> None:
    body = await sent_body(kind, CONVERSATION, as_is=True, tools=tools)
    assert body == await sent_body(kind, CONVERSATION, as_is=False, tools=tools)


@pytest.mark.parametrize("depth", [90, 300])
async def test_deeply_nested_arguments_of_a_call_are_sent(depth: int) -> None:
    arguments: Any = {"leaf": 1}
    for _ in range(depth):
        arguments = {"in": arguments}
    call = ToolCall(id=ToolCallId("call_1"), name="look", arguments=arguments)
    messages = [user("hi"), NewMessage(role=Role.ASSISTANT, content="", tool_calls=[call]), result("call_1", "seen")]
    body = await sent_body("anthropic", messages, as_is=True)
    assert body == await sent_body("anthropic", messages, as_is=False)


@pytest.mark.parametrize("kind", MODELS)
async def test_the_client_walks_neither_messages_nor_tools(kind: str) -> None:
    calls = []
    for n in (1, 9):
        messages = [user("a"), NewMessage(role=Role.ASSISTANT, content="b")] * n
        calls.append(await _client_calls(kind, messages, [f"tool_{number}" for number in range(n)]))
    assert calls[0] == calls[1]


@pytest.mark.parametrize("kind", MODELS)
async def test_the_schema_of_a_tool_is_adapted_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapted: list[Any] = []
    walk = JsonSchemaTransformer.walk

    def record(transformer: JsonSchemaTransformer) -> dict[str, Any]:
        adapted.append(transformer.schema)
        return walk(transformer)

    monkeypatch.setattr(JsonSchemaTransformer, "walk", record)
    look = tool("look", at={"type": "string", "default": "here"})
    see, changed = tool("see", at={"type": "integer"}), tool("look", at={"type": "number"})
    requests = [_request(tools) for tools in ([look], [look], [look, see], [changed, see])]
    bodies = await sent_bodies(kind, requests)
    assert adapted == [each.parameters for each in (look, see, changed)]
    assert bodies == [body for request in requests for body in await sent_bodies(kind, [request])]


async def test_more_tools_than_are_cached_have_their_own_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_model, "MAX_CACHED_TOOL_SCHEMAS", 3)
    tools = [tool(f"tool_{number}", **{f"field_{number}": {"type": "string"}}) for number in range(8)]
    for body in await sent_bodies("chat", [_request(tools), _request(tools)]):
        properties = [list(each["function"]["parameters"]["properties"]) for each in body["tools"]]
        assert properties == [[f"field_{number}"] for number in range(8)]


def _request(tools: Sequence[ToolDefinition]) -> ModelRequest:
    return ModelRequest(run_id=RUN, system="Be brief.", messages=[user("go")], tools=tools)


def tool(name: str, **properties: Any) -> ToolDefinition:
    """Return a tool whose arguments are these."""
    parameters = {"type": "object", "properties": properties, "additionalProperties": False}
    return ToolDefinition(name=name, description="Looks.", parameters=parameters)


async def _client_calls(kind: str, messages: list[NewMessage], tools: list[str]) -> Counter[str]:
    """Return the calls of functions in the provider's client."""
    calls: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(CLIENTS):
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(look)
    try:
        await sent_body(kind, [*messages, user("go")], as_is=True, tools=tools)
    finally:
        sys.setprofile(None)
    return calls
