"""What an operator says about the web: which private hosts may be fetched from, and where to search."""

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
    """A host that may be fetched from although it is not public; without a port, at any that is for the web."""

    host: str
    port: int | None = None


class SearxngSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="searxng"):
    """Search by a SearXNG server, or by one that answers as it does. It must allow the format `json`."""

    url: Annotated[str, Meta(description="The address of its search, such as `https://searx.example/search`.")]

    def __post_init__(self) -> None:
        parse_web_url(self.url)


class JsonSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="json"):
    """Search by any HTTP API that answers with JSON."""

    url: Annotated[str, Meta(description="The address of the API.")]
    method: Annotated[
        Literal["GET", "POST"],
        Meta(description="With GET what is asked stands in the address, with POST in a body of JSON."),
    ] = "GET"
    query: Annotated[str, Meta(min_length=1, description="The parameter that takes what is searched for.")] = "q"
    count: Annotated[str | None, Meta(description="The parameter that takes how many results are wanted.")] = None
    parameters: Annotated[
        dict[str, str | int | bool], Meta(description="Parameters that are the same in every search.")
    ] = {}
    key_env: Annotated[
        EnvironmentName | None, Meta(description="The environment variable that holds the key of the API.")
    ] = None
    key_header: Annotated[str, Meta(description="The header that the key is sent in.")] = "Authorization"
    key_prefix: Annotated[str, Meta(description="What stands before the key in its header.")] = "Bearer "
    results: Annotated[FieldPath, Meta(description="Where in the answer the list of results is.")] = "results"
    title: Annotated[FieldPath, Meta(description="Where in a result its title is.")] = "title"
    link: Annotated[FieldPath, Meta(description="Where in a result its address is.")] = "url"
    snippet: Annotated[FieldPath, Meta(description="Where in a result some words of it are.")] = "snippet"

    def __post_init__(self) -> None:
        parse_web_url(self.url)
        if _HEADER.fullmatch(self.key_header) is None:
            raise Invalid(f"`{self.key_header}` is no name of a header", field="key_header")
        if not self.key_prefix.isprintable() or not self.key_prefix.isascii():
            raise Invalid("what stands before a key are printable ASCII characters", field="key_prefix")


SearchSettings: TypeAlias = SearxngSearch | JsonSearch


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What agents may do on the web."""

    allow_private: Annotated[
        list[str],
        Meta(
            max_length=MAX_PRIVATE_HOSTS,
            description="Hosts, `name` or `name:port`, that may be fetched from although they are not public.",
        ),
    ] = []
    search: Annotated[
        SearchSettings | None, Meta(description="Where `web_search` searches; without it no agent has that tool.")
    ] = None

    def __post_init__(self) -> None:
        private_hosts(self.allow_private)


def private_hosts(texts: list[str]) -> frozenset[PrivateHost]:
    """Return the hosts that `allow_private` names."""
    return frozenset(map(_private_host, texts))


def _private_host(text: str) -> PrivateHost:
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or found["port"] is not None and not 0 < int(found["port"]) < 1 << 16:
        raise Invalid(
            f"`{text[:100]}` is no host: write `name`, `name:port` or `[address]:port`", field="allow_private"
        )
    return PrivateHost(host=parse_web_host(found["host"]), port=None if found["port"] is None else int(found["port"]))
