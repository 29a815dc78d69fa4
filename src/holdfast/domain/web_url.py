"""Web URLs, parsed strictly and in one way only, and the check that an IP address is public.

A URL that could be read in two ways is refused: the code that checks a URL and the code that connects to it must mean
the same host. An agent may reach only public addresses: not this machine, its network or its hosting provider. An IPv6
address that carries an IPv4 address is judged by the latter; obsolete tunnels are refused.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from holdfast.domain.errors import Invalid

MAX_URL_CHARS: Final = 4096
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
"""Allowed schemes and their default ports."""

IPAddress: TypeAlias = IPv4Address | IPv6Address

_FIRST_UNPRIVILEGED_PORT: Final = 1024
# Unprivileged ports that browsers block too, because servers of other protocols could misinterpret an HTTP request:
# https://fetch.spec.whatwg.org/#port-blocking
_BLOCKED_PORTS: Final = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
_FORBIDDEN_CHARS: Final = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_HOST_CHARS: Final = 253
_UNQUOTED_CHARS: Final = "!$%&'()*+,/:;=?@[]~-._"


class WebUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL, with its parts as they are sent."""

    scheme: str
    host: str
    """In lower-case ASCII, without a trailing dot; an IPv6 address without brackets."""
    port: int
    target: str
    """The path and the query, without the fragment."""

    @property
    def address(self) -> IPAddress | None:
        """The IP address of the host, unless it is a name."""
        return _parse_ip_address(self.host)

    @property
    def authority(self) -> str:
        """The host, and its port unless that is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_web_url(text: str) -> WebUrl:
    """Parse a URL, or raise `Invalid` if it is malformed or ambiguous."""
    if len(text) > MAX_URL_CHARS:
        raise Invalid(f"the URL has more than {MAX_URL_CHARS} characters", field="url")
    if _FORBIDDEN_CHARS.search(text) is not None:
        raise Invalid("a URL has no spaces, control characters or backslashes: encode them", field="url")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise Invalid(f"the URL cannot be parsed: {str(exc).lower()}", field="url") from exc
    if parts.scheme not in DEFAULT_PORTS or not parts.netloc:
        raise Invalid("the URL must begin with `http://` or `https://`: write it in full", field="url")
    if "@" in parts.netloc:
        raise Invalid("the URL may not contain a user or password: remove the part before the `@`", field="url")
    return WebUrl(
        scheme=parts.scheme,
        host=parse_web_host(parts.netloc.removesuffix("" if port is None else f":{port}").removesuffix(":")),
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        target=quote(parts.path or "/", safe=_UNQUOTED_CHARS)
        + (f"?{quote(parts.query, safe=_UNQUOTED_CHARS)}" if parts.query else ""),
    )


def join_web_url(base: WebUrl, reference: str) -> WebUrl:
    """Resolve `reference` against the URL `base` of its page."""
    try:
        joined = urljoin(str(base), reference.strip().replace(" ", "%20"))
    except ValueError as exc:
        raise Invalid(f"the URL cannot be parsed: {str(exc).lower()}", field="url") from exc
    return parse_web_url(joined)


def parse_web_host(text: str) -> str:
    """Return the canonical form of a host: a name in ASCII, or an IP address in its standard notation."""
    if text.startswith("[") or text.endswith("]"):
        return _parse_bracketed_host(text)
    name = _ascii_host(text).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise Invalid(f"`{text[:100]}` is not a valid host name", field="url")
    if _NUMBER.fullmatch(labels[-1]) is not None and not isinstance(_parse_ip_address(name), IPv4Address):
        # Other parsers accept `127.1`, `2130706433`, `0x7f.1` and `0177.0.0.1` as addresses.
        raise Invalid(f"`{text[:100]}` is not an IP address: write four decimal numbers, or a name", field="url")
    return name


def check_web_port(url: WebUrl) -> None:
    """Raise unless a web server may listen on the port."""
    is_default = url.port in DEFAULT_PORTS.values()
    if not is_default and (url.port < _FIRST_UNPRIVILEGED_PORT or url.port in _BLOCKED_PORTS):
        raise Invalid(f"port {url.port} is not a web port: it may not be fetched from", field="url")


def _parse_bracketed_host(text: str) -> str:
    try:
        address = IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError as exc:
        raise Invalid(f"`{text[:100]}` is not an IPv6 address", field="url") from exc
    if address.scope_id is not None:
        raise Invalid(f"`{text[:100]}` is a link-local address with a scope: it may not be fetched from", field="url")
    return str(address)


def _ascii_host(text: str) -> str:
    """Return a host name in ASCII; digits and dots of other scripts become ASCII too."""
    if text.isascii():
        return text
    import idna  # imported on demand: its tables load slowly, and most names are ASCII

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as exc:
        raise Invalid(f"`{text[:100]}` is not a valid host name: {str(exc).lower()}", field="url") from exc


def _parse_ip_address(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


# `is_global` differs between Python versions and has gaps, so this list is used instead.
_NOT_PUBLIC_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure platform services, although in a public range
            "169.254.0.0/16",  # link-local, and the metadata services of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The only public part of IPv6."""
_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, such as Teredo
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""Addresses through which an IPv6-only network reaches IPv4."""
_ISATAP_MARKS: Final = frozenset({0x00005EFE, 0x02005EFE})
"""Bits 32 to 63 of an address that embeds an IPv4 address for a tunnel within a site."""


def is_public(address: IPAddress) -> bool:
    """Return whether an address belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    embedded = _embedded_ipv4(address)
    if embedded is not None:
        return is_public(embedded)
    return address in _GLOBAL_UNICAST and not any(address in network for network in _NOT_PUBLIC_6)


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    value = int(address)
    if address in _NAT64 or (value >> 32) & 0xFFFFFFFF in _ISATAP_MARKS and address in _GLOBAL_UNICAST:
        return IPv4Address(value & 0xFFFFFFFF)
    return None
