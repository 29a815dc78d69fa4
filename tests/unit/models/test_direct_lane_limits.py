"""In doubt a model is called by its library; and the lane uses the proxy and the certificates of the environment."""

import asyncio
import inspect
import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models.anthropic import AnthropicStreamedResponse
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIResponsesModel,
    OpenAIResponsesStreamedResponse,
    OpenAIStreamedResponse,
)
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.azure import AzureProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.domain.errors import ModelUnavailable
from holdfast.domain.model_provider import ProviderSettings
from holdfast.domain.step import Lane
from holdfast.models.direct_lane.eligibility import reason_against
from holdfast.models.direct_lane.transport import LaneTransport, environment_proxy
from holdfast.models.registry import ModelRegistry
from tests.support.certificates import write_certificate
from tests.unit.models.model_calls import CALL_TIMEOUT_SECONDS, model_request
from tests.unit.models.test_direct_lane import ByteServer, opened, outcome
from tests.unit.models.wire_answers import CHAT, stream

URL = "http://127.0.0.1:9/v1"


class OwnChatModel(OpenAIChatModel):
    """A subclass, which may do anything."""


def chat_model(url: str = URL, *, kind: type[OpenAIChatModel] = OpenAIChatModel, **options: Any) -> OpenAIChatModel:
    return kind("some-model", provider=OpenAIProvider(base_url=url, api_key="k"), **options)


def with_client(client: AsyncOpenAI) -> OpenAIChatModel:
    return OpenAIChatModel("some-model", provider=OpenAIProvider(openai_client=client))


async def new_key() -> str:
    return "k"


def with_hook() -> OpenAIChatModel:
    async def sign(request: httpx2.Request) -> None:
        request.headers["signature"] = "x"

    model = chat_model()
    model.client._client.event_hooks = {"request": [sign]}
    return model


