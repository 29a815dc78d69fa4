"""Rules that find statements worth keeping in a person's message, without a model.

Standing instructions (`always`, `never`, `from now on`), preferences and dated events are found as whole sentences, so
that a memory is a quotation. Code and quoted lines are somebody else's words, and are skipped. Names are found by
capitals, quotation marks, katakana and the look of identifiers.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from holdfast.domain.instant import Instant
from holdfast.domain.memory import MAX_ENTITY_CHARS, MemoryEntity
from holdfast.memory.dates import find_dates

MAX_RULE_TEXT_CHARS: Final = 4_000
"""Messages that are longer are documents, and are not searched for statements."""
MAX_STATEMENT_CHARS: Final = 600
MAX_STATEMENTS: Final = 5
"""Statements of one message."""
MAX_FOUND_ENTITIES: Final = 12


class StatementKind(StrEnum):
    """Kind of a statement that a rule finds."""

    STANDING = "standing"
    PREFERENCE = "preference"
    EVENT = "event"


class FoundStatement(NamedTuple):
    """A sentence of a message that says something worth keeping."""

    kind: StatementKind
    text: str
    start: int
    end: int


_CODE: Final = re.compile(r"```[^`]*(?:```|\Z)")
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>[^\n]*", re.M)
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+(?:\.(?=\S)[^.!?。！？\n]*)*[.!?。！？]*")

_STANDING: Final = re.compile(
    r"\b(?:always|never|from now on|from here on|going forward|in (?:the )?future|henceforth|whenever|every time|"
    r"each time|any time|at all times|as a rule|by default|until further notice|don't ever|do not ever|"
    r"make sure (?:to|that|you)|remember to|keep in mind|stop (?:using|adding|saying|calling|giving|asking|writing))\b"
    r"|いつも|必ず|常に|今後|これから|毎回|絶対|二度と|決して|くれぐれも",
    re.I,
)
_STANDING_REQUEST: Final = re.compile(
    r"\b(?:when|if) i (?:ask|mention|share|request|send|paste|post|bring up)\b(?! (?:him|her|them|my|our|people)\b)"
    r"|\b(?:in|for|with|to|of|end|start|begin) (?:all|every|each|any)(?: of)?(?: (?:your|my|our|the|future|further))* "
    r"(?:answers?|responses?|repl(?:y|ies)|questions?|requests?|code snippets?|conversations?)\b"
    r"|\b(?:keep|make|begin|start|end) your (?:answers?|responses?|repl(?:y|ies))\b"
    r"|\b(?:address|refer to) me as\b"
    r"|\b(?:do not|don't|no|avoid)(?: use| using| add| include)? (?:emojis?|exclamation marks?|jargon|slang)\b"
    r"|と呼んで|(?:返事|返答|回答|答え|説明)は[^。]{1,60}(?:ください|下さい|お願い|して)"
    r"|(?:とき|時|場合)は[^。]{1,80}(?:ください|下さい|お願い)|絵文字は?[^。]{0,20}ないで",
    re.I,
)
_NAMED: Final = re.compile(
    r"\b[Cc]all me (?:(?:Dr|Mr|Ms|Mrs)\.? )?(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)[A-Z][a-z]+\b"
)
_OF_SOMEBODY: Final = re.compile(
    r"\b(?:i|we|he|she|they|it|who|that|there|mom|mum|dad|people|my \w+|our \w+|his \w+|her \w+|their \w+)"
    r"(?:'(?:ve|d|s|m|re|ll)|\s+(?:have|had|has|was|were|is|am|are|would|will|can|could|did|do))?\s+"
    r"(?:almost |nearly )?(?:always|never)\b",
    re.I,
)
_DESCRIBED: Final = re.compile(
    r"(?:\b(?:not|is|are|was|were|be|been|have|has|had|will|would)|n['’]t|['’](?:s|re|ve|m|ll|d))\s+(?:always|never)\b"
    r"|^(?:nope|no|yes|well|so|and|but)?,?\s*(?:never|always)\s+(?:been|had|was|heard|seen|thought|wanted|tried|knew)\b"
    r"|^(?:they|he|she|it|we|i|those|these|this|that)\b[^,;:]*\band (?:always|never)\b",
    re.I,
)
_ADDRESSED: Final = re.compile(
    r"\b(?:please|you|your|answers?|respon(?:d|se|ses)|repl(?:y|ies)|i (?:ask|say|mention|request|share|send|paste)|"
    r"(?:give|tell|show|ask|send) me|from now on|going forward|i want|i need|i'd like|make sure)\b",
    re.I,
)
_JAPANESE_REQUEST: Final = re.compile(
    r"(?:ください|下さい|ほしい|欲しい|お願い|しないで|ないで|なさい|ように|こと|して|使って|答えて|書いて)"
    r"(?:です|します|いたします|致します|ます)?(?:くれ|ね|よ)?[。！!]?$"
)
_PREFERENCE: Final = re.compile(
    r"\bI(?:'d| would)? (?:really |also |generally |usually |much |always )?"
    r"(?:prefer|like|love|enjoy|hate|dislike|rather|can't stand|cannot stand)\b"
    r"|\bmy (?:favou?rite|preferred)\b|\bI(?:'m| am) (?:allergic|vegetarian|vegan|a fan of|fond of|into)\b"
    r"|好き|嫌い|苦手|お気に入り|ほうがいい|方がいい|アレルギー",
    re.I,
)
_FIRST_PERSON: Final = re.compile(r"\b(?:I|we|my|our|me|us)(?:'\w+)?\b|私|僕|俺|わたし|うち|自分")
_REQUEST_OPENING: Final = re.compile(
    r"^(?:please\s+)?(?:can|could|would|will|should|do|does|did|is|are|what|when|where|who|why|how|remind|tell|show|"
    r"find|give|list|summari[sz]e|write|make|help)\b",
    re.I,
)


def find_statements(text: str, *, at: Instant) -> list[FoundStatement]:
    """Return the standing instructions, preferences and dated events in a person's message, in its order."""
    if len(text) > MAX_RULE_TEXT_CHARS:
        return []
    found = []
    for start, end in _sentences(text):
        sentence = text[start:end]
        kind = statement_kind(sentence, at=at)
        if kind is not None and len(sentence) <= MAX_STATEMENT_CHARS:
            found.append(FoundStatement(kind, sentence, start, end))
    return found[:MAX_STATEMENTS]


