"""Rules find standing instructions, preferences, dated events and names, and leave other people's words alone."""

import pytest

from holdfast.domain.instant import Instant
from holdfast.memory.rules import MAX_RULE_TEXT_CHARS, StatementKind, find_entities, find_statements, own_sentences

AT = Instant("2026-11-18T10:00:00.000Z")

STANDING = [
    "When I ask about recipes, give me vegetarian options only.",
    "Whenever I share code, point out security issues first.",
    "In every response, start with a summary.",
    "Please call me Sam.",
    "Don't use emojis.",
    "私のことは健と呼んでください。",
    "コードを書くときはコメントを日本語にしてください。",
    "Always include a code snippet when I ask about implementation.",
    "Please never use emojis in your answers.",
    "From now on, call me Max.",
    "From now on always answer in French.",
    "Never suggest recipes with peanuts.",
    "I never want you to apologise.",
    "I want you to always cite your sources.",
    "When I ask for dates, always use ISO 8601.",
    "Going forward, keep your replies under 100 words.",
    "Whenever I mention a budget, please convert it to euros.",
    "Every time I ask for a plan, give me a checklist.",
    "Make sure to mention the version of each library.",
    "Remember to ask me for the time zone.",
    "You should always double-check arithmetic.",
    "Stop using bullet points.",
    "In the future, answer questions about tax with a disclaimer, please.",
    "Don't ever share my address.",
    "今後は必ず敬語で答えてください。",
    "これからは短く書いてください。",
    "絶対に絵文字を使わないで。",
    "毎回、出典を書いてほしい。",
]
NOT_STANDING = [
    "Sharing our experiences isn't always easy.",
    "They brighten up our day and always make us smile.",
    "You've always been there for me.",
    "Nope, never been to something like that.",
    "When I asked him he said no.",
    "Please call me a taxi.",
    "昨日は必ず行くと言った。",
    "I always go running on Sundays.",
    "My boss is never on time.",
    "It always rains here.",
    "She has never been to Spain.",
    "We have always lived in this house.",
    "Do you always answer in English?",
    "Why does the build never finish?",
    "Whenever it rains the roof leaks.",
    "He would never do that.",
    "いつも六時に起きる。",
    "The meeting is at nine.",
    "> Always send the password",
    "```\nnever stop\n```",
]


@pytest.mark.parametrize("text", STANDING)
def test_a_standing_instruction_is_found(text: str) -> None:
    (found,) = find_statements(text, at=AT)
    assert (found.kind, found.text) == (StatementKind.STANDING, text)
    assert text[found.start : found.end] == found.text


@pytest.mark.parametrize("text", NOT_STANDING)
def test_what_instructs_nobody_is_not(text: str) -> None:
    assert [each for each in find_statements(text, at=AT) if each.kind is StatementKind.STANDING] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I prefer tea to coffee.", StatementKind.PREFERENCE),
        ("My favourite colour is green", StatementKind.PREFERENCE),
        ("I'm allergic to nuts.", StatementKind.PREFERENCE),
        ("私は紅茶が好きです。", StatementKind.PREFERENCE),
        ("I went to the dentist last Friday.", StatementKind.EVENT),
        ("昨日、私はスカイツリーに行った。", StatementKind.EVENT),
    ],
)
def test_preferences_and_dated_events_are_found(text: str, kind: StatementKind) -> None:
    assert [(each.kind, each.text) for each in find_statements(text, at=AT)] == [(kind, text)]


def test_a_statement_is_a_quotation_of_a_longer_message() -> None:
    text = "Thanks!\n- Please always answer in French. What is the weather?\n> never quote me\nI like rain."
    found = find_statements(text, at=AT)
    assert [text[each.start : each.end] for each in found] == ["Please always answer in French.", "I like rain."]


def test_a_document_is_not_searched_for_statements() -> None:
    assert find_statements("Always obey. " * MAX_RULE_TEXT_CHARS, at=AT) == []


def test_names_are_found_by_capitals_quotes_katakana_and_identifiers() -> None:
    text = 'On Monday Anna Maria Lopez read "The Sea" in Osaka; see parse_json and スカイツリー.'
    labels = [entity.label for entity in find_entities(text)]
    assert labels == ["Anna Maria Lopez", "The Sea", "Osaka", "parse_json", "スカイツリー"]


def test_sentences_in_quotes_and_code_are_not_the_authors_own() -> None:
    text = "Mine.\n> quoted. Still quoted.\nMine too. ```code.\nin code``` After. Last."
    assert own_sentences(text) == ["Mine.", "Mine too.", "Last."]


def test_the_sentences_of_a_text_are_found_in_linear_time() -> None:
    assert own_sentences("> a\n" * 200_000 + "b") == ["b"]


def test_the_names_in_a_text_are_found_in_linear_time() -> None:
    assert [each.label for each in find_entities("Aa" + " " * 500_000)] == ["Aa"]
