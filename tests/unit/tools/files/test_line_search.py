from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.working_path import WorkingPath
from holdfast.tools.files.patterns import MAX_MATCH_CHARS, LineSearch

A = WorkingPath("a")


def rows(text: str, *, context: int, limit: int = 1_000) -> list[str]:
    search = LineSearch("x", ignore_case=False, context=context)
    return search.rows(A, text, search.matches(text, limit=limit))


def test_lines_come_with_path_and_number() -> None:
    assert rows("a\nx1\nb\nx2\n", context=0) == ["a:2:x1", "a:4:x2"]


def test_context_lines_are_shown_and_separate_groups_are_divided() -> None:
    text = "a\nx\nb\nc\nd\nx\n"
    assert rows(text, context=1) == ["a-1-a", "a:2:x", "a-3-b", "--", "a-5-d", "a:6:x"]
    assert rows(text, context=2) == ["a-1-a", "a:2:x", "a-3-b", "a-4-c", "a-5-d", "a:6:x"]


def test_a_long_line_is_cut() -> None:
    assert rows(f"x{'y' * 1000}", context=0) == [
        f"a:1:x{'y' * (MAX_MATCH_CHARS - 1)}… [{1001 - MAX_MATCH_CHARS} more characters]"
    ]


@given(st.lists(st.sampled_from("xa"), max_size=30), st.integers(0, 4), st.integers(1, 30))
def test_every_line_is_shown_once_and_every_match_is_marked(lines: list[str], context: int, limit: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    hits = [index for index, line in enumerate(lines) if line == "x"][:limit]
    near = {at for hit in hits for at in range(hit - context, hit + context + 1) if 0 <= at < len(lines)}
    shown = [row for row in rows(text, context=context, limit=limit) if row != "--"]
    assert [int(row.replace("-", ":").split(":")[1]) - 1 for row in shown] == sorted(near)
    assert [index for index in sorted(near) if index in hits] == [
        int(row.split(":")[1]) - 1 for row in shown if row.startswith("a:")
    ]