def statement_kind(sentence: str, *, at: Instant) -> StatementKind | None:
    """Return the kind of a sentence that is worth keeping, or null."""
    if sentence.endswith(("?", "？")) or len(sentence) < 6:
        return None
    if _is_standing(sentence):
        return StatementKind.STANDING
    if _PREFERENCE.search(sentence):
        return StatementKind.PREFERENCE
    if _FIRST_PERSON.search(sentence) and not _REQUEST_OPENING.search(sentence) and find_dates(sentence, at=at):
        return StatementKind.EVENT
    return None


def own_sentences(text: str) -> list[str]:
    """Return the sentences of a text that are its author's own words."""
    return [text[start:end] for start, end in _sentences(text)]


def _is_standing(sentence: str) -> bool:
    if _STANDING_REQUEST.search(sentence) or _NAMED.search(sentence):
        return True
    match = _STANDING.search(sentence)
    if match is None:
        return False
    if not match[0].isascii():
        return _JAPANESE_REQUEST.search(sentence) is not None
    if match[0].lower() in ("always", "never") and _DESCRIBED.search(sentence):
        return False
    if _OF_SOMEBODY.search(sentence):
        return _ADDRESSED.search(_OF_SOMEBODY.sub("", sentence)) is not None and "you" in sentence.lower()
    if match[0].lower() in (
        "whenever",
        "every time",
        "each time",
        "any time",
        "in the future",
        "in future",
        "by default",
    ):
        return _ADDRESSED.search(sentence) is not None
    return True


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the sentences that are the author's own words, without surrounding space."""
    skipped = sorted(match.span() for pattern in (_CODE, _QUOTED_LINE) for match in pattern.finditer(text))
    passed = 0
    for match in _SENTENCE.finditer(text):
        start, end = match.span()
        while passed < len(skipped) and skipped[passed][1] <= start:
            passed += 1
        if passed < len(skipped) and skipped[passed][0] < end:
            continue
        sentence = text[start:end]
        start += len(sentence) - len(sentence.lstrip(" \t-*•#"))
        end -= len(sentence) - len(sentence.rstrip())
        if start < end:
            yield start, end


_ENTITY_PATTERNS: Final = (
    re.compile(r"[\"“「『]([^\"“”「」『』\n]{2,60})[\"”」』]"),
    re.compile(r"`([^`\n]{2,60})`"),
    re.compile(r"\b([A-Z][\w&'’-]+(?:\s+(?:(?:of|de|van|von|der|the)\s*)?[A-Z][\w&'’-]+){0,4})"),
    re.compile(
        r"\b([A-Za-z]+[A-Z]\w*|[A-Za-z]\w*[_/]\w[\w/.]*|[A-Z]{2,}[-_]?\d+|[A-Z]{2,}|\w+\.(?:py|md|json|ts|js|com|org))\b"
    ),
    re.compile(r"([ァ-ヴー・]{3,30})"),
)
_NOT_NAMES_TEXT: Final = """
a an the this that these those it he she we they you i i'm i've i'd i'll my your our his her their and but or so if
when while what where who why how yes no ok okay please thanks thank hi hello hey always never from now also then
today tomorrow yesterday there here not do does did is are was were can could would should will just let in on at
for to of with monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december use make after before every each any some one since until as by what's
"""
_NOT_NAMES: Final = frozenset(_NOT_NAMES_TEXT.split())


_QUOTES: Final = frozenset('"“「『`')


def find_entities(text: str) -> list[MemoryEntity]:
    """Return the names in a text, in its order."""
    found: dict[str, tuple[int, str]] = {}
    taken: list[tuple[int, int]] = []
    for pattern in _ENTITY_PATTERNS:
        for match in pattern.finditer(text):
            if any(match.start(1) < end and start < match.end(1) for start, end in taken):
                continue
            words = match[1].split()
            while words and match[0][0] not in _QUOTES and words[0].lower().strip("'’") in _NOT_NAMES:
                words = words[1:]
            label = " ".join(words).strip(" .,'’-・")[:MAX_ENTITY_CHARS]
            if len(label) < 2 or label.lower() in _NOT_NAMES:
                continue
            taken.append(match.span(1))
            found.setdefault(label.casefold(), (match.start(1), label))
    labels = [label for _, label in sorted(found.values())]
    return [MemoryEntity(label=label) for label in labels[:MAX_FOUND_ENTITIES]]
