"""Web settings of the operator: private hosts that may be fetched, and the search engine."""

import re
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import parse_web_host, parse_web_url

MAX_PRIVATE_HOSTS: Final = 100

_HOST_AND_PORT: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(:(?P<port>[0-9]{1,5}))?")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")

EnvironmentName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z",
        extra={"expected": "the name of an environment variable, such as `SEARCH_KEY`"},
    ),
]
FieldPath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+){0,7}\Z",
        extra={"expected": "the name of a field, or names joined by dots, such as `web.results`"},
    ),
]


class PrivateHost(msgspec.Struct, frozen=True, kw_only=True):
    """A non-public host that may be fetched from; without a port, any web port is allowed."""

    host: str
    port: int | None = None


class SearxngSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="searxng"):
    """A SearXNG server, or one with the same API. It must allow the format `json`."""

    url: Annotated[str, Meta(description="The URL of its search, such as `https://searx.example/search`.")]

    def __post_init__(self) -> None:
        parse_web_url(self.url)


class JsonSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="json"):
    """Any HTTP search API that responds with JSON."""

    url: Annotated[str, Meta(description="The URL of the API.")]
    method: Annotated[
        Literal["GET", "POST"],
        Meta(description="GET sends the parameters in the URL, POST in a JSON body."),
    ] = "GET"
    query: Annotated[str, Meta(min_length=1, description="The parameter for the search query.")] = "q"
    count: Annotated[str | None, Meta(description="The parameter for the number of results.")] = None
    parameters: Annotated[dict[str, str | int | bool], Meta(description="Parameters sent with every search.")] = {}
    key_env: Annotated[EnvironmentName | None, Meta(description="The environment variable that holds the API key.")] = (
        None
    )
    key_header: Annotated[str, Meta(description="The header that carries the key.")] = "Authorization"
    key_prefix: Annotated[str, Meta(description="The text before the key in its header.")] = "Bearer "
    results: Annotated[FieldPath, Meta(description="The path of the result list in the response.")] = "results"
    title: Annotated[FieldPath, Meta(description="The path of the title in a result.")] = "title"
    link: Annotated[FieldPath, Meta(description="The path of the URL in a result.")] = "url"
    snippet: Annotated[FieldPath, Meta(description="The path of the excerpt in a result.")] = "snippet"

    def __post_init__(self) -> None:
        parse_web_url(self.url)
        if _HEADER.fullmatch(self.key_header) is None:
            raise Invalid(f"`{self.key_header}` is not a valid header name", field="key_header")
        if not self.key_prefix.isprintable() or not self.key_prefix.isascii():
            raise Invalid("`key_prefix` must consist of printable ASCII characters", field="key_prefix")


SearchSettings: TypeAlias = SearxngSearch | JsonSearch


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Web access of agents."""

    allow_private: Annotated[
        list[str],
        Meta(
            max_length=MAX_PRIVATE_HOSTS,
            description="Non-public hosts, `name` or `name:port`, that may be fetched from.",
        ),
    ] = []
    search: Annotated[
        SearchSettings | None, Meta(description="The search engine of `web_search`; without it no agent has that tool.")
    ] = None

    def __post_init__(self) -> None:
        private_hosts(self.allow_private)


def private_hosts(texts: list[str]) -> frozenset[PrivateHost]:
    """Parse the hosts of `allow_private`."""
    hosts = set()
    for text in texts:
        found = _HOST_AND_PORT.fullmatch(text)
        port = None if found is None or found["port"] is None else int(found["port"])
        if found is None or port is not None and not 0 < port < 1 << 16:
            message = f"`{text[:100]}` is not a host: write `name`, `name:port` or `[address]:port`"
            raise Invalid(message, field="allow_private")
        hosts.add(PrivateHost(host=parse_web_host(found["host"]), port=port))
    return frozenset(hosts)
