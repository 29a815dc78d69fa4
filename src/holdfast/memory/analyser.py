"""Analyser: turns text into the terms that lexical search compares.

    "2012年に東京で the meetings"  ->  2012 · 年 · 年に · 東 · 京 · 東京 · 京で · meet

Words are folded in case and width, stop words are dropped and English words are stemmed. Scripts that are written
without spaces become overlapping 1- and 2-grams; those of hiragana alone are grammar and are dropped. Letters never
run into such a script, so that `2012` is found in `2012年`.
"""

import re
from functools import cache, lru_cache
from threading import Lock
from typing import Any, Final

from holdfast.domain.validation import normalize_text

ANALYSER_ID: Final = "holdfast-2"
"""Changes whenever the same text would give other terms or stored vectors, so that an older index is rebuilt."""

MAX_TERM_CHARS: Final = 64
"""Characters of a term; the rest of a longer word is cut off."""

UNSPACED_CHARS: Final = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana and their marks
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
WORDS: Final = re.compile(r"[^\W_]+")
_TOKEN: Final = re.compile(
    rf"([{UNSPACED_CHARS}]+)|((?:(?![{UNSPACED_CHARS}])[^\W_])+(?:['\u2019](?:(?![{UNSPACED_CHARS}])[^\W_])+)*)"
)
_HIRAGANA: Final = re.compile("[\u3041-\u309f\u30fc]+")
_STOP_WORDS_TEXT: Final = """
a about after again all also am an and any are aren't as at be because been before being between both but by can
can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from further get got
had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his how
how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's me more most my myself no nor not of
off on once only or other ought our ours ourselves out over own same shan't she she'd she'll she's should
shouldn't so some such than that that's the their theirs them themselves then there there's these they they'd
they'll they're they've this those through to too under until up us very was wasn't we we'd we'll we're we've
were weren't what what's when when's where where's which while who who's whom why why's will with won't would
wouldn't you you'd you'll you're you've your yours yourself yourselves
"""
_STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())
_STEMMER_LOCK: Final = Lock()  # a stemmer keeps its word in itself, and the store's threads share this one


@cache
def _stemmer() -> Any:
    import snowballstemmer  # on first use: it loads the rules of all languages, which take 3 MB

    return snowballstemmer.stemmer("english")


def terms(text: str) -> list[str]:
    """Return the terms of `text` in its order, repeated as often as they occur."""
    found: list[str] = []
    for match in _TOKEN.finditer(fold(text)):
        unspaced, word = match.groups()
        if unspaced is not None:
            found += _grams(unspaced)
        elif (term := _stem(word)) is not None:
            found.append(term)
    return found


def matches(text: str, wanted: frozenset[str]) -> list[tuple[int, int]]:
    """Return start and end of the places of `text` that give one of the `wanted` terms; those that touch are joined."""
    spans: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        unspaced, word = match.groups()
        if word is not None:
            if _stem(fold(word)) in wanted:
                spans.append(match.span())
            continue
        for start in range(len(unspaced)):
            size = next((size for size in (2, 1) if fold(unspaced[start : start + size]) in wanted), 0)
            if size and start + size <= len(unspaced):
                spans.append((match.start() + start, match.start() + start + size))
    joined: list[tuple[int, int]] = []
    for low, high in spans:
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def fold(text: str) -> str:
    """Return `text` without differences of case and width."""
    return text.lower() if text.isascii() else normalize_text(text).lower()


def _grams(run: str) -> list[str]:
    """Return the 1- and 2-grams of an unspaced run that are more than hiragana."""
    grams = [gram for start in range(len(run)) for gram in (run[start], run[start : start + 2])]
    grams.pop()  # the last character has no successor: its 2-gram is its 1-gram
    return [gram for gram in grams if _HIRAGANA.fullmatch(gram) is None]


def drop_words() -> None:
    """Drop the words whose stems are kept, so that no word of a forgotten text stays in memory."""
    _stem.cache_clear()


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str | None:
    """Return the stem of a folded word, or `None` for a stop word."""
    word = word.replace("\u2019", "'")
    if word in _STOP_WORDS:
        return None
    with _STEMMER_LOCK:
        return str(_stemmer().stemWord(word.removesuffix("'s")[:MAX_TERM_CHARS]))
