"""The language in which a run sees its skills."""

from typing import Any

import pytest

from holdfast.skills.locale import preferred_language, resolve_locale


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ({}, "en"),
        ({"texts": ["hello", "こんにちは"]}, "ja"),
        ({"texts": ["漢字"]}, "ja"),
        ({"request": "fr", "texts": ["こんにちは"]}, "fr"),
        ({"space": "ja", "request": "fr"}, "ja"),
        ({"thread": "en-GB", "space": "ja"}, "en"),
        ({"run_input": {"locale": "ja_JP"}, "thread": "en"}, "ja"),
        ({"run_input": {"skill_locale": "de", "locale": "ja"}}, "de"),
        ({"run_input": "text", "thread": ""}, "en"),
        ({"run_input": {"locale": 7}}, "en"),
    ],
)
def test_the_first_that_is_given_counts(given: dict[str, Any], language: str) -> None:
    assert resolve_locale(**given) == language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("ja", "ja"),
        ("ja-JP,ja;q=0.9,en;q=0.8", "ja"),
        ("en;q=0.2, ja;q=0.9", "ja"),
        ("*", None),
        ("", None),
        (";;;q=x,,", None),
        ("xx1;q=9", None),
    ],
)
def test_a_header_names_the_preferred_language(header: str, language: str | None) -> None:
    assert preferred_language(header) == language
