"""Path and domain patterns of rules.

    *.env                   a file or folder of that name, at any depth
    src/**                  everything beneath `src` of the working folder, and `src` itself
    /etc/**                 a path of the machine
    domain:example.com      this host and all its subdomains
    domain:*.example.com    only its subdomains

A pattern that matches a folder matches everything in it. A URL that cannot be parsed matches no domain, and is never
fetched.
"""

import posixpath
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.web_url import parse_web_host, parse_web_url


class RuleMatch(IntEnum):
    """Whether a rule matches a call."""

    NO = 0
    MAYBE = 1
    """It depends on something that is only known at run time."""
    YES = 2


MAX_COMPARED_PATH_CHARS: Final = 4096
"""Characters of a path that is compared; a longer one is not a valid file name."""

_CLASS_TOKENS: Final = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_GLOB_TOKENS: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


class PathPattern:
    """The paths that a rule matches."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._anchored = "/" in text.rstrip("/")
        self._whole = LinearRegex(_glob_regex(text, start="" if self._anchored else "(?:.*/)?"), capture=False)
        self._anywhere = LinearRegex(_glob_regex(text.lstrip("/"), start="(?:.*/)?"), capture=False)

    def match(self, path: str | None, *, cwd_changed: bool = False) -> RuleMatch:
        """Return whether a normalized path matches; after `cd`, the meaning of a relative path is unknown."""
        if path is None or len(path) > MAX_COMPARED_PATH_CHARS:
            return RuleMatch.MAYBE
        if self._whole.fullmatch(path) is not None and (path.startswith("/") or not cwd_changed or not self._anchored):
            return RuleMatch.YES
        if self.text.startswith("/"):
            possible = cwd_changed and not path.startswith("/") or path.startswith("..")
        elif path.startswith(("/", "..")):
            possible = self._anywhere.fullmatch(path) is not None
        else:
            possible = cwd_changed and self._anchored
        return RuleMatch.MAYBE if possible else RuleMatch.NO


path_pattern: Final = lru_cache(maxsize=4096)(PathPattern)
"""Returns the compiled pattern of a rule."""


def normalize_path(path: str) -> str:
    """Return a path without `.`, double slashes and inner `..`; the folder itself is `.`."""
    normal = posixpath.normpath(path)
    return f"/{normal.lstrip('/')}" if normal.startswith("/") else normal


def check_path_pattern(text: str) -> None:
    """Raise `Invalid` if no path can match."""
    if text.startswith("~"):
        raise Invalid("`~` is not expanded in a rule: write the path in full")
    if text != text.strip():
        raise Invalid("the path begins or ends with a space: remove it")
    if any(part in ("", ".", "..") for part in text.strip("/").split("/")):
        raise Invalid("a path in a rule has no `.`, `..` or empty parts: it would never match")
    try:
        PathPattern(text)
    except Invalid as exc:
        raise Invalid(f"the path is not a valid pattern: {exc.message}") from exc


def relocate_pattern(text: str, *, origin: str, to: str) -> list[str]:
    """Return patterns for the folder `to` that match what `text` matches in the folder `origin`, where they overlap.

    A pattern that matches at any depth does so in both folders anyway, unless it matches a folder that leads to `to`.
    """
    inner, outer = (PurePosixPath(folder).parts for folder in (to, origin))
    pattern = text.strip("/").removesuffix("/**") or text
    anchored = "/" in text.rstrip("/")
    if outer[: len(inner)] == inner:  # `origin` is in `to`
        return ["/".join((*outer[len(inner) :], pattern))] if anchored else []
    if inner[: len(outer)] != outer:
        return []
    remainders = {tuple(pattern.split("/"))} if anchored else {("**", pattern)}
    for part in inner[len(outer) :]:
        remainders = {rest for remainder in remainders for rest in _after_part(remainder, part)}
    if () in remainders or ("**",) in remainders:
        return ["**"]
    return sorted({f"{'/'.join(remainder)}/**" for remainder in remainders if anchored or remainder[0] != "**"})


def _after_part(remainder: tuple[str, ...], part: str) -> Iterator[tuple[str, ...]]:
    """Yield what is left of a pattern after it matched one folder name; nothing is left once it matches everything."""
    if not remainder:
        yield ()
    elif remainder[0] == "**":
        yield remainder
        yield from _after_part(remainder[1:], part)
    elif "**" in remainder[0]:  # it may match several folders: what follows may begin anywhere below
        yield ("**", *remainder[1:])
    elif path_pattern(remainder[0]).match(part) is RuleMatch.YES:
        yield remainder[1:]


_WILDCARD_REGEXES: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _glob_regex(text: str, *, start: str) -> str:
    body = text.rstrip("/")
    regex = f"(?s){start}"
    for token in _GLOB_TOKENS.findall(body.removesuffix("/**") or body):
        if token.startswith("[") and token.endswith("]") and len(token) > 2:
            regex += _class_regex(token[1:-1])
        else:
            regex += _WILDCARD_REGEXES.get(token) or re.escape(token)
    return regex + "(?:/.*)?"


def _class_regex(members: str) -> str:
    """Return the regular expression of a character class, which never matches `/`."""
    negated, ranges = members.startswith("!"), ""
    for first, last, single in _CLASS_TOKENS.findall(members.removeprefix("!")):
        if first > last:
            raise Invalid(f"the range `{first}-{last}` is empty")
        low, high = first or single, last or single
        # A range is split around `/`.
        ranges += "".join(
            f"{re.escape(start)}-{re.escape(end)}"
            for start, end in ((low, min(high, ".")), (max(low, "0"), high))
            if start <= end
        )
    return f"[^{ranges}/]" if negated else f"[{ranges}]"


DOMAIN_PREFIX: Final = "domain:"
_SUBDOMAINS_PREFIX: Final = "*."


class DomainPattern:
    """The hosts that a rule matches."""

    def __init__(self, text: str) -> None:
        host = text.removeprefix(DOMAIN_PREFIX)
        self._includes_host = not host.startswith(_SUBDOMAINS_PREFIX)
        self._host = parse_web_host(host.removeprefix(_SUBDOMAINS_PREFIX))

    def matches(self, url: str) -> bool:
        """Return whether the host of a URL matches."""
        try:
            host = parse_web_url(url).host
        except Invalid:
            return False
        return host == self._host and self._includes_host or host.endswith(f".{self._host}")

    def covers(self, other: "DomainPattern") -> bool:
        """Return whether it matches every host that `other` matches."""
        if other._host == self._host:
            return self._includes_host or not other._includes_host
        return other._host.endswith(f".{self._host}")


domain_pattern: Final = lru_cache(maxsize=4096)(DomainPattern)
"""Returns the parsed pattern of a rule."""


def check_domain_pattern(text: str) -> None:
    """Raise `Invalid` if no URL can match."""
    if not text.startswith(DOMAIN_PREFIX):
        raise Invalid("a rule about the web names a host: write `domain:example.com`")
    try:
        DomainPattern(text)
    except Invalid as exc:
        raise Invalid(f"{exc.message}: write `domain:example.com`, or `domain:*.example.com` for all below it") from exc
