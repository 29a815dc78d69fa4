"""Dates are found in English and Japanese, relative to when they were said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.instant import Instant
from holdfast.memory.dates import find_dates, find_occurrence

AT = Instant("2026-11-18T10:00:00.000Z")  # a Wednesday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("I saw her yesterday", "2026-11-17", "2026-11-17"),
        ("the day before yesterday", "2026-11-16", "2026-11-16"),
        ("it broke last week", "2026-11-09", "2026-11-15"),
        ("we meet next month", "2026-12-01", "2026-12-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("last Friday", "2026-11-13", "2026-11-13"),
        ("next Friday", "2026-11-20", "2026-11-20"),
        ("three days ago", "2026-11-15", "2026-11-15"),
        ("2 months ago", "2026-09-01", "2026-09-30"),
        ("in May we moved", "2026-05-01", "2026-05-31"),
        ("in December", "2025-12-01", "2025-12-31"),
        ("on 3 March 2024", "2024-03-03", "2024-03-03"),
        ("on July 4th, 2025", "2025-07-04", "2025-07-04"),
        ("due 2026-01-31", "2026-01-31", "2026-01-31"),
        ("昨日行った", "2026-11-17", "2026-11-17"),
        ("先週会った", "2026-11-09", "2026-11-15"),
        ("３日前", "2026-11-15", "2026-11-15"),
        ("2024年3月5日", "2024-03-05", "2024-03-05"),
        ("去年の話", "2025-01-01", "2025-12-31"),
    ],
)
def test_a_date_is_found(text: str, first: str, last: str) -> None:
    assert find_occurrence(text, at=AT) == (f"{first}T00:00:00.000Z", f"{last}T23:59:59.999Z")


@pytest.mark.parametrize("text", ["may I ask?", "they march on", "on 31 February 2024", "2026-13-01", "nothing"])
def test_what_is_no_date_is_not(text: str) -> None:
    assert find_dates(text, at=AT) == []


@given(st.text(max_size=200))
def test_no_text_makes_it_fail(text: str) -> None:
    for found in find_dates(text, at=AT):
        assert found.first <= found.last and text[found.start : found.end]
