"""Patterns that models write. RE2 matches them in time that grows with the text and nothing else: it cannot hang."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import Invalid

Pattern: TypeAlias = Any
"""What RE2 makes of a pattern: it has `search` and `fullmatch`, as those of Python do."""

MAX_PATTERN: Final = 1_000
"""Characters."""

_MEMORY: Final = 16 * 1024 * 1024


def expression(text: str, *, ignore_case: bool = False) -> Pattern:
    """Return a regular expression, or raise `Invalid` that says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(text, options)
    except re2.error as exc:
        why = exc.args[0].decode(errors="replace") if isinstance(exc.args[0], bytes) else str(exc)
        raise Invalid(
            f"`{text}` is no regular expression that can be used: {why}. The syntax is that of RE2, which has no "
            "look-around and no references back",
            field="pattern",
        ) from exc


def whole_text(text: str, *, ignore_case: bool = False) -> Pattern | None:
    """Return an expression that a text fits if one of its lines fits `text`; nothing if that cannot be said so."""
    if any(token in text for token in (r"\A", r"\z", "(?", r"\Q")):
        return None
    return expression(f"(?m:{text})", ignore_case=ignore_case)


def glob(text: str) -> Pattern:
    """Return what fits the paths that a glob means: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders."""
    return expression("".join(_translated(text)))


_PLAIN: Final = {"*": "[^/]*", "?": "[^/]"}


def _translated(text: str) -> Iterator[str]:
    """Yield the parts of an expression."""
    at = depth = 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] in "/{,"):
            yield "(?:[^/]+/)*"
            at += 3
            continue
        if text.startswith("**", at):
            yield ".*"
            at += 2
            continue
        if text[at] == "[" and (end := _class_end(text, at)):
            yield _class(text[at + 1 : end])
            at = end + 1
            continue
        part, step = _one(text, at, depth)
        depth += step
        yield part
        at += 2 if text[at] == "\\" and at + 1 < len(text) else 1
    if depth:
        raise Invalid(f"`{text}` has a `{{` without a `}}`: close it, or write `\\{{`", field="pattern")


def _one(text: str, at: int, depth: int) -> tuple[str, int]:
    """Return what one character stands for, and by how much it goes deeper into braces."""
    match text[at]:
        case "{":
            return "(?:", 1
        case "}" if depth:
            return ")", -1
        case "," if depth:
            return "|", 0
        case "\\" if at + 1 < len(text):
            return re2.escape(text[at + 1]), 0
        case character:
            return _PLAIN.get(character) or re2.escape(character), 0


def _class_end(text: str, at: int) -> int | None:
    """Return where the set that begins at `at` ends, if it does."""
    first = at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1
    end = text.find("]", first + 1)
    return end if end > 0 else None


def _class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    members = members.replace("^", "\\^").replace("/", "")
    return f"[^/{members}]" if negated else f"[{members}]"
