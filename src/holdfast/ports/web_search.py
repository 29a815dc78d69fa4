"""A search of the web, by whichever engine the operator chose."""

from typing import Protocol

import msgspec


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One result. All of it is the words of others."""

    title: str
    url: str
    snippet: str = ""


class WebSearch(Protocol):
    """Searches the web."""

    async def search(self, query: str, *, limit: int) -> list[Found]:
        """Return up to `limit` results, the best first; none if nothing fits.

        An engine that cannot be reached, or answers with something else, raises `Unavailable`.
        """
