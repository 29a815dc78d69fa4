"""An address of the web as it is fetched: read strictly, and in one way only.

What could be read in two ways is refused and not guessed at: whoever checks an address and whoever connects to it must
mean the same host.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from holdfast.domain.errors import Invalid

MAX_URL: Final = 4096
"""Characters."""
PORTS: Final = {"http": 80, "https": 443}
"""The schemes that can be fetched, and their usual ports."""

IPAddress: TypeAlias = IPv4Address | IPv6Address

_FIRST_FREE_PORT: Final = 1024
# Above the ports that belong to the system, those that browsers refuse as well, since what listens there is no web
# server and may take a request for something else: https://fetch.spec.whatwg.org/#port-blocking
_NO_WEB_PORTS: Final = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
_STRANGE: Final = re.compile(r"[\x00-\x20\x7f\\]")
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_HOST: Final = 253
_SAFE: Final = "!$%&'()*+,/:;=?@[]~-._"


class WebUrl(msgspec.Struct, frozen=True, kw_only=True):
    """An address in its parts, as they are sent."""

    scheme: str
    host: str
    """In lower-case ASCII, without a dot at its end; an IPv6 address without its brackets."""
    port: int
    target: str
    """The path and the query; a fragment is not sent."""

    @property
    def address(self) -> IPAddress | None:
        """The address that the host is, if it is no name."""
        return _address(self.host)

    @property
    def authority(self) -> str:
        """The host, and its port where that is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def web_url(text: str) -> WebUrl:
    """Return an address in its parts, or raise `Invalid` if there is more than one way to read it, or none."""
    if len(text) > MAX_URL:
        raise Invalid(f"the address has more than {MAX_URL} characters", field="url")
    if _STRANGE.search(text) is not None:
        raise Invalid("an address has no spaces, control characters or backslashes: encode them", field="url")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise Invalid(f"the address cannot be read: {str(exc).lower()}", field="url") from exc
    if parts.scheme not in PORTS or not parts.netloc:
        raise Invalid("write the whole address: it begins with `http://` or `https://`", field="url")
    if "@" in parts.netloc:
        raise Invalid("no user or password is sent: leave out what is before the `@`", field="url")
    return WebUrl(
        scheme=parts.scheme,
        host=web_host(parts.netloc.removesuffix("" if port is None else f":{port}").removesuffix(":")),
        port=PORTS[parts.scheme] if port is None else port,
        target=_target(parts.path, parts.query),
    )


def joined(base: WebUrl, reference: str) -> WebUrl:
    """Return the address that a page at `base` means by `reference`."""
    try:
        meant = urljoin(str(base), reference.strip().replace(" ", "%20"))
    except ValueError as exc:
        raise Invalid(f"the address cannot be read: {str(exc).lower()}", field="url") from exc
    return web_url(meant)


def web_host(text: str) -> str:
    """Return a host as it is compared and looked up: a name in ASCII, or an address in its only form."""
    if text.startswith("[") or text.endswith("]"):
        return _bracketed(text)
    name = _ascii(text).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise Invalid(f"`{text[:100]}` is no name of a host", field="url")
    if _NUMBER.fullmatch(labels[-1]) is not None and not isinstance(_address(name), IPv4Address):
        # Other readers take `127.1`, `2130706433`, `0x7f.1` and `0177.0.0.1` for addresses.
        raise Invalid(f"`{text[:100]}` is no address: write four decimal numbers, or a name", field="url")
    return name


def check_port(url: WebUrl) -> None:
    """Raise unless there may be a web server at the port."""
    usual = url.port in PORTS.values()
    if not usual and (url.port < _FIRST_FREE_PORT or url.port in _NO_WEB_PORTS):
        raise Invalid(f"port {url.port} is not for the web, and is not fetched from", field="url")


def _bracketed(text: str) -> str:
    try:
        address = IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError as exc:
        raise Invalid(f"`{text[:100]}` is no IPv6 address", field="url") from exc
    if address.scope_id is not None:
        raise Invalid(f"`{text[:100]}` is an address of this machine's own network", field="url")
    return str(address)


def _ascii(text: str) -> str:
    """Return a name as it is looked up; whatever stands for a digit or a dot in other scripts is one then."""
    if text.isascii():
        return text
    import idna  # its tables take a while to load, and most names need none

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as exc:
        raise Invalid(f"`{text[:100]}` is no name of a host: {str(exc).lower()}", field="url") from exc


def _address(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _target(path: str, query: str) -> str:
    target = quote(path or "/", safe=_SAFE)
    return f"{target}?{quote(query, safe=_SAFE)}" if query else target
