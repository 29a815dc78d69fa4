"""Cursors that are a number."""

from holdfast.domain.errors import Invalid

_DIGITS = 15


def number_of(cursor: str) -> int:
    """Return the number that a cursor of ours is."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= _DIGITS):
        raise Invalid("the cursor is not one of ours: leave it out to begin at the start", field="cursor")
    return int(cursor)
