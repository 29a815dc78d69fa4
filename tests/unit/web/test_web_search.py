"""A search queries the configured engine, and reads only the configured fields."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.web_settings import JsonSearch, SearxngSearch, WebSettings, private_hosts
from holdfast.ports.tools import SearchResult
from holdfast.tools.builtin.web import web_search
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.web.client import SystemResolver
from holdfast.tools.web.search import HttpWebSearch, as_json_search
from tests.support.calls import a_call
from tests.support.web_server import WebPage, WebServer


@pytest.fixture
async def engine() -> AsyncIterator[WebServer]:
    async with WebServer() as server:
        yield server


def json_page(value: Json, **fields: Any) -> WebPage:
    """Return a JSON response."""
    return WebPage(body=msgspec.json.encode(value), headers={"Content-Type": "application/json"}, **fields)


def searxng(engine: WebServer) -> HttpWebSearch:
    """Return a search with a server that responds like SearXNG."""
    return HttpWebSearch(as_json_search(SearxngSearch(url=f"http://127.0.0.1:{engine.port}/search")), SystemResolver())


RESULTS: list[Json] = [
    {"title": "Tea", "url": "https://tea.example/", "content": "a  drink\nof leaves", "engine": "x"},
    {"title": "no address"},
    {"title": 7, "url": "https://seven.example/"},
    "nonsense",
]
FOUND = [
    SearchResult(title="Tea", url="https://tea.example/", snippet="a drink of leaves"),
    SearchResult(title="", url="https://seven.example/"),
]


async def test_searxng_is_queried_for_json(engine: WebServer) -> None:
    engine.pages["/search"] = json_page({"results": RESULTS})
    assert await searxng(engine).search("green tea & more", limit=8) == FOUND
    assert await searxng(engine).search("tea", limit=1) == FOUND[:1]
    assert engine.requests[0].target == "/search?format=json&q=green+tea+%26+more"


async def test_a_json_api_is_queried_as_the_settings_say(engine: WebServer) -> None:
    engine.pages["/v1"] = json_page({"web": {"hits": [{"name": "Tea", "at": {"url": "https://t.example/"}, "s": "x"}]}})
    api = JsonSearch(
        url=f"http://127.0.0.1:{engine.port}/v1?x=1",
        query="query",
        count="n",
        parameters={"safe": True, "lang": "en"},
        key_env="SEARCH_KEY",
        key_header="X-Key",
        key_prefix="",
        results="web.hits",
        title="name",
        link="at.url",
        snippet="s",
    )
    search = HttpWebSearch(api, SystemResolver(), environment={"SEARCH_KEY": "secret"})
    assert await search.search("tea", limit=3) == [SearchResult(title="Tea", url="https://t.example/", snippet="x")]
    (request,) = engine.requests
    assert (request.target, request.headers["x-key"]) == ("/v1?x=1&safe=true&lang=en&query=tea&n=3", "secret")


async def test_an_api_may_take_a_post_body(engine: WebServer) -> None:
    engine.pages["/"] = json_page({"results": []})
    api = JsonSearch(url=f"http://127.0.0.1:{engine.port}/", method="POST", count="max", key_env="SEARCH_KEY")
    search = HttpWebSearch(api, SystemResolver(), environment={"SEARCH_KEY": "secret"})
    assert await search.search("tea", limit=3) == []
    (request,) = engine.requests
    assert (request.method, msgspec.json.decode(request.body)) == ("POST", {"q": "tea", "max": 3})
    assert (request.headers["authorization"], request.headers["content-type"]) == ("Bearer secret", "application/json")


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (WebPage(status=429), "the search engine responded with status 429"),
        (WebPage(status=302, headers={"Location": "http://127.0.0.1/"}), "the search engine responded with status 302"),
        (WebPage(body=b"<html>"), "the response of the search engine is not JSON"),
        (WebPage(body=b"[" * 100_000), "the response of the search engine is not JSON"),
        (json_page({"hits": []}), "the response of the search engine has no list at `results`"),
        (json_page([1]), "the response of the search engine has no list at `results`"),
    ],
)
async def test_an_unusable_response_of_the_engine_is_unavailable(engine: WebServer, page: WebPage, why: str) -> None:
    engine.pages["/search"] = page
    with pytest.raises(Unavailable, match=why):
        await searxng(engine).search("tea", limit=3)


async def test_without_its_key_no_request_is_sent(engine: WebServer) -> None:
    api = JsonSearch(url=f"http://127.0.0.1:{engine.port}/", key_env="SEARCH_KEY")
    with pytest.raises(Unavailable, match="`SEARCH_KEY` has no key for the search engine: set it"):
        await HttpWebSearch(api, SystemResolver(), environment={}).search("tea", limit=3)
    assert engine.connections == 0


async def test_the_tool_returns_the_results_as_untrusted(engine: WebServer) -> None:
    tool = with_standard_middleware(web_search(searxng(engine)))
    engine.pages["/search"] = json_page({"results": RESULTS})
    found = await tool.run(a_call(), {"query": "tea", "limit": 1})
    assert (found.content, found.untrusted) == ({"results": msgspec.to_builtins(FOUND[:1])}, "tool:web_search")
    engine.pages["/search"] = json_page({"results": []})
    assert (await tool.run(a_call(), {"query": "tea"})).content == "nothing was found: try other words"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"search": {"type": "searxng", "url": "searx"}}, "the URL must begin with"),
        ({"search": {"type": "json", "url": "http://a/", "key_header": "a b"}}, "`a b` is not a valid header name"),
        ({"search": {"type": "json", "url": "http://a/", "key_prefix": "\n"}}, "printable ASCII"),
        ({"search": {"type": "json", "url": "http://a/", "results": "a..b"}}, "regex"),
        ({"search": {"type": "bing"}}, "Invalid value 'bing'"),
        ({"allow_private": ["http://a/"]}, "is not a host: write `name`, `name:port` or `\\[address\\]:port`"),
        ({"allow_private": ["a:99999"]}, "is not a host"),
        ({"allow_private": ["127.1"]}, "write four decimal numbers"),
        ({"allow_hosts": []}, "unknown field"),
    ],
)
def test_invalid_settings_are_refused(settings: Json, why: str) -> None:
    with pytest.raises((msgspec.ValidationError, Invalid), match=why):
        msgspec.convert(settings, WebSettings)


def test_private_hosts_are_named_with_a_port_or_without() -> None:
    hosts = private_hosts(["Wiki.corp", "localhost:8080", "[::1]:90", "10.0.0.7"])
    assert {(one.host, one.port) for one in hosts} == {
        ("wiki.corp", None),
        ("localhost", 8080),
        ("::1", 90),
        ("10.0.0.7", None),
    }
