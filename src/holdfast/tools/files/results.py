"""What was found, as many rows of it as a model should read, and below them what was left out."""

from collections.abc import Iterable, Sequence

from holdfast.tools.files.lines import MAX_SHOWN
from holdfast.tools.tool import Outcome


def found(rows: Sequence[str], *, summary: str, notes: Iterable[str] = ()) -> Outcome:
    """Return rows for a model, then how many things there are, and notes about what is not there."""
    kept = _fitting(rows)
    left = [f"{len(rows) - len(kept)} more rows are too many to show"] if len(kept) < len(rows) else []
    return Outcome(content="\n".join([*kept, f"[{'; '.join([summary, *left, *notes])}]"]))


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def _fitting(rows: Sequence[str]) -> Sequence[str]:
    room = MAX_SHOWN
    for index, row in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            return rows[:index]
    return rows
