"""Pages of a list, with a cursor to the next page."""

from typing import Final, Generic, TypeVar

import msgspec

from holdfast.domain.errors import Invalid

T = TypeVar("T")

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 200


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Items of one page; `next_cursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = None


def check_page_size(limit: int, *, maximum: int = MAX_PAGE_SIZE) -> int:
    """Return `limit` if it is a valid page size."""
    if not 1 <= limit <= maximum:
        raise Invalid(f"`limit` must be between 1 and {maximum}", field="limit")
    return limit
