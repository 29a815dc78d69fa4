"""Replacing a passage of a text by another, and finding out what was replaced.

An edit that was cut off may have happened. Whether it has is known for certain: if taking it back gives the text that
it was made for, by its digest, it has.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from holdfast.domain.errors import Conflict, Invalid, NotFound

MAX_HASHED: Final = 256 * 1024 * 1024
"""Bytes that may be hashed to find the place of an edit."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return sha256(content).hexdigest()


def replaced(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    """Return `text` with `new` in the place of `old`, and how often; one place is meant unless it is `everywhere`."""
    if old == new:
        raise Invalid("`old` and `new` are the same: there is nothing to change", field="new")
    first = text.find(old)
    if first < 0:
        raise NotFound("`old` is not in the file: give it exactly as the file has it, without line numbers")
    if not everywhere and text.rfind(old) != first:
        raise Conflict("`old` is in the file more than once: give more of what is around it, or set `replace_all`")
    return text.replace(old, new), text.count(old)


def undone(content: bytes, old: bytes, new: bytes, *, everywhere: bool, was: str) -> bytes | None:
    """Return the content with the digest `was` in which an edit made `content`, or nothing if that cannot be found."""
    if everywhere:
        before = content.replace(new, old) if new else content
        return before if digest(before) == was else None
    budget = MAX_HASHED
    for place in _places(content, new):
        before = content[:place] + old + content[place + len(new) :]
        budget -= len(before)
        if budget < 0:
            return None
        if digest(before) == was:
            return before
    return None


def _places(content: bytes, new: bytes) -> Iterator[int]:
    place = content.find(new)
    while place >= 0:
        yield place
        place = content.find(new, place + 1)
