"""Passages: long texts are cut where sentences end, since a part of a message is found better than the whole."""

from typing import Final

MAX_PASSAGE_CHARS: Final = 900
MIN_PASSAGE_CHARS: Final = 300
"""A passage is not ended before this many characters, so that headings stay with what follows them."""
MAX_WHOLE_RESULT_CHARS: Final = 2_000
"""Characters of a tool result up to which all its passages are indexed; of a longer one the first and the last."""
MAX_PASSAGES: Final = 400
"""Passages of one text that are indexed: of a longer one, the first half and the last half of them."""

_ENDS: Final = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "、", "; ", ", ", " ")
"""Where a text may be cut, the best first."""


def split(text: str) -> list[tuple[int, int]]:
    """Return start and end of the passages of `text`, without the white space around them; none if it is blank."""
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(text):
        end = start + MAX_PASSAGE_CHARS
        if end < len(text):
            end = _cut(text, start + MIN_PASSAGE_CHARS, end)
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            begin = start + len(piece) - len(piece.lstrip())
            spans.append((begin, begin + len(stripped)))
        start = end
    if len(spans) > MAX_PASSAGES:
        half = MAX_PASSAGES // 2
        spans = spans[:half] + spans[-half:]
    return spans


def ends_only(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Return the passages of a tool result that are indexed."""
    if len(text) <= MAX_WHOLE_RESULT_CHARS or len(spans) <= 2:
        return spans
    return [spans[0], spans[-1]]


def _cut(text: str, low: int, high: int) -> int:
    """Return the best place to cut between `low` and `high`."""
    for end in _ENDS:
        found = text.rfind(end, low, high)
        if found >= 0:
            return found + len(end)
    return high