DOUBTS: dict[str, tuple[Callable[[], PydanticModel], str]] = {
    "subclass": (lambda: chat_model(kind=OwnChatModel), "its own way to call"),
    "own client": (
        lambda: OpenAIChatModel(
            "m", provider=AzureProvider(azure_endpoint="https://a.example", api_version="1", api_key="k")
        ),
        "its own way to send",
    ),
    "client of a subclass": (
        lambda: with_client(AsyncAzureOpenAI(azure_endpoint="https://a.example", api_version="1", api_key="k")),
        "its own way to send",
    ),
    "changing key": (lambda: with_client(AsyncOpenAI(base_url=URL, api_key=new_key)), "may change"),
    "HTTP client": (
        lambda: with_client(AsyncOpenAI(base_url=URL, api_key="k", http_client=httpx2.AsyncClient())),
        "not the usual one",
    ),
    "hook": (with_hook, "changes requests"),
    "settings": (lambda: chat_model(settings={"temperature": 0.5}), "settings of its own"),
    "reasoning field": (lambda: chat_model(profile={"openai_chat_thinking_field": "musing"}), "does not know"),
    "thinking tags": (lambda: chat_model(profile={"thinking_tags": ("<a>", "</a>", "<b>")}), "does not know"),
    "finish reason": (
        lambda: chat_model(profile={"openai_chat_streaming_requires_finish_reason": True}),
        "does not know",
    ),
    "call ids": (
        lambda: OpenAIResponsesModel(
            "m",
            provider=OpenAIProvider(base_url=URL, api_key="k"),
            profile=OpenAIModelProfile(openai_responses_tool_call_ids_are_response_scoped=True),
        ),
        "unique only within",
    ),
    "credentials": (lambda: chat_model("http://me:secret@127.0.0.1:9/v1"), "contains credentials"),
    "scheme": (lambda: chat_model("unix:///tmp/socket"), "not one of a server"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_a_model_that_may_differ_is_called_by_its_library(name: str) -> None:
    create, reason = DOUBTS[name]
    assert reason in (reason_against(create()) or "")


def test_a_plain_model_takes_the_lane() -> None:
    assert reason_against(chat_model()) is None
    known = {"openai_chat_thinking_field": "reasoning", "ignore_streamed_leading_whitespace": True}
    assert reason_against(chat_model(profile=known)) is None


def test_the_streams_of_the_library_read_only_the_known_keys_of_profiles() -> None:
    """A new key must be honoured by the lane, or be a reason against it."""
    known = {
        "thinking_tags",
        "openai_chat_thinking_field",
        "ignore_streamed_leading_whitespace",
        "openai_chat_streaming_requires_finish_reason",
    }
    streams = (OpenAIStreamedResponse, OpenAIResponsesStreamedResponse, AnthropicStreamedResponse)
    found = [set(re.findall(r"profile(?:\.get\(|\[)\s*'(\w+)'", inspect.getsource(stream))) for stream in streams]
    assert found == [known, set(), set()]


def test_a_proxy_that_is_not_an_http_proxy_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chat_model("http://provider.example/v1")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    assert reason_against(model) == "its proxy is not an HTTP proxy"
    monkeypatch.setenv("NO_PROXY", "provider.example")
    assert reason_against(model) is None


async def test_a_request_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ByteServer(stream("openai", CHAT["text"])) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        settings = ProviderSettings(api="openai", base_url="http://provider.example/v1")
        async with ModelRegistry({"house": settings}) as models:
            assert models.reason_against_direct_lane("house:m") is None
            _, error, _ = await outcome(models.find("house:m"), model_request())
    assert error is None
    ((line, headers, _),) = proxy.requests
    assert line.startswith("POST http://provider.example/v1/chat/completions ")
    assert headers["host"] == "provider.example"


async def test_a_host_in_no_proxy_is_called_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ByteServer(stream("openai", CHAT["text"]))
    async with server, opened(server, "openai", Lane.DIRECT) as model:
        _, error, _ = await outcome(model, model_request())
    assert (error, len(server.requests)) == (None, 1)


async def test_a_host_in_no_proxy_may_have_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1:8000,::1")
    urls = ("http://127.0.0.1:8000/v1", "http://[::1]:8000/v1", "http://127.0.0.1:8001/v1")
    assert [environment_proxy(url) for url in urls] == [None, None, "http://127.0.0.1:9"]


async def test_tls_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "certificate.pem", "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with ByteServer(stream("openai", CHAT["text"]), tls=tls) as server, tunnel(server) as (proxy, heads):
        monkeypatch.setenv("HTTPS_PROXY", proxy.replace("//", "//me:secret@"))
        async with opened(server, "openai", Lane.DIRECT) as model:
            for _ in range(2):
                _, error, _ = await outcome(model, model_request())
                assert error is None
    assert (len(server.requests), server.connections) == (2, 1)
    (head,) = heads
    assert head.startswith(f"CONNECT {server.url.removeprefix('https://')} ")
    assert f"Proxy-Authorization: Basic {b64encode(b'me:secret').decode()}" in head
    assert not any("proxy-authorization" in headers for _, headers, _ in server.requests)


async def test_a_silent_proxy_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = LaneTransport()
    async with asyncio.timeout(CALL_TIMEOUT_SECONDS), tunnel(None) as (proxy, heads):
        with pytest.raises(TimeoutError):
            await transport.post("https://localhost", headers={}, body=b"", proxy=proxy, idle_seconds=0.1)
        await transport.aclose()
    assert len(heads) == 1


@asynccontextmanager
async def tunnel(server: ByteServer | None) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield the URL of a proxy in front of a server, and the requests that it gets; without a server it is silent."""
    heads: list[str] = []
    async with asyncio.TaskGroup() as tasks:

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await reader.read(65536):
                    writer.write(data)
            writer.close()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            if server is None:
                await reader.read()
                writer.close()
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            tasks.create_task(copy(reader, far_writer))
            tasks.create_task(copy(far_reader, writer))

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
            yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}", heads


async def test_the_certificates_of_the_environment_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "certificate.pem", "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with ByteServer(stream("openai", CHAT["text"]), tls=tls) as server:
        async with opened(server, "openai", Lane.DIRECT) as model:
            _, error, _ = await outcome(model, model_request())
        assert (error, server.requests) == (ModelUnavailable, [])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with opened(server, "openai", Lane.DIRECT) as model:
            _, error, _ = await outcome(model, model_request())
        assert (error, len(server.requests)) == (None, 1)
