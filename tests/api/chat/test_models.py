"""Models are listed with their providers, and called without an agent."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.testing.openai_server import StubFault, StubOpenAIServer, StubReply
from tests.api.chat.test_chat import check_error
from tests.api.site import Site, serve
from tests.scenario.agents.agent_workspace import STAND_IN, AgentWorkspace

SECRET: Final = "sk-very-secret"


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[StubOpenAIServer]:
    """Yield a provider with scripted replies."""
    async with StubOpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory, provider: StubOpenAIServer) -> AsyncIterator[Site]:
    """Yield a server whose settings name that provider."""
    folder = tmp_path_factory.mktemp("models")
    workshop = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    workshop.agent()
    workshop.provider(provider, api_key_env="STAND_IN_KEY")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STAND_IN_KEY", SECRET)
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            environment.delenv(name, raising=False)
        async with serve(workshop) as site:
            yield site


async def call(site: Site, *, expect: int = 200, **body: Json) -> Json:
    """Call a model."""
    return await site.post("/completions", {"messages": [{"content": "hi"}], **body}, expect=expect)


async def test_models_are_listed_with_their_providers(site: Site) -> None:
    response = await site.request("GET", "/models")
    found = response.json()
    providers = {each["name"]: each for each in found["providers"]}
    assert next(iter(providers)) == "local"
    expected = {"name": "local", "from_settings": True, "key_variable": "STAND_IN_KEY", "has_key": True}
    assert providers["local"] == expected
    assert (providers["anthropic"]["key_variable"], providers["anthropic"]["has_key"]) == ("ANTHROPIC_API_KEY", False)
    ids = [each["id"] for each in found["models"]]
    assert ids == sorted(ids) and len(ids) == len(set(ids)) > 100
    assert {each["provider"] for each in found["models"]} <= set(providers)
    priced = [each for each in found["models"] if each["input_usd_per_million"] is not None]
    assert priced and any(each["context_window"] for each in priced)
    assert SECRET not in response.text


async def test_a_model_is_called_without_an_agent(site: Site, provider: StubOpenAIServer) -> None:
    provider.add_replies(StubReply(text="a poem", input_tokens=11, output_tokens=3))
    response = await call(site, model=STAND_IN, system="rhyme", temperature=0.5, maxTokens=9)
    assert (response["model"], response["output"], response["finishReason"]) == (STAND_IN, "a poem", "stop")
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (11, 3)
    request = provider.requests[-1]
    assert [(each["role"], each["content"]) for each in request["messages"]] == [("system", "rhyme"), ("user", "hi")]
    assert request["temperature"] == 0.5
    assert 9 in (request.get("max_tokens"), request.get("max_completion_tokens"))
    assert (await site.get("/sessions"))["sessions"] == []


async def test_a_provider_that_fails_is_an_error(site: Site, provider: StubOpenAIServer) -> None:
    provider.add_replies(StubReply(fault=StubFault.CUT, text="half"))
    response = await site.request("POST", "/completions", json={"model": STAND_IN, "messages": [{"content": "x"}]})
    check_error(response, 503, "MODEL_UNAVAILABLE")


@pytest.mark.parametrize(
    "body",
    [
        {"model": ""},
        {"model": "nothing"},
        {"model": "nobody:x"},
        {"model": "scripted:script.json"},
        {"model": "openai:gpt-5"},
        {"messages": []},
        {"messages": [{"content": 7}]},
        {"messages": [{"content": "x", "role": "tool"}]},
        {"temperature": 3},
        {"temperature": -1},
        {"maxTokens": 0},
        {"tools": []},
    ],
)
async def test_an_invalid_model_call_is_rejected(site: Site, provider: StubOpenAIServer, body: Json) -> None:
    before = len(provider.requests)
    sent = {"model": STAND_IN, "messages": [{"content": "x"}], **body}
    check_error(await site.request("POST", "/completions", json=sent), 400, "VALIDATION_ERROR")
    assert len(provider.requests) == before
