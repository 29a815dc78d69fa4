"""The analyser: text becomes terms."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.memory.analyser import MAX_TERM_CHARS, fold, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The meetings were cancelled", ["meet", "cancel"]),
        ("2012年に東京で", ["2012", "年", "年に", "に東", "東", "東京", "京", "京で"]),
        ("これはそれです", []),
        ("ＡＰＩ ｶﾅ", ["api", "カ", "カナ", "ナ"]),
        ("John’s café, don't", ["john", "café"]),
        ("ERR_504 v1.2", ["err", "504", "v1", "2"]),
        ("東", ["東"]),
        ("", []),
        ("\0 \ud800 \U0001f600", []),
    ],
)
def test_text_becomes_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@given(st.text())
def test_any_text_has_terms_that_are_stable_bounded_and_not_empty(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    assert all(0 < len(term) <= MAX_TERM_CHARS for term in found)


@given(st.text(alphabet="abcdefghij ", max_size=50), st.sampled_from(["東京", "年", "カナ"]))
def test_letters_never_run_into_an_unspaced_script(word: str, unspaced: str) -> None:
    assert terms(word) == terms(word + unspaced)[: len(terms(word))]


def test_threads_can_stem_at_once() -> None:
    words = [f"running{chr(97 + a)}{chr(97 + b)}ings" for a in range(26) for b in range(26)]
    expected = [terms(f" {word}") for word in words]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms, words * 3)) == expected * 3


def test_a_text_of_combining_marks_is_folded_in_linear_time() -> None:
    assert len(fold("a" + "\u0315" * 300_000 + "\u0327" * 300_000)) == 600_001
    assert fold("ｶﾞ" * 400) == "ガ" * 400
