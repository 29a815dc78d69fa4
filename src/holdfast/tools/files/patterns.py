"""Globs and regular expressions from the model, matched by RE2 in linear time, so that no pattern can hang."""

from collections.abc import Iterator, Sequence
from typing import Final

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path, parse_working_path
from holdfast.ports.tools import WorkingFolder
from holdfast.tools.files.text import split_lines, truncate_line
from holdfast.tools.files.walk import FolderWalk

MAX_PATTERN_CHARS: Final = 1_000


def compile_glob(text: str) -> LinearRegex:
    """Return a pattern for the paths of a glob: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders."""
    return LinearRegex("".join(_glob_to_regex(text)), capture=False)


_WILDCARDS: Final = {"*": "[^/]*", "?": "[^/]"}


def _glob_to_regex(text: str) -> Iterator[str]:
    """Yield the parts of a regular expression."""
    index = depth = 0
    while index < len(text):
        if text.startswith("**/", index) and (index == 0 or text[index - 1] in "/{,"):
            yield "(?:[^/]+/)*"
            index += 3
        elif text.startswith("**", index):
            yield ".*"
            index += 2
        elif text[index] == "[" and (end := _class_end(text, index)):
            yield _translate_class(text[index + 1 : end])
            index = end + 1
        else:
            part, step = _translate_char(text, index, depth)
            depth += step
            yield part
            index += 2 if text[index] == "\\" and index + 1 < len(text) else 1
    if depth:
        raise Invalid(f"`{text}` has a `{{` without a `}}`: close it, or write `\\{{`", field="pattern")


def _translate_char(text: str, index: int, depth: int) -> tuple[str, int]:
    """Return the regular expression of one character, and the change of the brace depth."""
    match text[index]:
        case "{":
            return "(?:", 1
        case "}" if depth:
            return ")", -1
        case "," if depth:
            return "|", 0
        case "\\" if index + 1 < len(text):
            return re2.escape(text[index + 1]), 0
        case character:
            return _WILDCARDS.get(character) or re2.escape(character), 0


def _class_end(text: str, start: int) -> int | None:
    """Return the index of the `]` of the character class that begins at `start`, or null."""
    first = start + 2 if text[start + 1 : start + 2] in ("!", "^") else start + 1
    end = text.find("]", first + 1)
    return end if end > 0 else None


def _translate_class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    members = members.replace("^", "\\^").replace("/", "")
    return f"[^/{members}]" if negated else f"[{members}]"


MAX_MATCH_CHARS: Final = 400
"""Characters of a matching line that are shown."""


class LineSearch:
    """Finds the lines of texts that match a regular expression."""

    def __init__(self, pattern: str, *, ignore_case: bool, context: int) -> None:
        self._line = LinearRegex(pattern, ignore_case=ignore_case, capture=False)
        self._whole: LinearRegex | None = None
        """Matches a whole text if one of its lines matches; some syntax has no multi-line form."""
        if not any(token in pattern for token in (r"\A", r"\z", "(?", r"\Q")):
            self._whole = LinearRegex(f"(?m:{pattern})", ignore_case=ignore_case, capture=False)
        self._context = context

    def matches(self, text: str, *, limit: int) -> list[int]:
        """Return the indexes of the first `limit` lines that match."""
        if self._whole is not None and self._whole.search(text) is None:
            return []  # most texts do not match, and one search in the whole is much faster than one per line
        matches: list[int] = []
        for index, line in enumerate(split_lines(text)):
            if self._line.search(line) is not None:
                matches.append(index)
                if len(matches) == limit:
                    break
        return matches

    def rows(self, path: WorkingPath, text: str, matches: Sequence[int]) -> list[str]:
        """Return the matching lines with their context; `--` separates groups that are apart."""
        lines, matching = split_lines(text), set(matches)
        rows: list[str] = []
        end = 0
        for match in matches:
            start = max(match - self._context, end)
            if rows and self._context and start > end:
                rows.append("--")
            end = min(match + self._context + 1, len(lines))
            for index in range(start, end):
                sign = ":" if index in matching else "-"
                rows.append(f"{path}{sign}{index + 1}{sign}{truncate_line(lines[index], limit=MAX_MATCH_CHARS)}")
        return rows


_GLOB_CHARS: Final = frozenset("*?[]{}\\")


def find_files(folder: WorkingFolder, walk: FolderWalk, pattern: str, *, start: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the files whose paths, relative to `start`, match a glob, in order of name."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise Invalid(f"`{pattern}` must be relative to `path`, and may not have `..` in it", field="pattern")
    parts = [part for part in pattern.split("/") if part != "."]
    glob = compile_glob("/".join(parts))
    prefix_chars = 0 if start == WORKING_ROOT else len(start) + 1
    # The walk begins in the innermost folder that the pattern names literally.
    innermost = start
    for name in parts[:-1]:
        if not name or _GLOB_CHARS.intersection(name):
            break
        innermost = child_path(innermost, name)
    innermost = parse_working_path(innermost)
    try:
        for path in walk.files(innermost):
            if glob.fullmatch(path[prefix_chars:]) is not None:
                yield path
    except NotFound:
        if innermost == start:
            raise
        folder.list(start, max_entries=1)  # raises if `start` is missing; otherwise nothing matches
