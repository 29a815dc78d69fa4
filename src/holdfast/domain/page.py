"""A page of a list, and where the next one begins."""

from typing import Final, Generic, TypeVar

import msgspec

from holdfast.domain.errors import Invalid

T = TypeVar("T")

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 200


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some items, and the cursor to ask for more with; no cursor, no more."""

    items: list[T]
    next_cursor: str | None = None


def check_page_size(limit: int, *, maximum: int = MAX_PAGE_SIZE) -> int:
    """Return `limit` if a page may be that long."""
    if not 1 <= limit <= maximum:
        raise Invalid(f"`limit` must be between 1 and {maximum}", field="limit")
    return limit
