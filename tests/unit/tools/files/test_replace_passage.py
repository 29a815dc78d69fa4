import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.tools.files.write import MAX_HASHED_BYTES, content_before_edit, digest, replace_passage

WORDS = st.text(st.sampled_from("ab\n"), max_size=8)
PASSAGES = st.text(st.sampled_from("ab\n"), min_size=1, max_size=3)


def test_a_passage_that_is_there_once_is_replaced() -> None:
    assert replace_passage("one two", "two", "three", everywhere=False) == ("one three", 1)
    assert replace_passage("one two", " two", "", everywhere=False) == ("one", 1)


def test_a_passage_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound, match="exactly as the file has it"):
        replace_passage("one", "two", "three", everywhere=True)


@pytest.mark.parametrize(("text", "old"), [("a a", "a"), ("aaa", "aa"), ("a\na\n", "a\n")])
def test_a_passage_that_is_there_more_than_once_is_refused_also_if_it_overlaps(text: str, old: str) -> None:
    with pytest.raises(Conflict, match="more than once"):
        replace_passage(text, old, "b", everywhere=False)


def test_replace_all_replaces_every_occurrence() -> None:
    assert replace_passage("a-a-a", "a", "bb", everywhere=True) == ("bb-bb-bb", 3)


def test_a_change_that_changes_nothing_is_refused() -> None:
    with pytest.raises(Invalid, match="are the same"):
        replace_passage("a", "a", "a", everywhere=False)


@given(WORDS, PASSAGES, WORDS, WORDS)
def test_an_edit_changes_only_the_passage(before: str, old: str, new: str, after: str) -> None:
    text = before + old + after
    assume(old != new and text.find(old) == text.rfind(old))
    assert replace_passage(text, old, new, everywhere=False) == (before + new + after, 1)


@given(WORDS, PASSAGES, WORDS, WORDS)
def test_a_made_edit_is_recognized(before: str, old: str, new: str, after: str) -> None:
    was, now = (before + old + after).encode(), (before + new + after).encode()
    assert content_before_edit(now, old.encode(), new.encode(), everywhere=False, known=digest(was)) == was


@given(WORDS, PASSAGES, WORDS, st.booleans())
def test_the_recognized_content_is_the_content_before_the_edit(now: str, old: str, new: str, everywhere: bool) -> None:
    was = digest(b"something else")
    assert content_before_edit(now.encode(), old.encode(), new.encode(), everywhere=everywhere, known=was) is None


@given(st.lists(WORDS, max_size=4), PASSAGES)
def test_a_replace_all_is_recognized_if_the_new_passage_was_not_there_before(parts: list[str], old: str) -> None:
    was = old.join(parts).encode()
    now = was.replace(old.encode(), b"new")
    assert content_before_edit(now, old.encode(), b"new", everywhere=True, known=digest(was)) == was


def test_recognition_stops_at_the_hash_budget() -> None:
    now = b"x" * 20_000
    assert len(now) ** 2 > MAX_HASHED_BYTES
    assert content_before_edit(now, b"y", b"", everywhere=False, known=digest(now + b"y")) is None
    assert content_before_edit(now, b"y", b"", everywhere=False, known=digest(b"y" + now)) == b"y" + now
