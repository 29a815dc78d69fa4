"""Web search over HTTP: a SearXNG server, or any API that responds with JSON."""

import os
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.errors import Unavailable
from holdfast.domain.web_settings import JsonSearch, PrivateHost, SearchSettings, SearxngSearch
from holdfast.domain.web_url import WebUrl, parse_web_url
from holdfast.ports.tools import SearchResult
from holdfast.tools.web.client import GuardedResolver, Resolver, WebClient, WebRequest, WebResponse

MAX_RESPONSE_BYTES: Final = 2 * 1024 * 1024
"""Bytes."""
MAX_FIELD_CHARS: Final = 1_000
"""Characters of one field of a result."""


class HttpWebSearch:
    """`WebSearch`: asks the engine that the settings name. Its host may be private: the operator chose it."""

    def __init__(self, api: JsonSearch, resolver: Resolver, *, environment: Mapping[str, str] = os.environ) -> None:
        self._api = api
        self._url = parse_web_url(api.url)
        self._environment = environment
        private = [PrivateHost(host=self._url.host, port=self._url.port)]
        self._http = WebClient(GuardedResolver(resolver, private=private))

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """Ask, and read the answer."""
        answer = await self._http.request(self._request(query, limit))
        if answer.status != 200:
            raise Unavailable(f"the search engine answers {answer.status}")
        return [*_parse_results(self._api, answer)][:limit]

    def _request(self, query: str, limit: int) -> WebRequest:
        api = self._api
        asked = {**api.parameters, api.query: query, **({} if api.count is None else {api.count: limit})}
        headers = {"Accept": "application/json", **self._key()}
        if api.method == "GET":
            return WebRequest(url=_with_query(self._url, asked), headers=headers, max_bytes=MAX_RESPONSE_BYTES)
        return WebRequest(
            url=self._url,
            headers={**headers, "Content-Type": "application/json"},
            max_bytes=MAX_RESPONSE_BYTES,
            method="POST",
            body=msgspec.json.encode(asked),
        )

    def _key(self) -> dict[str, str]:
        if self._api.key_env is None:
            return {}
        key = self._environment.get(self._api.key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise Unavailable(f"`{self._api.key_env}` holds no key for the search engine: set it")
        return {self._api.key_header: f"{self._api.key_prefix}{key}"}


def as_json_search(settings: SearchSettings) -> JsonSearch:
    """Return an engine as the API that it is."""
    if isinstance(settings, SearxngSearch):
        return JsonSearch(url=settings.url, parameters={"format": "json"}, snippet="content")
    return settings


def _with_query(url: WebUrl, asked: Mapping[str, str | int | bool]) -> WebUrl:
    words = urlencode({name: str(said).lower() if isinstance(said, bool) else said for name, said in asked.items()})
    return replace(url, target=f"{url.target}{'&' if '?' in url.target else '?'}{words}")


def _parse_results(api: JsonSearch, answer: WebResponse) -> Iterator[SearchResult]:
    """Yield the results that have an address."""
    try:
        said = msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise Unavailable(f"the search engine answers with something else than JSON: {exc}") from exc
    results = _value_at(said, api.results)
    if not isinstance(results, list):
        raise Unavailable(f"the answer of the search engine has no list at `{api.results}`")
    for each in results:
        if url := _text_at(each, api.link):
            yield SearchResult(title=_text_at(each, api.title), url=url, snippet=_text_at(each, api.snippet))


def _value_at(said: Json, path: str) -> Json:
    for name in path.split("."):
        said = said.get(name) if isinstance(said, dict) else None
    return said


def _text_at(said: Json, path: str) -> str:
    found = _value_at(said, path)
    return " ".join(found.split())[:MAX_FIELD_CHARS] if isinstance(found, str) else ""
