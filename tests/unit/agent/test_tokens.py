"""`EstimatedTokens` against real vocabularies, on texts that its weights were not fitted to."""

from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splintr import AnyTokenizer, Tokenizer

from holdfast.agent.context.tokens import EstimatedTokens

CORPUS: Final = Path(__file__).parent / "corpus"
MAX_ERROR: Final = 0.15
MAX_ERROR_OTHER: Final = 0.25
PASSAGE_CHARS: Final = 1_000
"""Characters: about as long as a message."""


@pytest.mark.parametrize("name", ["english.txt", "japanese.txt", "dense.json"])
def test_the_estimate_is_within_15_percent_for_english_japanese_and_dense_json(name: str) -> None:
    text = (CORPUS / name).read_text()
    assert _error(text) <= MAX_ERROR
    assert max(map(_error, _passages(text))) <= MAX_ERROR


@pytest.mark.parametrize("name", ["code.txt", "other_languages.txt"])
def test_the_estimate_is_fair_for_code_and_other_languages(name: str) -> None:
    text = (CORPUS / name).read_text()
    assert _error(text) <= MAX_ERROR
    assert max(map(_error, _passages(text))) <= MAX_ERROR_OTHER


@pytest.mark.parametrize("vocabulary", ["cl100k_base", "llama3", "deepseek_v3", "qwen3", "gemma3"])
def test_other_vocabularies_differ_from_the_estimate_by_less_than_two_fifths(vocabulary: str) -> None:
    errors = {path.name: _error(path.read_text(), vocabulary) for path in CORPUS.iterdir()}
    assert {name: error for name, error in errors.items() if error > 0.4} == {}


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("7" * 3_000, 900),
        ("ab12" * 500, 900),
        ("-" * 1_000, 100),
        ("\n" * 100, 100),
        (" " * 10_000, 100),
        ("😀" * 100, 100),
    ],
    ids=["digits", "letters and digits", "marks", "lines", "spaces", "emoji"],
)
def test_repeated_characters_have_tokens(text: str, least: int) -> None:
    assert EstimatedTokens().count(text) >= least


def test_only_the_empty_text_has_no_tokens() -> None:
    assert EstimatedTokens().count("") == 0
    assert EstimatedTokens().count("a") == 1


@given(st.text(alphabet=st.characters()), st.text(alphabet=st.characters()))
def test_any_text_can_be_counted_and_a_longer_text_never_has_fewer_tokens(one: str, other: str) -> None:
    tokens = EstimatedTokens()
    assert tokens.count(one) >= 0
    # A word split between two texts counts twice, so the texts may have slightly more tokens apart than joined.
    assert tokens.count(one + other) <= tokens.count(one) + tokens.count(other) + 1
    assert tokens.count(f"{one}\n{other}") >= tokens.count(one)


def _error(text: str, vocabulary: str = "o200k_base") -> float:
    exact = len(_tokenizer(vocabulary).encode(text))
    return abs(EstimatedTokens().count(text) / exact - 1)


def _passages(text: str) -> list[str]:
    return [text[at : at + PASSAGE_CHARS] for at in range(0, len(text) - PASSAGE_CHARS + 1, PASSAGE_CHARS)]


@cache
def _tokenizer(vocabulary: str) -> AnyTokenizer:
    return Tokenizer.from_pretrained(vocabulary)
