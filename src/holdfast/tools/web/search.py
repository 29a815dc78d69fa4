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
from holdfast.domain.web_url import parse_web_url
from holdfast.ports.tools import SearchResult
from holdfast.tools.web.client import GuardedResolver, Resolver, WebClient, WebRequest, WebResponse

MAX_RESPONSE_BYTES: Final = 2 * 1024 * 1024
MAX_FIELD_CHARS: Final = 1_000
"""Characters of one field of a result."""


class HttpWebSearch:
    """`WebSearch` with the search engine of the settings. Its host may be private, since the operator chose it."""

    def __init__(self, api: JsonSearch, resolver: Resolver, *, environment: Mapping[str, str] = os.environ) -> None:
        self._api = api
        self._url = parse_web_url(api.url)
        self._environment = environment
        private = [PrivateHost(host=self._url.host, port=self._url.port)]
        self._http = WebClient(GuardedResolver(resolver, private=private))

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        """Search, and return at most `limit` results."""
        response = await self._http.request(self._request(query, limit))
        if response.status != 200:
            raise Unavailable(f"the search engine responded with status {response.status}")
        return [*_parse_results(self._api, response)][:limit]

    def _request(self, query: str, limit: int) -> WebRequest:
        api = self._api
        parameters = {**api.parameters, api.query: query, **({} if api.count is None else {api.count: limit})}
        headers = {"Accept": "application/json", **self._key_header()}
        if api.method == "GET":
            texts = {
                name: str(value).lower() if isinstance(value, bool) else value for name, value in parameters.items()
            }
            target = f"{self._url.target}{'&' if '?' in self._url.target else '?'}{urlencode(texts)}"
            return WebRequest(url=replace(self._url, target=target), headers=headers, max_bytes=MAX_RESPONSE_BYTES)
        return WebRequest(
            url=self._url,
            headers={**headers, "Content-Type": "application/json"},
            max_bytes=MAX_RESPONSE_BYTES,
            method="POST",
            body=msgspec.json.encode(parameters),
        )

    def _key_header(self) -> dict[str, str]:
        if self._api.key_env is None:
            return {}
        key = self._environment.get(self._api.key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise Unavailable(f"`{self._api.key_env}` has no key for the search engine: set it")
        return {self._api.key_header: f"{self._api.key_prefix}{key}"}


def as_json_search(settings: SearchSettings) -> JsonSearch:
    """Return the settings of an engine as those of a JSON API."""
    if isinstance(settings, SearxngSearch):
        return JsonSearch(url=settings.url, parameters={"format": "json"}, snippet="content")
    return settings


def _parse_results(api: JsonSearch, response: WebResponse) -> Iterator[SearchResult]:
    """Yield the results that have a URL."""
    try:
        body = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        raise Unavailable(f"the response of the search engine is not JSON: {exc}") from exc
    results = _value_at(body, api.results)
    if not isinstance(results, list):
        raise Unavailable(f"the response of the search engine has no list at `{api.results}`")
    for result in results:
        if url := _text_at(result, api.link):
            yield SearchResult(title=_text_at(result, api.title), url=url, snippet=_text_at(result, api.snippet))


def _value_at(value: Json, path: str) -> Json:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text_at(value: Json, path: str) -> str:
    text = _value_at(value, path)
    return " ".join(text.split())[:MAX_FIELD_CHARS] if isinstance(text, str) else ""
