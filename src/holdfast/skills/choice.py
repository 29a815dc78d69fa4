"""The choice of skills by relevance: an index over a catalog, and the score of each skill for a conversation.

    "Draft me a short e-mail"      trigger `draft email`     10 points
    "Word a note to my landlord"   trigger `write|word note`  10 points
    "スライドを10枚作って"            trigger `スライド 作`        10 points
    "I am happy with the app"      nothing                    0 points

Words are compared by their stem, never as parts of other words. The words of a trigger, each one of the alternatives
that `|` separates, must occur in its order, near each other, in one sentence; in Japanese, which has no spaces, the
parts of a trigger are found in the text, and katakana words only as a whole. A skill without triggers is found by its
name and description. One word is not enough: below `MIN_SCORE` nothing is chosen.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.skill import MAX_TRIGGER_CHARS, Skill
from holdfast.memory.analyser import fold, terms

MIN_SCORE: Final = 9.0
RELATIVE_MIN: Final = 0.6
"""A skill is chosen beside a better one only with this part of its score."""
MAX_RELEVANT: Final = 3
"""Skills that are chosen at once."""
MAX_SEGMENT_CHARS: Final = 4_000
"""Characters of a segment that are read: half from its beginning, half from its end."""
MAX_REASONS: Final = 8

_TRIGGER_POINTS: Final = (6.0, 10.0, 12.0)
"""Points of a trigger with one, two, or more words."""
_NAME_POINTS: Final = 12.0
_NAME_WORD_POINTS: Final = 3.0
_TAG_POINTS: Final = 3.0
_DESCRIPTION_POINTS: Final = 2.5
_MAX_WORD_POINTS: Final = 5.0
"""Points of all single words of a skill together."""
_MAX_UNTRIGGERED_POINTS: Final = 10.0
"""The same for a skill without triggers, which is found by nothing else."""
_MIN_RARITY: Final = 0.3
"""A word that many descriptions share does not count."""
_STRONG_POINTS: Final = 10.0
"""Points of a trigger that is enough by itself: it ends with `!`."""
_QUESTION_WEIGHT: Final = 0.5
"""The weight of a short question about a thing, which is not a request to do it."""
_MAX_QUESTION_WORDS: Final = 8
_MAX_WORD_GAP: Final = 3
_MAX_TEXT_GAP: Final = 12
_MAX_PARTS: Final = 6
_MAX_ALTERNATIVES: Final = 64
_MAX_TRIES: Final = 4
"""What is compared of a trigger, and how often it is tried in a sentence: anybody may write one, for any text."""
_ASCII_WORD: Final = re.compile(r"[A-Za-z0-9';]+")
_SENTENCE_ENDS: Final = str.maketrans(dict.fromkeys(".!?。！？\n；", "\n"))
_GENERIC_TEXT: Final = (
    "use using used user ask asks asked request requests task work works working help helps make makes create "
    "creates want need needs skill skills thing things way time new good best write read file files text "
    "document documents content information data provide support include including based other tool tools agent "
    "one two several such before after first next open part parts point points place question"
)
_GENERIC_WORDS: Final = (
    "a an and are as at be by for from in is it not of on or that the this to what when who with without"
)
_QUESTION_STARTS: Final = (
    "what is ",
    "what are ",
    "what does ",
    "what do ",
    "what's ",
    "who is ",
    "who are ",
    "when is ",
    "when was ",
    "where is ",
    "why is ",
    "why do ",
    "define ",
    "what was ",
)
_REFERENCES: Final = frozenset({"this", "these", "attached", "our", "my", "above", "following", "discussed"})
"""Words that refer to something at hand: such a question is about it, and not about words."""
_QUESTION_PARTS: Final = (
    "どういう意味",
    "とは何",
    "とはなん",
    "って何",
    "ってなに",
    "の意味",
    "とはどういう",
    "何ですか",
    "なんですか",
    "とは?",
    "とは？",
)


_OTHER_STARTS: Final = (
    "where did ",
    "where is ",
    "where are ",
    "when did ",
    "when is ",
    "what year ",
    "how many ",
    "has ",
    "have you ",
    "did ",
    "who wrote ",
    "who made ",
    "remind me ",
    "translate",
    "send the ",
    "forward the ",
    "delete the ",
    "open the ",
)
_OTHER_PARTS: Final = (
    "どこに",
    "どこへ",
    "どこです",
    "っけ",
    "リマインド",
    "思い出させ",
    "何通",
    "何件",
    "」って",
)
"""What begins or marks a sentence that asks about work that is done, or for something else than the work itself."""


@cache
def _generic_terms() -> frozenset[str]:
    """Return the words in descriptions that say nothing about the kind of work."""
    return frozenset(terms(_GENERIC_TEXT)).union(_GENERIC_WORDS.split())


class Segment(NamedTuple):
    """A text of the conversation, and how much it counts."""

    text: str
    weight: float


class ScoredSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with its relevance, and what the score consists of."""

    skill: Skill
    score: float
    reasons: list[str]


