"""Globs and regular expressions of models, matched by RE2: time linear in the text, so no pattern can hang."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import re2  # type: ignore[import-untyped]  # it ships no types

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, child_path, parse_working_path
from holdfast.ports.tools import WorkingFolder
from holdfast.tools.files.text import split_lines, truncate_line
from holdfast.tools.files.walk import FolderWalk

Re2Pattern: TypeAlias = Any
"""What RE2 makes of a pattern: it has `search` and `fullmatch`, as those of Python do."""

MAX_PATTERN_CHARS: Final = 1_000
"""Characters."""

_MAX_RE2_BYTES: Final = 16 * 1024 * 1024


def compile_regex(text: str, *, ignore_case: bool = False) -> Re2Pattern:
    """Return a regular expression, or raise `Invalid` that says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_RE2_BYTES
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


def compile_multiline(text: str, *, ignore_case: bool = False) -> Re2Pattern | None:
    """Return an expression that a text fits if one of its lines fits `text`; nothing if that cannot be said so."""
    if any(token in text for token in (r"\A", r"\z", "(?", r"\Q")):
        return None
    return compile_regex(f"(?m:{text})", ignore_case=ignore_case)


def compile_glob(text: str) -> Re2Pattern:
    """Return what fits the paths that a glob means: `*`, `?`, `[…]`, `{a,b}`, and `**` for any number of folders."""
    return compile_regex("".join(_glob_to_regex(text)))


_WILDCARDS: Final = {"*": "[^/]*", "?": "[^/]"}


def _glob_to_regex(text: str) -> Iterator[str]:
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
            yield _translate_class(text[at + 1 : end])
            at = end + 1
            continue
        part, step = _translate_char(text, at, depth)
        depth += step
        yield part
        at += 2 if text[at] == "\\" and at + 1 < len(text) else 1
    if depth:
        raise Invalid(f"`{text}` has a `{{` without a `}}`: close it, or write `\\{{`", field="pattern")


def _translate_char(text: str, at: int, depth: int) -> tuple[str, int]:
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
            return _WILDCARDS.get(character) or re2.escape(character), 0


def _class_end(text: str, at: int) -> int | None:
    """Return where the set that begins at `at` ends, if it does."""
    first = at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1
    end = text.find("]", first + 1)
    return end if end > 0 else None


def _translate_class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    members = members.replace("^", "\\^").replace("/", "")
    return f"[^/{members}]" if negated else f"[{members}]"


MAX_MATCH_CHARS: Final = 400
"""Characters of a line that are shown."""


class LineSearch:
    """Looks for an expression in texts."""

    def __init__(self, pattern: str, *, ignore_case: bool, context: int) -> None:
        self._line: Re2Pattern = compile_regex(pattern, ignore_case=ignore_case)
        self._whole: Re2Pattern | None = compile_multiline(pattern, ignore_case=ignore_case)
        self._context = context

    def matches(self, text: str, *, limit: int) -> list[int]:
        """Return the indexes of the first lines that fit, but no more than `most`."""
        if self._whole is not None and self._whole.search(text) is None:
            return []  # most texts have none, and one look at the whole is much quicker than one at each line
        found: list[int] = []
        for index, line in enumerate(split_lines(text)):
            if self._line.search(line) is not None:
                found.append(index)
                if len(found) == limit:
                    break
        return found

    def rows(self, path: WorkingPath, text: str, found: Sequence[int]) -> list[str]:
        """Return the lines that were found, and those around them; `--` stands between those that are apart."""
        lines = split_lines(text)
        rows: list[str] = []
        for part in _match_groups(found, around=self._context, end=len(lines)):
            if rows and self._context:
                rows.append("--")
            hits = set(found[part.first_hit : part.last_hit])
            for index in range(part.start, part.stop):
                sign = ":" if index in hits else "-"
                rows.append(f"{path}{sign}{index + 1}{sign}{truncate_line(lines[index], limit=MAX_MATCH_CHARS)}")
        return rows


class _MatchGroup(NamedTuple):
    """Lines `[start, stop)`, and which of the hits are in it."""

    start: int
    stop: int
    first_hit: int
    last_hit: int


def _match_groups(found: Sequence[int], *, around: int, end: int) -> Iterator[_MatchGroup]:
    """Yield what is shown, with hits that are near each other together."""
    first = 0
    for number, index in enumerate(found):
        last = number + 1 == len(found)
        if last or found[number + 1] - index > 2 * around + 1:
            yield _MatchGroup(max(found[first] - around, 0), min(index + around + 1, end), first, number + 1)
            first = number + 1


_GLOB_CHARS: Final = frozenset("*?[]{}\\")


def find_files(folder: WorkingFolder, walk: FolderWalk, pattern: str, *, start: WorkingPath) -> Iterator[WorkingPath]:
    """Yield the files whose paths, relative to `start`, fit a pattern, in the order of their names."""
    fits = compile_glob(_relative_pattern(pattern))
    cut = 0 if start == WORKING_ROOT else len(start) + 1
    nearest = _literal_prefix(pattern, start)
    try:
        for path in walk.files(nearest):
            if fits.fullmatch(path[cut:]) is not None:
                yield path
    except NotFound:
        if nearest == start:
            raise
        folder.list(start, max_entries=1)  # it may be what is missing; otherwise nothing fits


def _relative_pattern(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise Invalid(f"`{pattern}` must be relative to `path`, and may not have `..` in it", field="pattern")
    return "/".join(part for part in pattern.split("/") if part != ".")


def _literal_prefix(pattern: str, start: WorkingPath) -> WorkingPath:
    """Return the innermost folder that has all that fits: the parts without anything special name it."""
    *folders, _ = _relative_pattern(pattern).split("/")
    at = start
    for name in folders:
        if not name or _GLOB_CHARS.intersection(name):
            break
        at = child_path(at, name)
    return parse_working_path(at)
