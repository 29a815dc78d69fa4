"""Lines of a text that fit an expression, with some around them, as `grep` shows them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.domain.working_path import WorkingPath
from holdfast.tools.files.lines import cut, split
from holdfast.tools.files.patterns import Pattern, expression, whole_text

MAX_ROW: Final = 400
"""Characters of a line that are shown."""


class Search:
    """Looks for an expression in texts."""

    def __init__(self, pattern: str, *, ignore_case: bool, context: int) -> None:
        self._line: Pattern = expression(pattern, ignore_case=ignore_case)
        self._whole: Pattern | None = whole_text(pattern, ignore_case=ignore_case)
        self._context = context

    def matches(self, text: str, *, most: int) -> list[int]:
        """Return the indexes of the first lines that fit, but no more than `most`."""
        if self._whole is not None and self._whole.search(text) is None:
            return []  # most texts have none, and one look at the whole is much quicker than one at each line
        found: list[int] = []
        for index, line in enumerate(split(text)):
            if self._line.search(line) is not None:
                found.append(index)
                if len(found) == most:
                    break
        return found

    def rows(self, path: WorkingPath, text: str, found: Sequence[int]) -> list[str]:
        """Return the lines that were found, and those around them; `--` stands between those that are apart."""
        lines = split(text)
        rows: list[str] = []
        for part in _passages(found, around=self._context, end=len(lines)):
            if rows and self._context:
                rows.append("--")
            hits = set(found[part.first_hit : part.last_hit])
            for index in range(part.start, part.stop):
                sign = ":" if index in hits else "-"
                rows.append(f"{path}{sign}{index + 1}{sign}{cut(lines[index], most=MAX_ROW)}")
        return rows


class _Passage(NamedTuple):
    """Lines `[start, stop)`, and which of the hits are in it."""

    start: int
    stop: int
    first_hit: int
    last_hit: int


def _passages(found: Sequence[int], *, around: int, end: int) -> Iterator[_Passage]:
    """Yield what is shown, with hits that are near each other together."""
    first = 0
    for number, index in enumerate(found):
        last = number + 1 == len(found)
        if last or found[number + 1] - index > 2 * around + 1:
            yield _Passage(max(found[first] - around, 0), min(index + around + 1, end), first, number + 1)
            first = number + 1
