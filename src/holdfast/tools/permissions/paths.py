"""Paths in rules.

    *.env          a file or folder of that name, at any depth
    src/**         what is beneath `src` of the working folder, and `src` itself
    /etc/**        a path of the machine

A pattern that fits a folder fits all that is in it.
"""

import posixpath
import re
from functools import lru_cache
from typing import Final

from holdfast.domain.errors import Invalid
from holdfast.tools.permissions.match import Match

MAX_PATH: Final = 4096
"""Characters of a path that is compared; a longer one names no file."""

_PARTS: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


class PathPattern:
    """Which paths a rule is about."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._anchored = "/" in text.rstrip("/")
        self._whole = re.compile(_regex(text, start="" if self._anchored else "(?:.*/)?"), re.DOTALL)
        self._anywhere = re.compile(_regex(text.lstrip("/"), start="(?:.*/)?"), re.DOTALL)

    def match(self, path: str | None, *, moved: bool = False) -> Match:
        """Say whether it is about a normal path; nobody knows where a relative one leads once a shell has `moved`."""
        if path is None or len(path) > MAX_PATH:
            return Match.MAYBE
        if self._whole.fullmatch(path) is not None and (path.startswith("/") or not moved or not self._anchored):
            return Match.YES
        if self.text.startswith("/"):
            return Match.MAYBE if moved and not path.startswith("/") or path.startswith("..") else Match.NO
        if path.startswith(("/", "..")):
            return Match.MAYBE if self._anywhere.fullmatch(path) is not None else Match.NO
        return Match.MAYBE if moved and self._anchored else Match.NO


@lru_cache(maxsize=4096)
def path_pattern(text: str) -> PathPattern:
    """Return the pattern of a rule, which is compiled once."""
    return PathPattern(text)


def normal(path: str) -> str:
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


def _regex(text: str, *, start: str) -> str:
    body = text.rstrip("/")
    body = body.removesuffix("/**") or body
    return start + "".join(_part(part) for part in _PARTS.findall(body)) + "(?:/.*)?"


def _part(part: str) -> str:
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
