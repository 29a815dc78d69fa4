"""Regular expressions for text of strangers, matched by RE2: the time is linear in the text, whatever it holds.

`re` may take minutes for a kilobyte. A test lists the modules that use it, with the reason why theirs cannot.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import Invalid

MAX_COMPILED_BYTES: Final = 16 * 1024 * 1024
"""Memory of one compiled pattern."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class LinearRegex:
    """A compiled pattern in the syntax of RE2, which has no look-around and no backreferences."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, capture: bool = True) -> None:
        """Compile a pattern, or raise `Invalid` with the reason."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = not capture
        options.max_mem = MAX_COMPILED_BYTES
        options.case_sensitive = not ignore_case
        try:
            self._pattern: Any = re2.compile(pattern, options)
        except re2.error as exc:
            reason = exc.args[0].decode(errors="replace") if isinstance(exc.args[0], bytes) else str(exc)
            raise Invalid(
                f"`{pattern}` is not a valid regular expression: {reason}. The syntax is that of RE2, which has no "
                "look-around and no backreferences",
                field="pattern",
            ) from exc

    def search(self, text: str) -> Any:
        """Return the first match, or null."""
        try:
            return self._pattern.search(text)
        except UnicodeEncodeError:
            return self._pattern.search(_replace_surrogates(text))

    def fullmatch(self, text: str) -> Any:
        """Return the match of the whole text, or null."""
        try:
            return self._pattern.fullmatch(text)
        except UnicodeEncodeError:
            return self._pattern.fullmatch(_replace_surrogates(text))

    def finditer(self, text: str) -> Iterator[Any]:
        """Yield the matches; each costs some 10 µs."""
        try:
            return iter(list(self._pattern.finditer(text)))
        except UnicodeEncodeError:
            return iter(list(self._pattern.finditer(_replace_surrogates(text))))

    def count(self, text: bytes, *, limit: int) -> int:
        """Return the number of matches in UTF-8, counted up to a limit."""
        return sum(1 for _ in islice(self._pattern.finditer(text), limit))

    def sub(self, replacement: str, text: str) -> str:
        """Return the text with every match replaced; each costs some 10 µs."""
        try:
            replaced: str = self._pattern.sub(replacement, text)
        except UnicodeEncodeError:
            replaced = self._pattern.sub(replacement, _replace_surrogates(text))
        return replaced


def is_unicode(text: str) -> bool:
    """Return whether a text has no unpaired surrogate, which RE2 cannot read."""
    return text.isascii() or _SURROGATE.search(text) is None


def _replace_surrogates(text: str) -> str:
    """Return a text that RE2 can read: an unpaired surrogate becomes one other character."""
    return _SURROGATE.sub("�", text)