class _Trigger(NamedTuple):
    """A trigger: for each of its parts the alternatives, as they are compared and as they are shown."""

    skill: int
    kind: str
    parts: tuple[Mapping[str, str], ...]
    points: float

    def label(self, matched: Sequence[str]) -> str:
        """Return what is shown as the reason."""
        shown = " ".join(part[each] for part, each in zip(self.parts, matched, strict=True))
        return f"{self.kind} `{shown}`"


class _Evidence:
    """What speaks for one skill: triggers, and words of its name, tags and description."""

    def __init__(self) -> None:
        self.triggers: dict[tuple[str, ...], tuple[float, str]] = {}
        """Points and label by the words that were found."""
        self.words: dict[str, tuple[float, str]] = {}

    def add_trigger(self, trigger: _Trigger, matched: tuple[str, ...], weight: float) -> None:
        """Count what was found of a trigger once, with the best of its points."""
        points = (weight * trigger.points, trigger.label(matched))
        self.triggers[matched] = max(self.triggers.get(matched, (0.0, "")), points)

    def add_word(self, word: str, points: float, label: str) -> None:
        """Count a word once, as the best that it stands for."""
        self.words[word] = max(self.words.get(word, (0.0, "")), (points, label))

    def points(self, *, max_word_points: float) -> tuple[float, dict[str, float]]:
        """Return the score and its parts: no word counts twice, neither in two triggers nor beside one."""
        parts: dict[str, float] = {}
        covered: set[str] = set()
        for matched, (value, label) in sorted(self.triggers.items(), key=lambda item: (-len(item[0]), -item[1][0])):
            if covered.isdisjoint(matched):
                parts[label] = value
            covered.update(matched)
        strong = sum(parts.values())
        words = {label: value for word, (value, label) in self.words.items() if word not in covered}
        return strong + min(sum(words.values()), max_word_points), {**parts, **words}


