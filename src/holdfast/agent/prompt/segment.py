"""A segment: a part of the system prompt with a name and a length."""

from functools import lru_cache
from typing import Final

import msgspec

from holdfast.agent.prompt.texts import filled, text
from holdfast.domain.context import text_digest
from holdfast.domain.untrusted import fence_text
from holdfast.ports.model import TokenCounter

KEPT: Final = 128
"""How many measured segments are kept: those of an agent are the same for every call."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the system prompt."""

    name: str
    text: str
    digest: str
    tokens: int


class Segments:
    """Makes segments; what it measured lately it does not measure again."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._filled = lru_cache(maxsize=KEPT)(self._fill)
        self._quoted = lru_cache(maxsize=KEPT)(self._quote)

    def plain(self, name: str, said: str) -> Segment:
        """Return the segment that says just that."""
        return Segment(name=name, text=said, digest=text_digest(said), tokens=self._tokens.count(said))

    def standing(self, name: str) -> Segment:
        """Return the segment of the text of that name."""
        return self.plain(name, text(name))

    def filled(self, name: str, **values: str) -> Segment:
        """Return the segment of the text of that name with `{values}` in place, which are likely to come again."""
        return self._filled(name, **values)

    def quoted(self, name: str, said: str, *, tag: str) -> Segment:
        """Return the text of that name, and what somebody else wrote between tags that it cannot close."""
        return self._quoted(name, said, tag)

    def _fill(self, name: str, **values: str) -> Segment:
        return self.plain(name, filled(name, **values))

    def _quote(self, name: str, said: str, tag: str) -> Segment:
        return self.plain(name, f"{text(name)}\n{fence_text(said.strip(), tag=tag)}")
