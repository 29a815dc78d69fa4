"""Lines of a text with their numbers, as many as a model should read at once."""

from typing import Final

import msgspec

MAX_LINES: Final = 2_000
MAX_LINE: Final = 1_000
"""Characters of a line that are shown."""
MAX_SHOWN: Final = 30_000
"""Characters that are shown at once."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a text: those from `first` up to, and not with, `end`, counted from 1."""

    text: str
    first: int
    end: int
    total: int


def split(text: str) -> list[str]:
    """Return the lines of a text without their ends; only a line feed ends a line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def shown(lines: list[str], *, first: int, most: int) -> Shown:
    """Return lines from number `first` on, at most so many, and no more than a model should read."""
    rows: list[str] = []
    room = MAX_SHOWN
    for number, line in enumerate(lines[first - 1 : first - 1 + min(most, MAX_LINES)], start=first):
        row = f"{number:>6}\t{cut(line)}"
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    return Shown(text="\n".join(rows), first=first, end=first + len(rows), total=len(lines))


def cut(line: str, *, most: int = MAX_LINE) -> str:
    """Return a line that is not too long to be shown; what is left out is said."""
    return line if len(line) <= most else f"{line[:most]}… [{len(line) - most} more characters]"
