"""Excerpts: the part of a text that shows best why it was found, with the places that match the query."""

from typing import Final

import msgspec

from holdfast.memory.analyser import matches, terms

EXCERPT_CHARS: Final = 240
_LEAD_CHARS: Final = 60
"""Characters that are shown before the first match."""


class Highlight(msgspec.Struct, frozen=True, kw_only=True):
    """A place in an excerpt that matches the query, in characters."""

    start: int
    end: int


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text, and the places in it that match the query."""

    text: str
    highlights: list[Highlight]


def excerpt(text: str, query: str) -> Excerpt:
    """Return the part of `text` around its first dense group of matches; without one, its beginning."""
    wanted = frozenset(terms(query))
    spans = matches(text, wanted)
    start = _best_start(spans)
    start = max(min(start - _LEAD_CHARS, len(text) - EXCERPT_CHARS), 0)
    if start:
        space = text.find(" ", start, start + _LEAD_CHARS // 2)
        start = space + 1 if space >= 0 else start
    end = min(start + EXCERPT_CHARS, len(text))
    marked = [(low - start, high - start) for low, high in spans if start <= low and high <= end]
    lead, trail = ("…" if start else ""), ("…" if end < len(text) else "")
    shift = len(lead)
    highlights = [Highlight(start=low + shift, end=high + shift) for low, high in marked]
    return Excerpt(text=f"{lead}{text[start:end]}{trail}", highlights=highlights)


def _best_start(spans: list[tuple[int, int]]) -> int:
    """Return the first match of the excerpt that shows the most matches."""
    best, most = 0, 0
    for at, (low, _) in enumerate(spans):
        shown = sum(high <= low - _LEAD_CHARS + EXCERPT_CHARS for _, high in spans[at:])
        if shown > most:
            best, most = low, shown
    return best
