import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.files.diff import MAX_COMPARED_LINES, MAX_DIFF_CHARS, unified_diff

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "\x0b\n"]), max_size=25)
TEXT = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "a", "z"]))
_HEAD = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


@given(TEXT, TEXT)
def test_applying_a_diff_to_the_old_text_gives_the_new_one(before: str, after: str) -> None:
    assert _patched(before, unified_diff(before, after, path="a")) == after


@given(st.lists(st.integers(0, 400), max_size=6, unique=True))
def test_distant_changes_are_separate_hunks(places: list[int]) -> None:
    before = [f"{index}\n" for index in range(401)]
    after = [f"new {line}" if index in places else line for index, line in enumerate(before)]
    diff = unified_diff("".join(before), "".join(after), path="a")
    assert _patched("".join(before), diff) == "".join(after)
    assert sum(line[:1] in "+-" for line in diff.split("\n")[2:] if line) == 2 * len(places)


def test_a_diff_is_in_unified_format() -> None:
    before = "".join(f"{number}\n" for number in range(1, 10))
    assert unified_diff(before, before.replace("5\n", "five\n"), path="src/a.py") == (
        "--- a/src/a.py\n+++ b/src/a.py\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )
    assert unified_diff("", "a", path="a") == "--- a/a\n+++ b/a\n@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n"
    assert unified_diff("a\n", "a\n", path="a") == ""


def test_a_diff_that_is_too_long_is_cut_with_a_note() -> None:
    diff = unified_diff("", "".join(f"{number}\n" for number in range(100_000)), path="a")
    assert len(diff) < MAX_DIFF_CHARS + 100
    kept, note = diff[:-1].rsplit("\n", 1)
    assert re.fullmatch(r"\[\d+ more characters\]", note)
    assert all(re.fullmatch(r"\+\d+", line) for line in kept.split("\n")[3:])


def test_texts_that_would_take_too_long_to_compare_are_one_change() -> None:
    many = "".join(f"{number}\n" for number in range(MAX_COMPARED_LINES + 2))
    same = "\n" * 2_000
    for before, after in ((f"a\n{many}b\n", f"c\n{many}d\n"), (f"a\n{same}b\n", f"c\n{same}d\n")):
        diff = unified_diff(before, after, path="a", limit=10**7)
        assert diff.count("@@ -") == 1
        assert _patched(before, diff) == after


def _patched(before: str, diff: str) -> str:
    """Return a text with a diff applied, which must match it."""
    old = re.findall(r"[^\n]*\n|[^\n]+\Z", before)
    new: list[str] = []
    at = 0
    rows = diff.replace("\n\\ No newline at end of file\n", "\x00").replace("\x00", "\x00\n").split("\n")
    for row in rows[2:-1]:
        if head := _HEAD.fullmatch(row):
            start = int(head[1]) - (1 if int(head[2]) else 0)
            new += old[at:start]
            at = start
            assert len(new) == int(head[3]) - (1 if int(head[4]) else 0)
            continue
        line = row[1:-1] if row.endswith("\x00") else f"{row[1:]}\n"
        if row[0] in " -":
            assert old[at] == line
            at += 1
        if row[0] in " +":
            new.append(line)
    return "".join(new + old[at:])
