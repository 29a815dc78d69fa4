from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.files.text import (
    MAX_LINE_CHARS,
    MAX_LINES,
    MAX_SHOWN_CHARS,
    number_lines,
    split_lines,
    truncate_line,
)

LINES = st.lists(st.text(st.sampled_from("ab\x0b\x0c\x1c\x85 \r"), max_size=4), max_size=30)


@given(LINES)
def test_only_a_line_feed_ends_a_line(lines: list[str]) -> None:
    assert split_lines("".join(f"{line}\n" for line in lines)) == lines


def test_text_after_the_last_line_feed_is_a_line() -> None:
    assert split_lines("") == []
    assert split_lines("\n") == [""]
    assert split_lines("a\nb") == ["a", "b"]


@given(LINES, st.integers(1, 40), st.integers(1, 40))
def test_a_range_has_exactly_its_lines(lines: list[str], first: int, limit: int) -> None:
    part = number_lines(lines, first=first, limit=limit)
    rows = part.text.split("\n") if part.text else []
    numbered = [(int(row[:6]), row[7:]) for row in rows]
    assert numbered == list(enumerate(lines, start=1))[first - 1 : first - 1 + limit]
    assert part.end == first + len(rows)
    assert part.total == len(lines)


@given(st.integers(1, 50), st.integers(1, 3_000))
def test_consecutive_ranges_give_the_whole_text(count: int, length: int) -> None:
    lines = [f"{index}-{'x' * length}" for index in range(count)]
    seen, first = 0, 1
    while first <= count:
        part = number_lines(lines, first=first, limit=MAX_LINES)
        assert part.end > first, "every page has a line"
        assert len(part.text) <= MAX_SHOWN_CHARS
        seen, first = seen + part.end - first, part.end
    assert seen == count


def test_a_range_fits_the_size_limit() -> None:
    assert number_lines(["x"] * 10_000, first=1, limit=10_000).end == MAX_LINES + 1
    assert len(number_lines(["x" * 900] * 100, first=1, limit=100).text) <= MAX_SHOWN_CHARS


def test_a_line_that_is_too_long_is_cut_with_a_note() -> None:
    assert truncate_line("x" * MAX_LINE_CHARS) == "x" * MAX_LINE_CHARS
    assert truncate_line("x" * (MAX_LINE_CHARS + 5)) == "x" * MAX_LINE_CHARS + "… [5 more characters]"
