"""Provider models with recorded responses: the real client and adapter over a fake transport."""

from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.models.prices import ConfiguredPrices
from holdfast.models.provider_model import ProviderModel
from holdfast.models.sdk_requests import hook_requests


class FakeTransport:
    """A fake transport that returns the responses in order and records the request bodies."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    def client(self) -> httpx2.AsyncClient:
        """Return an HTTP client that uses only this transport."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(msgspec.json.decode(request.content))
        return self._answers.pop(0)


def events(*output: dict[str, Any]) -> httpx2.Response:
    """Return a streamed response."""
    lines = [f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n" for event in output]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content="".join(lines).encode())


def error(status: int, body: Any, **headers: str) -> httpx2.Response:
    """Return an error response."""
    return httpx2.Response(status, json=body, headers=headers)


def anthropic(transport: FakeTransport) -> ProviderModel:
    """Return an Anthropic model over a fake transport."""
    client = AsyncAnthropic(api_key="k", http_client=transport.client(), max_retries=0)
    provided = AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))
    hook_requests(provided)
    prices = ConfiguredPrices(input=3, output=15, cached_input=0.3)
    return ProviderModel("anthropic:claude-sonnet-5", provided, prices=prices, key="ANTHROPIC_API_KEY")


def responses(transport: FakeTransport) -> ProviderModel:
    """Return a model of OpenAI's Responses API over a fake transport."""
    client = AsyncOpenAI(api_key="k", http_client=transport.client(), max_retries=0)
    provided = OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=client))
    hook_requests(provided)
    return ProviderModel("openai:gpt-5", provided, key="OPENAI_API_KEY")


def blocks(*ai: tuple[dict[str, Any], Sequence[dict[str, Any]]], stop: str | None) -> list[dict[str, Any]]:
    """Return the events of an Anthropic response with these blocks and their deltas."""
    usage = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 0}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": []}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": {**head, "usage": usage}}]
    for index, (block, deltas) in enumerate(ai):
        made.append({"type": "content_block_start", "index": index, "content_block": block})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": index})
    if stop is not None:
        made.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}})
        made.append({"type": "message_stop"})
    return made