class SkillIndex:
    """An index over skills. It is built once, and used until the skills change."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.skills = list(skills)
        self._word_triggers: dict[str, list[_Trigger]] = defaultdict(list)
        """Triggers by each stem of the part that the fewest others contain: one that cannot match costs nothing."""
        self._text_triggers: dict[str, list[_Trigger]] = defaultdict(list)
        """Triggers in scripts without spaces, by their first character."""
        self._words: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
        """Skills by a word of their name, tags or description, with its points and a label."""
        self._max_word_points: list[float] = []
        pending: list[_Trigger] = []
        descriptions = [_description_words(skill) for skill in self.skills]
        counts = Counter(word for found in descriptions for word in found)
        for number, skill in enumerate(self.skills):
            triggers, name = _all_triggers(skill), skill.name.replace("-", " ").replace("_", " ")
            self._max_word_points.append(_MAX_WORD_POINTS if triggers else _MAX_UNTRIGGERED_POINTS)
            pending += self._add_trigger(number, "called", name, points=_NAME_POINTS)
            for trigger in triggers:
                pending += self._add_trigger(number, "trigger", trigger)
            for word in dict.fromkeys(word for tag in skill.tags for word in _words(tag)):
                self._words[word].append((number, _TAG_POINTS, f"tag `{word}`"))
            for word in dict.fromkeys(_words(name)):
                self._words[word].append((number, _NAME_WORD_POINTS, f"name `{word}`"))
            for word in descriptions[number]:
                rarity = 1 - math.log(counts[word]) / math.log(len(self.skills) + 1)
                if rarity > _MIN_RARITY:
                    self._words[word].append((number, _DESCRIPTION_POINTS * rarity, f"description `{word}`"))
        self._add_word_triggers(pending)

    def choose(self, segments: Iterable[Segment]) -> list[ScoredSkill]:
        """Return the skills that fit, the best first; none if none fits well enough."""
        ranked = self.score(segments, least=MIN_SCORE)
        enough = RELATIVE_MIN * ranked[0].score if ranked else 0.0
        return [each for each in ranked if each.score >= enough][:MAX_RELEVANT]

    def score(self, segments: Iterable[Segment], *, least: float = 0.01) -> list[ScoredSkill]:
        """Return every skill with at least such a score, the best first."""
        found: dict[int, _Evidence] = defaultdict(_Evidence)
        for segment in segments:
            text = fold(_clip(segment.text))
            weight = segment.weight * (_QUESTION_WEIGHT if _is_question(text) else 1.0)
            for sentence in text.translate(_SENTENCE_ENDS).split("\n"):
                self._read_sentence(sentence, weight * _sentence_weight(sentence), found)
        scored = [self._scored(number, evidence, least) for number, evidence in found.items()]
        return sorted(
            (each for each in scored if each is not None),
            key=lambda each: (-each.score, -each.skill.priority, each.skill.name),
        )

    def _scored(self, number: int, evidence: _Evidence, least: float) -> ScoredSkill | None:
        exact, points = evidence.points(max_word_points=self._max_word_points[number])
        score = round(exact, 2)
        if score < least:
            return None
        ranked = sorted(points.items(), key=lambda item: -item[1])
        reasons = [f"{label}: {value:.1f}" for label, value in ranked[:MAX_REASONS]]
        return ScoredSkill(skill=self.skills[number], score=score, reasons=reasons)

    def _read_sentence(self, sentence: str, weight: float, found: dict[int, _Evidence]) -> None:
        words = _words(sentence)
        places: dict[str, list[int]] = {}
        for place, word in enumerate(words):
            places.setdefault(word, []).append(place)
        for word in places:
            for number, points, label in self._words.get(word, ()):
                found[number].add_word(word, weight * points, label)
            for trigger in self._word_triggers.get(word, ()):
                for matched in _matches(words, places, trigger.parts):
                    found[trigger.skill].add_trigger(trigger, matched, weight)
        if not sentence.isascii():
            for first in dict.fromkeys(sentence):  # in their order: which of two triggers covers a word depends on it
                for trigger in self._text_triggers.get(first, ()):
                    if matched := _occurs(sentence, trigger.parts):
                        found[trigger.skill].add_trigger(trigger, matched, weight)

    def _add_trigger(self, number: int, kind: str, text: str, *, points: float | None = None) -> Iterator[_Trigger]:
        """Index a trigger in a script without spaces, or return it to be indexed with all others."""
        folded = fold(text).strip()
        strong = folded.endswith("!")
        unspaced = any(map(_is_unspaced, folded))
        words = folded.rstrip("!").split()
        parts = [part for each in words for part in _parts(each, unspaced=unspaced) if part][:_MAX_PARTS]
        if not parts or (points is not None and len(parts) == 1 and not unspaced):
            return
        given = points or (_STRONG_POINTS if strong else None)
        if not unspaced:
            yield _Trigger(number, kind, tuple(parts), given or _TRIGGER_POINTS[min(len(parts), 3) - 1])
            return
        for first, shown in parts[0].items():
            trigger = _Trigger(number, kind, ({first: shown}, *parts[1:]), given or _text_points(first, len(parts)))
            self._text_triggers[first[0]].append(trigger)

    def _add_word_triggers(self, triggers: Sequence[_Trigger]) -> None:
        counts = Counter(word for trigger in triggers for part in trigger.parts for word in part)
        for trigger in triggers:
            rarest = min(trigger.parts, key=lambda part: sum(counts[word] for word in part))
            for word in rarest:
                self._word_triggers[word].append(trigger)


def _description_words(skill: Skill) -> dict[str, None]:
    texts = [skill.description, *(text.description for text in skill.translations.values())]
    return dict.fromkeys(
        word for text in texts for word in _words(fold(text)) if len(word) > 1 and word not in _generic_terms()
    )


def _all_triggers(skill: Skill) -> list[str]:
    every = [*skill.triggers, *(trigger for text in skill.translations.values() for trigger in text.triggers)]
    return list(dict.fromkeys(every))


def _words(text: str) -> list[str]:
    """Return the words of a folded text in order: stems, whole katakana words, and pairs of kanji."""
    if text.isascii():
        return [_stem(word) for word in _ASCII_WORD.findall(text)]
    found: list[str] = []
    for kind, run in groupby(text, key=_character_kind):
        if kind == "word":
            found.append(_stem("".join(run)))
        elif kind == "katakana":
            found.append("".join(run))
        elif kind == "kanji":
            characters = "".join(run)
            found += [characters[at : at + 2] for at in range(len(characters) - 1)]
    return found


@lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    """Return the stem of a word; words that a search would leave out are kept, since phrases consist of them too."""
    stems = terms(word) if word.isalpha() else ()
    return stems[0] if stems else word


@lru_cache(maxsize=20_000)
def _character_kind(character: str) -> str:
    if _is_katakana(character):
        return "katakana"
    if "\u3400" <= character <= "\u9fff" or character == "\u3005":
        return "kanji"
    if "\u3041" <= character <= "\u309f":
        return "hiragana"
    return "word" if character.isalnum() or character in "';" else "other"


def _clip(text: str) -> str:
    half = MAX_SEGMENT_CHARS // 2
    return text if len(text) <= MAX_SEGMENT_CHARS else f"{text[:half]}\n{text[-half:]}"


def _is_question(text: str) -> bool:
    """Return whether a folded text only asks what something is."""
    start = text.lstrip()
    if start.startswith(_QUESTION_STARTS):
        words = text.replace("?", " ").split()
        return len(words) <= _MAX_QUESTION_WORDS and _REFERENCES.isdisjoint(words)
    return not text.isascii() and len(text) <= 40 and any(part in text for part in _QUESTION_PARTS)


def _parts(text: str, *, unspaced: bool) -> list[dict[str, str]]:
    """Return the alternatives of a part of a trigger by what is compared: the text itself, or the stem of a word.

    Of an alternative with a hyphen, its last word is compared; one without alternatives stands for all its words.
    """
    alternatives = [each for each in text.split("|") if each][:_MAX_ALTERNATIVES]
    if unspaced:
        return [{each: each for each in alternatives}]
    words = _words(text)
    if len(alternatives) == 1:
        return [{words[0]: text}] if len(words) == 1 else [{word: word} for word in words]
    return [{words[-1]: each for each in alternatives if (words := _words(each))}]


def _sentence_weight(sentence: str) -> float:
    """Return less for a sentence that asks about a thing that is there, or for something else to be done with it."""
    start = sentence.lstrip()
    elsewhere = start.startswith(_OTHER_STARTS) or (not start.isascii() and any(part in start for part in _OTHER_PARTS))
    return _QUESTION_WEIGHT if elsewhere else 1.0


def _matches(
    words: Sequence[str], places: Mapping[str, list[int]], parts: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, ...]]:
    """Yield the words of a trigger wherever they follow each other closely; `places` are those of each word."""
    starts = [
        place for found in sorted(places[word] for word in parts[0] if word in places) for place in found[:_MAX_TRIES]
    ]
    yield from filter(None, (_follows(words, start, parts) for start in starts))


def _follows(words: Sequence[str], position: int, parts: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the words of a trigger, whose first is at `position`, if they follow each other closely."""
    reached: dict[int, tuple[str, ...]] = {position: (words[position],)}
    for part in parts[1:]:
        following: dict[int, tuple[str, ...]] = {}
        for at, matched in reached.items():
            for place in range(at + 1, min(at + 2 + _MAX_WORD_GAP, len(words))):
                if words[place] in part and place not in following:
                    following[place] = (*matched, words[place])
        reached = following
    return next(iter(reached.values()), ())


