"""Unified diffs of files for people, bounded in length and in computing time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final, TypeAlias

MAX_DIFF_CHARS: Final = 20_000
CONTEXT_LINES: Final = 3
"""Unchanged lines around a change."""
MAX_COMPARED_LINES: Final = 3_000
"""Lines on either side that are compared; longer texts are one change."""
MAX_EQUAL_PAIRS: Final = 30_000
"""Pairs of equal lines, one on each side: the time of a comparison grows with them."""

_Change: TypeAlias = tuple[int, int, int, int]
"""Lines `[a, b)` of the old text are replaced by lines `[c, d)` of the new one."""


def unified_diff(before: str, after: str, *, path: str, limit: int = MAX_DIFF_CHARS) -> str:
    """Return the unified diff of two texts; one that is too long is cut, with a note."""
    old, new = _lines_with_ends(before), _lines_with_ends(after)
    groups: list[list[_Change]] = []
    for change in _changes(old, new):
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    hunks = [_hunk(group, old, new) for group in groups]
    text = f"--- a/{path}\n+++ b/{path}\n{''.join(hunks)}" if hunks else ""
    if len(text) <= limit:
        return text
    kept, _, rest = text[:limit].rpartition("\n")
    return f"{kept}\n[{len(text) - limit + len(rest)} more characters]\n"


def _lines_with_ends(text: str) -> list[str]:
    """Return the lines of a text with their ends; only a line feed ends a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """Yield the changes in order; texts that would take too long to compare are one change."""
    head = _common_prefix(zip(old, new, strict=False))
    rest = min(len(old), len(new)) - head
    tail = min(rest, _common_prefix(zip(reversed(old), reversed(new), strict=False)))
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(a), len(b)) > MAX_COMPARED_LINES or _equal_pairs(a, b) > MAX_EQUAL_PAIRS:
        yield head, head + len(a), head, head + len(b)
        return
    for kind, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            yield head + a_from, head + a_to, head + b_from, head + b_to


def _common_prefix(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _equal_pairs(a: Sequence[str], b: Sequence[str]) -> int:
    counts = Counter(b)
    return sum(counts[line] for line in a)


def _hunk(group: Sequence[_Change], old: Sequence[str], new: Sequence[str]) -> str:
    first, last = group[0], group[-1]
    before, after = min(CONTEXT_LINES, first[0]), min(CONTEXT_LINES, len(old) - last[1])
    old_range = _hunk_range(first[0] - before, last[1] + after, "-")
    new_range = _hunk_range(first[2] - before, last[3] + after, "+")
    rows = [f"@@ {old_range} {new_range} @@\n"]
    index = first[0] - before
    for a_from, a_to, b_from, b_to in group:
        rows += _diff_rows(" ", old[index:a_from])
        rows += _diff_rows("-", old[a_from:a_to])
        rows += _diff_rows("+", new[b_from:b_to])
        index = a_to
    rows += _diff_rows(" ", old[index : index + after])
    return "".join(rows)


def _hunk_range(start: int, end: int, sign: str) -> str:
    return f"{sign}{start + 1 if end > start else start},{end - start}"


def _diff_rows(sign: str, lines: Sequence[str]) -> list[str]:
    return [
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n" for line in lines
    ]
