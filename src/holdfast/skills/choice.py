"""The choice of skills by relevance: an index over a catalog, and the score of each skill for a conversation.

    "Draft me a short e-mail"      trigger `draft email`     10 points
    "スライドを10枚作って"            trigger `スライド 作`        10 points
    "I am happy with the app"      nothing                    0 points

Words are compared by their stem, never as parts of other words. The words of a trigger must occur in its order, near
each other, in one sentence; in Japanese, which has no spaces, the parts of a trigger are found in the text, and
katakana words only as a whole. A skill without triggers is found by its name and description. One word is not enough:
below `MIN_SCORE` nothing is chosen.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.skill import Skill
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
_SENTENCE_ENDS: Final = str.maketrans(dict.fromkeys(".!?。！？\n；", "\n"))
_GENERIC: Final = frozenset(
    terms(
        "use using used user ask asks asked request requests task work works working help helps make makes create "
        "creates want need needs skill skills thing things way time new good best write read file files text "
        "document documents content information data provide support include including based other tool tools agent "
        "one two several such before after first next open part parts point points place question"
    )
).union(
    {"a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "not", "of", "on", "or", "that"}
    | {"the", "this", "to", "what", "when", "who", "with", "without"}
)
"""Words in descriptions that say nothing about the kind of work."""
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
    skill: int
    label: str
    parts: tuple[str, ...]
    points: float


class _Evidence:
    """What speaks for one skill: triggers, and words of its name, tags and description."""

    def __init__(self) -> None:
        self.triggers: dict[_Trigger, float] = {}
        self.words: dict[str, tuple[float, str]] = {}

    def add_trigger(self, trigger: _Trigger, weight: float) -> None:
        """Count a trigger with the best of its weights."""
        self.triggers[trigger] = max(self.triggers.get(trigger, 0.0), weight * trigger.points)

    def add_word(self, word: str, points: float, label: str) -> None:
        """Count a word once, as the best that it stands for."""
        self.words[word] = max(self.words.get(word, (0.0, "")), (points, label))

    def points(self, *, max_word_points: float) -> tuple[float, dict[str, float]]:
        """Return the score and its parts: a word of a trigger, and a trigger within another one, do not count again."""
        kept: list[tuple[_Trigger, float]] = []
        for trigger, value in sorted(self.triggers.items(), key=lambda item: (-len(item[0].parts), -item[1])):
            if not any({*trigger.parts} <= {*other.parts} for other, _ in kept):
                kept.append((trigger, value))
        parts = {trigger.label: value for trigger, value in kept}
        strong = sum(parts.values())
        covered = {part for trigger in self.triggers for part in trigger.parts}
        words = {label: value for word, (value, label) in self.words.items() if word not in covered}
        return strong + min(sum(words.values()), max_word_points), {**parts, **words}


class SkillIndex:
    """An index over skills. It is built once, and used until the skills change."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.skills = list(skills)
        self._word_triggers: dict[str, list[_Trigger]] = defaultdict(list)
        """Triggers by the stem of their first word."""
        self._text_triggers: dict[str, list[_Trigger]] = defaultdict(list)
        """Triggers in scripts without spaces, by their first character."""
        self._words: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
        """Skills by a word of their name, tags or description, with its points and a label."""
        self._max_word_points: list[float] = []
        descriptions = [_description_words(skill) for skill in self.skills]
        counts = Counter(word for found in descriptions for word in found)
        for number, skill in enumerate(self.skills):
            triggers, name = _all_triggers(skill), skill.name.replace("-", " ").replace("_", " ")
            self._max_word_points.append(_MAX_WORD_POINTS if triggers else _MAX_UNTRIGGERED_POINTS)
            self._add_trigger(number, f"called `{name}`", name, points=_NAME_POINTS)
            for trigger in triggers:
                self._add_trigger(number, f"trigger `{trigger}`", trigger)
            for word in dict.fromkeys(word for tag in skill.tags for word in _words(tag)):
                self._words[word].append((number, _TAG_POINTS, f"tag `{word}`"))
            for word in dict.fromkeys(_words(name)):
                self._words[word].append((number, _NAME_WORD_POINTS, f"name `{word}`"))
            for word in descriptions[number]:
                rarity = 1 - math.log(counts[word]) / math.log(len(self.skills) + 1)
                if rarity > _MIN_RARITY:
                    self._words[word].append((number, _DESCRIPTION_POINTS * rarity, f"description `{word}`"))

    def choose(self, segments: Iterable[Segment]) -> list[ScoredSkill]:
        """Return the skills that fit, the best first; none if none fits well enough."""
        ranked = [each for each in self.score(segments) if each.score >= MIN_SCORE]
        enough = RELATIVE_MIN * ranked[0].score if ranked else 0.0
        return [each for each in ranked if each.score >= enough][:MAX_RELEVANT]

    def score(self, segments: Iterable[Segment]) -> list[ScoredSkill]:
        """Return every skill with a score above 0, the best first."""
        found: dict[int, _Evidence] = defaultdict(_Evidence)
        for segment in segments:
            text = fold(_clip(segment.text))
            weight = segment.weight * (_QUESTION_WEIGHT if _is_question(text) else 1.0)
            for sentence in text.translate(_SENTENCE_ENDS).split("\n"):
                self._read_sentence(sentence, weight, found)
        scored = [self._scored(number, evidence) for number, evidence in found.items()]
        return sorted(
            (each for each in scored if each.score > 0),
            key=lambda each: (-each.score, -each.skill.priority, each.skill.name),
        )

    def _scored(self, number: int, evidence: _Evidence) -> ScoredSkill:
        skill = self.skills[number]
        score, points = evidence.points(max_word_points=self._max_word_points[number])
        ranked = sorted(points.items(), key=lambda item: -item[1])
        reasons = [f"{label}: {value:.1f}" for label, value in ranked[:MAX_REASONS]]
        return ScoredSkill(skill=skill, score=round(score, 2), reasons=reasons)

    def _read_sentence(self, sentence: str, weight: float, found: dict[int, _Evidence]) -> None:
        words = _words(sentence)
        for position, word in enumerate(words):
            for number, points, label in self._words.get(word, ()):
                found[number].add_word(word, weight * points, label)
            for trigger in self._word_triggers.get(word, ()):
                if _follows(words, position, trigger.parts):
                    found[trigger.skill].add_trigger(trigger, weight)
        if not sentence.isascii():
            for first in set(sentence):
                for trigger in self._text_triggers.get(first, ()):
                    if _occurs(sentence, trigger.parts):
                        found[trigger.skill].add_trigger(trigger, weight)

    def _add_trigger(self, number: int, label: str, text: str, *, points: float | None = None) -> None:
        folded = fold(text).strip()
        strong = folded.endswith("!")
        folded = folded.rstrip("!")
        if any(map(_is_unspaced, folded)):
            parts = tuple(folded.split())
            strength = points or (_STRONG_POINTS if strong else _text_points(parts))
            self._text_triggers[parts[0][0]].append(_Trigger(number, label, parts, strength))
            return
        words = tuple(_words(folded))
        if words and (points is None or len(words) > 1):
            strength = points or (_STRONG_POINTS if strong else _TRIGGER_POINTS[min(len(words), 3) - 1])
            self._word_triggers[words[0]].append(_Trigger(number, label, words, strength))


