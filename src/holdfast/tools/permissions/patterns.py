"""Path and domain patterns of rules.

    *.env                   a file or folder of that name, at any depth
    src/**                  everything beneath `src` of the working folder, and `src` itself
    /etc/**                 a path of the machine
    domain:example.com      this host and all its subdomains
    domain:*.example.com    only its subdomains

A pattern that matches a folder matches everything in it. A URL that cannot be parsed matches no domain; it is not
fetched either.
"""

import posixpath
import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.domain.web_url import parse_web_host, parse_web_url


class RuleMatch(IntEnum):
    """How sure it is that a rule fits."""

    NO = 0
    MAYBE = 1
    """It depends on what is only known when the call runs."""
    YES = 2


MAX_COMPARED_PATH_CHARS: Final = 4096
"""Characters of a path that is compared; a longer one names no file."""

_GLOB_TOKENS: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


class PathPattern:
    """Which paths a rule is about."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._anchored = "/" in text.rstrip("/")
        self._whole = re.compile(_glob_regex(text, start="" if self._anchored else "(?:.*/)?"), re.DOTALL)
        self._anywhere = re.compile(_glob_regex(text.lstrip("/"), start="(?:.*/)?"), re.DOTALL)

    def match(self, path: str | None, *, cwd_changed: bool = False) -> RuleMatch:
        """Say whether it is about a normal path; nobody knows where a relative one leads once a shell has `moved`."""
        if path is None or len(path) > MAX_COMPARED_PATH_CHARS:
            return RuleMatch.MAYBE
        if self._whole.fullmatch(path) is not None and (path.startswith("/") or not cwd_changed or not self._anchored):
            return RuleMatch.YES
        if self.text.startswith("/"):
            return (
                RuleMatch.MAYBE if cwd_changed and not path.startswith("/") or path.startswith("..") else RuleMatch.NO
            )
        if path.startswith(("/", "..")):
            return RuleMatch.MAYBE if self._anywhere.fullmatch(path) is not None else RuleMatch.NO
        return RuleMatch.MAYBE if cwd_changed and self._anchored else RuleMatch.NO


@lru_cache(maxsize=4096)
def path_pattern(text: str) -> PathPattern:
    """Return the pattern of a rule, which is compiled once."""
    return PathPattern(text)


def normalize_path(path: str) -> str:
    """Return a path without `.`, `..` and double slashes as far as they can be taken out; `.` is the folder itself."""
    found = posixpath.normpath(path)
    return f"/{found.lstrip('/')}" if found.startswith("/") else found


def check_path_pattern(text: str) -> None:
    """Raise `Invalid` if no path can fit."""
    if text.startswith("~"):
        raise Invalid("`~` is not expanded in a rule: write the path in full")
    if text != text.strip():
        raise Invalid("there is a space at the end of the path: no file is meant by that")
    if any(part in ("", ".", "..") for part in text.strip("/").split("/")):
        raise Invalid("a path in a rule has no `.`, `..` or empty parts: it would never match")
    try:
        PathPattern(text)
    except re.error as exc:
        raise Invalid(f"the path is no pattern: {exc}") from exc


def _glob_regex(text: str, *, start: str) -> str:
    body = text.rstrip("/")
    body = body.removesuffix("/**") or body
    return start + "".join(_token_regex(part) for part in _GLOB_TOKENS.findall(body)) + "(?:/.*)?"


def _token_regex(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if part.startswith("[") and part.endswith("]") and len(part) > 2:
            inner = part[1:-1].replace("\\", "\\\\")
            return f"(?!/)[^{inner[1:]}]" if inner.startswith("!") else f"(?!/)[{inner}]"
        case _:
            return re.escape(part)


DOMAIN_PREFIX: Final = "domain:"
_SUBDOMAINS_PREFIX: Final = "*."


class DomainPattern:
    """Which hosts a rule is about."""

    def __init__(self, text: str) -> None:
        named = text.removeprefix(DOMAIN_PREFIX)
        self._includes_host = not named.startswith(_SUBDOMAINS_PREFIX)
        self._host = parse_web_host(named.removeprefix(_SUBDOMAINS_PREFIX))

    def matches(self, url: str) -> bool:
        """Say whether an address is of such a host."""
        try:
            host = parse_web_url(url).host
        except Invalid:
            return False
        return host == self._host and self._includes_host or host.endswith(f".{self._host}")

    def covers(self, other: "DomainPattern") -> bool:
        """Say whether every host that the other is about is one of its own."""
        if other._host == self._host:
            return self._includes_host or not other._includes_host
        return other._host.endswith(f".{self._host}")


@lru_cache(maxsize=4096)
def domain_pattern(text: str) -> DomainPattern:
    """Return the pattern of a rule, which is read once."""
    return DomainPattern(text)


def check_domain_pattern(text: str) -> None:
    """Raise `Invalid` if no address can fit."""
    if not text.startswith(DOMAIN_PREFIX):
        raise Invalid("a rule about the web names a host: write `domain:example.com`")
    try:
        DomainPattern(text)
    except Invalid as exc:
        raise Invalid(f"{exc.message}: write `domain:example.com`, or `domain:*.example.com` for all below it") from exc
