"""How a tool is found by what it does: the words of a query in names and descriptions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.domain.tool import ToolSpec

_WORD: Final = re.compile(r"[^\W_]+")
_IN_NAME: Final = 4
_IN_DESCRIPTION: Final = 2
_IN_PARAMETER: Final = 1


def find(query: str, specs: Iterable[ToolSpec], *, limit: int) -> list[ToolSpec]:
    """Return up to `limit` tools that fit the query, the best first; equals by name."""
    wanted = set(_words(query))
    scored = [(_score(wanted, spec), spec) for spec in specs]
    fitting = sorted(((-score, spec.name, spec) for score, spec in scored if score), key=lambda found: found[:2])
    return [spec for _, _, spec in fitting[:limit]]


def _score(wanted: set[str], spec: ToolSpec) -> int:
    parameters = spec.parameters.get("properties", {})
    fields = (
        (_IN_NAME, spec.name),
        (_IN_DESCRIPTION, spec.description),
        (_IN_PARAMETER, " ".join(parameters) if isinstance(parameters, dict) else ""),
    )
    return sum(weight * _matches(wanted, list(_words(text))) for weight, text in fields)


def _matches(wanted: Iterable[str], words: Sequence[str]) -> int:
    """Return how well the words fit: twice for a word itself, once for one that begins with it or the other way."""
    return sum(2 if word in words else int(any(_akin(word, other) for other in words)) for word in wanted)


def _akin(word: str, other: str) -> bool:
    shorter, longer = sorted((word, other), key=len)
    return len(shorter) >= 3 and longer.startswith(shorter)


def _words(text: str) -> Iterator[str]:
    for found in _WORD.findall(text.casefold()):
        yield from _bigrams(found) if _unspaced(found) else (found,)


def _unspaced(word: str) -> bool:
    """Whether it is of a script that puts no spaces between words: then pairs of characters stand for them."""
    return any("\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3" for character in word)


def _bigrams(text: str) -> list[str]:
    return [text[at : at + 2] for at in range(len(text) - 1)] or [text]