def _occurs(text: str, parts: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return what occurs of a trigger in a text, if its parts do in their order, near each other."""
    (first,) = parts[0]
    start = -1
    for _ in range(_MAX_TRIES):
        start = _find_word(text, first, start + 1)
        if start < 0:
            break
        end, matched = start + len(first), [first]
        for part in parts[1:]:
            within = text[: end + _MAX_TEXT_GAP + MAX_TRIGGER_CHARS]
            places = [(found, each) for each in part if (found := _find_word(within, each, end)) >= 0]
            nearest, each = min(places, default=(len(text), ""))
            if not each or nearest - end > _MAX_TEXT_GAP:
                break
            end = nearest + len(each)
            matched.append(each)
        else:
            return tuple(matched)
    return ()


def _find_word(text: str, part: str, start: int) -> int:
    """Return the position of a part that is not within a longer katakana or Latin word, or -1."""
    while (found := text.find(part, start)) >= 0:
        before, after = text[found - 1 : found] if found else "", text[found + len(part) : found + len(part) + 1]
        if not _joined(before, part[0]) and not _joined(part[-1], after):
            return found
        start = found + 1
    return -1


def _joined(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to one word."""
    if not left or not right:
        return False
    return (_is_katakana(left) and _is_katakana(right)) or (
        left.isascii() and right.isascii() and left.isalnum() and right.isalnum()
    )


def _is_katakana(character: str) -> bool:
    return "\u30a1" <= character <= "\u30ff"


def _is_unspaced(character: str) -> bool:
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


def _text_points(first: str, count: int) -> float:
    """Return the points of a trigger of so many parts: one noun is weak, a verb form or two parts are strong."""
    if count > 1:
        return _TRIGGER_POINTS[1]
    kana = ["\u3041" <= each <= "\u3096" for each in first]
    is_verb = any(kana) and not all(kana)
    return MIN_SCORE if is_verb and len(first) >= 3 else _TRIGGER_POINTS[0]
