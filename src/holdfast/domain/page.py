"""Pages of a list, with a cursor to the next page."""

from collections.abc import Callable, Iterable
from itertools import accumulate, takewhile
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.domain.errors import Invalid

T = TypeVar("T")

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 200
MAX_PAGE_CHARS: Final = 16 * 1024 * 1024
"""Characters of a page: its items are few, but clients choose how long each is."""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Items of one page; `next_cursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = None


def count_fitting(items: Iterable[T], chars: Callable[[T], int]) -> int:
    """Return how many of the first items fit into a page; one always does."""
    totals = accumulate(chars(item) for item in items)
    return max(1, sum(1 for _ in takewhile(lambda total: total <= MAX_PAGE_CHARS, totals)))


def check_page_size(limit: int, *, maximum: int = MAX_PAGE_SIZE) -> int:
    """Return `limit` if it is a valid page size."""
    if not 1 <= limit <= maximum:
        raise Invalid(f"`limit` must be between 1 and {maximum}", field="limit")
    return limit
