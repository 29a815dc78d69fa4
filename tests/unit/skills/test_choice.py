"""Scores of skills: words and phrases, not parts of words; one word is not enough."""

import pytest

from holdfast.domain.ids import SkillId
from holdfast.domain.skill import Skill, SkillContent, SkillSource
from holdfast.skills.choice import MIN_SCORE, Segment, SkillIndex
from holdfast.skills.folder import as_skill


def skill(
    name: str, *triggers: str, description: str = "Do it.", priority: int = 0, tags: tuple[str, ...] = ()
) -> Skill:
    content = SkillContent(
        name=name, description=description, instructions="x", triggers=[*triggers], priority=priority, tags=[*tags]
    )
    return as_skill(content, id=SkillId(name), source=SkillSource.WORKSPACE)


def chosen(text: str, *skills: Skill, weight: float = 1.0) -> list[str]:
    return [each.skill.name for each in SkillIndex(skills).choose([Segment(text, weight)])]


@pytest.mark.parametrize(
    ("trigger", "text", "fits"),
    [
        ("app!", "I am happy", False),
        ("app!", "Build an app.", True),
        ("app!", "Build apps", True),
        ("draft email", "Draft a short e-mail? No, an email.", False),
        ("draft email", "Please draft me a short email to Ann", True),
        ("draft email", "the email that I did not draft", False),
        ("draft email", "Draft it. The email can wait.", False),
        ("draft email", "draft one of the many long and boring emails", False),
        ("look into", "Look into the matter", True),
        ("look into", "look at it", False),
        ("スライド 作", "スライドを10枚作って", True),
        ("スライド 作", "スライドガラスを作って", False),
        ("スライド 作", "オーバースライドを作って", False),
        ("作 スライド", "スライドを作って", False),
        ("レビューして", "プレビューして", False),
        ("レビューして", "これをレビューして", True),
        ("PR 見て", "PRを見てください", True),
        ("PR 見て", "SPRINGを見て", False),
        ("ＰＤＦ!", "pdf をください", True),
    ],
)
def test_a_trigger_is_found_as_words_near_each_other(trigger: str, text: str, fits: bool) -> None:
    assert (chosen(text, skill("it", trigger)) == ["it"]) is fits


def test_one_word_is_not_enough_and_two_are() -> None:
    made = skill("it", "invoice", "refund", tags=("billing",))
    assert chosen("an invoice", made) == []
    assert chosen("an invoice and a refund", made) == ["it"]
    assert chosen("an invoice for billing", made) == ["it"]


def test_a_word_counts_once_whatever_it_stands_for() -> None:
    made = skill("research", "research", description="Research things.", tags=("research",))
    assert chosen("my research group", made) == []


@pytest.mark.parametrize(
    "text", ["What is refactoring?", "What does 'refactor' mean?", "リファクタリングとは何ですか？"]
)
def test_a_question_about_a_word_is_not_a_request(text: str) -> None:
    made = skill("it", "refactor!", "リファクタリング!")
    assert chosen(text, made) == []
    assert chosen("What is wrong with this? Refactor it.", made) == ["it"]


def test_earlier_messages_count_less() -> None:
    made = skill("it", "draft email!", "email draft")
    assert chosen("draft email", made, weight=0.5) == []
    index = SkillIndex([made])
    scores = index.score([Segment("and shorter", 1.0), Segment("draft email", 0.6)])
    assert scores[0].score == pytest.approx(6.0) and scores[0].score < MIN_SCORE


def test_a_weaker_skill_is_not_chosen_beside_a_better_one() -> None:
    strong, weak = skill("a", "one two", "three four", "five six"), skill("b", "one two")
    assert chosen("one two three four five six", strong, weak) == ["a"]
    assert chosen("one two", strong, weak) == ["a", "b"]


def test_priority_decides_between_equals_and_at_most_three_are_chosen() -> None:
    skills = [skill(name, "one two", priority=number) for number, name in enumerate("abcde")]
    assert chosen("one two", *skills) == ["e", "d", "c"]


def test_reasons_say_what_the_score_consists_of() -> None:
    (scored,) = SkillIndex([skill("it", "draft email", tags=("letter",))]).choose(
        [Segment("draft an email or letter", 1)]
    )
    assert scored.reasons == ["trigger `draft email`: 10.0", "tag `letter`: 3.0"]
    assert scored.score == 13.0


def test_a_long_message_is_read_at_its_ends_only() -> None:
    made = skill("it", "draft email")
    assert chosen(f"draft an email\n{'word ' * 100_000}", made) == ["it"]
    assert chosen(f"{'word ' * 50_000} draft an email {'word ' * 50_000}", made) == []


@pytest.mark.parametrize(
    "text", ["draft a short letter", "word me an e-mail", "Compose the reply", "手紙を書いて", "返信を作って"]
)
def test_a_part_of_a_trigger_may_have_alternatives(text: str) -> None:
    made = skill("it", "draft|word|compose letter|e-mail|reply", "手紙|返信 書いて|作って")
    assert chosen(text, made) == ["it"]
    assert chosen("the letter that I drafted", made) == chosen("letter draft", made) == []


def test_alternatives_are_tried_until_all_parts_fit() -> None:
    made = skill("it", "make this|email sound")
    (scored,) = SkillIndex([made]).score([Segment("make this email to a friend sound nice", 1.0)])
    assert scored.reasons == ["trigger `make email sound`: 12.0"]


@pytest.mark.parametrize(
    "text",
    [
        "Where did I put the draft letter?",
        "Remind me to draft a letter",
        "translate: draft letter",
        "手紙を書いたのはいつだっけ",
    ],
)
def test_work_that_is_only_spoken_of_is_not_a_request(text: str) -> None:
    made = skill("it", "draft letter", "手紙 書い")
    assert chosen(text, made) == []
    assert chosen(f"{text}. Draft the letter.", made) == ["it"]
