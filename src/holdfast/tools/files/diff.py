"""Unified diffs of files for people, bounded in length and in the time they take."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final, TypeAlias

MAX_DIFF_CHARS: Final = 20_000
"""Characters."""
CONTEXT_LINES: Final = 3
"""Lines around a change."""
MAX_COMPARED_LINES: Final = 3_000
"""Lines on either side that are compared with each other."""
MAX_PAIRS: Final = 30_000
"""Pairs of lines that are alike: what comparing takes grows with them."""

_Change: TypeAlias = tuple[int, int, int, int]
"""In the place of lines `[a, b)` of the old text are lines `[c, d)` of the new one."""


def unified_diff(before: str, after: str, *, path: str, limit: int = MAX_DIFF_CHARS) -> str:
    """Return how `after` differs from `before`; a diff that is too long is cut, and says so."""
    old, new = _lines_with_ends(before), _lines_with_ends(after)
    hunks = [_hunk(group, old, new) for group in _groups(_changes(old, new))]
    text = f"--- a/{path}\n+++ b/{path}\n{''.join(hunks)}" if hunks else ""
    if len(text) <= limit:
        return text
    kept, _, rest = text[:limit].rpartition("\n")
    return f"{kept}\n[{len(text) - limit + len(rest)} more characters]\n"


def _lines_with_ends(text: str) -> list[str]:
    """Return lines with their ends; only a line feed ends a line."""
    *ended, last = text.split("\n")
    return [f"{line}\n" for line in ended] + ([last] if last else [])


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """Yield what differs, in order; what cannot be compared in time is one change."""
    head = _common_prefix(zip(old, new, strict=False))
    rest = min(len(old), len(new)) - head
    tail = min(rest, _common_prefix(zip(reversed(old), reversed(new), strict=False)))
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if not _comparable(a, b):
        yield head, head + len(a), head, head + len(b)
        return
    for kind, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            yield head + a_from, head + a_to, head + b_from, head + b_to


def _common_prefix(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _comparable(a: Sequence[str], b: Sequence[str]) -> bool:
    if max(len(a), len(b)) > MAX_COMPARED_LINES:
        return False
    counts = Counter(b)
    return sum(counts[line] for line in a) <= MAX_PAIRS


def _groups(changes: Iterable[_Change]) -> list[list[_Change]]:
    """Return changes that are near each other together."""
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(group: Sequence[_Change], old: Sequence[str], new: Sequence[str]) -> str:
    first, last = group[0], group[-1]
    before, after = min(CONTEXT_LINES, first[0]), min(CONTEXT_LINES, len(old) - last[1])
    rows = [_hunk_range(first[0] - before, last[1] + after, "-"), _hunk_range(first[2] - before, last[3] + after, "+")]
    text = [f"@@ {' '.join(rows)} @@\n"]
    at = first[0] - before
    for a_from, a_to, b_from, b_to in group:
        text += _diff_rows(" ", old[at:a_from])
        text += _diff_rows("-", old[a_from:a_to])
        text += _diff_rows("+", new[b_from:b_to])
        at = a_to
    text += _diff_rows(" ", old[at : at + after])
    return "".join(text)


def _hunk_range(start: int, end: int, sign: str) -> str:
    return f"{sign}{start + 1 if end > start else start},{end - start}"


def _diff_rows(sign: str, lines: Sequence[str]) -> list[str]:
    return [
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n" for line in lines
    ]