def _description_words(skill: Skill) -> dict[str, None]:
    texts = [skill.description, *(text.description for text in skill.translations.values())]
    return dict.fromkeys(
        word for text in texts for word in _words(fold(text)) if len(word) > 1 and word not in _GENERIC
    )


def _all_triggers(skill: Skill) -> list[str]:
    every = [*skill.triggers, *(trigger for text in skill.translations.values() for trigger in text.triggers)]
    return list(dict.fromkeys(every))


def _words(text: str) -> list[str]:
    """Return the words of a folded text in order: stems, whole katakana words, and pairs of kanji."""
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
    stems = terms(word)
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


def _follows(words: Sequence[str], position: int, parts: Sequence[str]) -> bool:
    """Return whether the words of a trigger, whose first is at `position`, follow each other closely."""
    for part in parts[1:]:
        window = words[position + 1 : position + 2 + _MAX_WORD_GAP]
        if part not in window:
            return False
        position += 1 + window.index(part)
    return True


def _occurs(text: str, parts: Sequence[str]) -> bool:
    """Return whether the parts of a trigger occur in a text in their order, near each other."""
    start = -1
    while True:
        start = _find_word(text, parts[0], start + 1)
        if start < 0:
            return False
        end = start + len(parts[0])
        for part in parts[1:]:
            found = _find_word(text, part, end)
            if found < 0 or found - end > _MAX_TEXT_GAP:
                break
            end = found + len(part)
        else:
            return True


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


def _text_points(parts: Sequence[str]) -> float:
    """Return the points of a trigger: one noun is weak, a verb form or two parts are strong."""
    if len(parts) > 1:
        return _TRIGGER_POINTS[1]
    part = parts[0]
    is_verb = any("\u3041" <= each <= "\u3096" for each in part) and not all(
        "\u3041" <= each <= "\u3096" for each in part
    )
    return MIN_SCORE if is_verb and len(part) >= 3 else _TRIGGER_POINTS[0]
