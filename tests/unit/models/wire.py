"""Providers whose answers are recorded: the real client, the real adapter, and a wire of ours."""

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


class Wire:
    """Gives the answers in order, and keeps what was asked."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.asked: list[Any] = []
        self._answers = list(answers)

    def client(self) -> httpx2.AsyncClient:
        """Return a client that is connected to this wire and to nothing else."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(msgspec.json.decode(request.content))
        return self._answers.pop(0)


def events(*said: dict[str, Any]) -> httpx2.Response:
    """Return a streamed answer."""
    lines = [f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n" for event in said]
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content="".join(lines).encode())


def error(status: int, body: Any, **headers: str) -> httpx2.Response:
    """Return an answer that is an error."""
    return httpx2.Response(status, json=body, headers=headers)


def anthropic(wire: Wire) -> ProviderModel:
    """Return a model of Anthropic at the end of a wire."""
    client = AsyncAnthropic(api_key="k", http_client=wire.client(), max_retries=0)
    provided = AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))
    prices = ConfiguredPrices(input=3, output=15, cached_input=0.3)
    return ProviderModel("anthropic:claude-sonnet-5", provided, prices=prices, key="ANTHROPIC_API_KEY")


def responses(wire: Wire) -> ProviderModel:
    """Return a model of OpenAI, by its newer API, at the end of a wire."""
    client = AsyncOpenAI(api_key="k", http_client=wire.client(), max_retries=0)
    provided = OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(openai_client=client))
    return ProviderModel("openai:gpt-5", provided, key="OPENAI_API_KEY")


def blocks(*told: tuple[dict[str, Any], Sequence[dict[str, Any]]], stop: str | None) -> list[dict[str, Any]]:
    """Return the events of an answer of Anthropic that is made of these blocks and their deltas."""
    usage = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 0}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": []}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": {**head, "usage": usage}}]
    for index, (block, deltas) in enumerate(told):
        made.append({"type": "content_block_start", "index": index, "content_block": block})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": index})
    if stop is not None:
        made.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}})
        made.append({"type": "message_stop"})
    return made
