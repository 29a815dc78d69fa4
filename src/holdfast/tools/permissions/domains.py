"""Hosts of the web in rules.

    domain:example.com      this host, and all below it
    domain:*.example.com    only those below it

An address that cannot be read is about no host: nothing is fetched from there either.
"""

from functools import lru_cache
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import parse_web_host, parse_web_url

PREFIX: Final = "domain:"
_BELOW: Final = "*."


class DomainPattern:
    """Which hosts a rule is about."""

    def __init__(self, text: str) -> None:
        named = text.removeprefix(PREFIX)
        self._itself = not named.startswith(_BELOW)
        self._host = parse_web_host(named.removeprefix(_BELOW))

    def fits(self, url: str) -> bool:
        """Say whether an address is of such a host."""
        try:
            host = parse_web_url(url).host
        except Invalid:
            return False
        return host == self._host and self._itself or host.endswith(f".{self._host}")

    def covers(self, other: "DomainPattern") -> bool:
        """Say whether every host that the other is about is one of its own."""
        if other._host == self._host:
            return self._itself or not other._itself
        return other._host.endswith(f".{self._host}")


@lru_cache(maxsize=4096)
def domain_pattern(text: str) -> DomainPattern:
    """Return the pattern of a rule, which is read once."""
    return DomainPattern(text)


def check_domain_pattern(text: str) -> None:
    """Raise `Invalid` if no address can fit."""
    if not text.startswith(PREFIX):
        raise Invalid("a rule about the web names a host: write `domain:example.com`")
    try:
        DomainPattern(text)
    except Invalid as exc:
        raise Invalid(f"{exc.message}: write `domain:example.com`, or `domain:*.example.com` for all below it") from exc
