"""How well a message is recognised as being about a subject, on labelled messages in English and Japanese."""

from pathlib import Path
from typing import Final

import msgspec

from holdfast.domain.condition import DEFAULT_THRESHOLD, overlap_score
from holdfast.memory.analyser import terms
from holdfast.memory.static_vectors import static_vectors

SUBJECTS: Final = Path(__file__).parent / "subjects.json"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, messages about it in other words, and messages that share a word with it or nothing."""

    about: str
    near: list[str]
    other: list[str]


def test_vectors_find_twice_as_many_messages_as_words_do() -> None:
    subjects, tables = msgspec.json.decode(SUBJECTS.read_bytes(), type=list[Subject]), static_vectors()
    assert tables.notice is None
    about = tables.subjects([tables.tokens(each.about) for each in subjects])

    def scores(text: str) -> list[float]:
        return tables.similarities(about, tables.tokens(text))

    def by_words(about: str, text: str) -> bool:
        return overlap_score(terms(about), terms(text)) >= DEFAULT_THRESHOLD

    words = sum(by_words(each.about, text) for each in subjects for text in each.near)
    found = wrong = unrelated = 0
    for number, each in enumerate(subjects):
        for text in each.near:
            by_subject = [score >= DEFAULT_THRESHOLD for score in scores(text)]
            found += by_subject.pop(number)
            unrelated += sum(by_subject)
        wrong += sum(scores(text)[number] >= DEFAULT_THRESHOLD for text in each.other)
    assert (len(subjects), words) == (16, 9)
    assert found >= 18 and wrong <= 5 and unrelated == 0, (found, wrong, unrelated)


def test_unknown_words_and_empty_texts_are_near_to_nothing() -> None:
    tables = static_vectors()

    def similarities(subjects: list[str], text: str) -> list[float]:
        return tables.similarities(tables.subjects([tables.tokens(each) for each in subjects]), tables.tokens(text))

    assert similarities(["", "dog"], "") == [0.0, 0.0]
    assert similarities([], "dog") == []
    (empty, same) = similarities(["。！", "犬"], "犬が好き")
    assert empty == 0.0 and same > 0.99
