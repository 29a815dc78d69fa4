"""Where a page ends and the next begins."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.domain.errors import Invalid
from holdfast.domain.page import Page
from holdfast.store.transaction import Row

T = TypeVar("T")


def page(rows: Sequence[Row], limit: int, *, value: Callable[[Row], T], cursor: Callable[[Row], str]) -> Page[T]:
    """Make a page of `rows`, which are one more than `limit` where there is another page."""
    shown = rows[:limit]
    return Page(items=[value(row) for row in shown], next_cursor=cursor(shown[-1]) if len(rows) > limit else None)


def number_cursor(cursor: str) -> int:
    """Read a cursor of one number."""
    return _numbers(cursor, 1)[0]


def pair_cursor(cursor: str) -> tuple[int, int]:
    """Read a cursor of two numbers."""
    first, second = _numbers(cursor, 2)
    return first, second


def _numbers(cursor: str, count: int) -> list[int]:
    parts = cursor.split(".")
    digits = all(part.isascii() and part.isdecimal() and len(part) <= 18 for part in parts)
    if len(parts) != count or not digits:
        raise Invalid("the cursor is not one of ours: leave it out to begin at the start", field="cursor")
    return [int(part) for part in parts]
