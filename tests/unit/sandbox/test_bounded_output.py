"""`BoundedOutput` keeps the beginning and the end of an output."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox.pipes import BoundedOutput


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=50))
def test_the_first_and_last_halves_are_kept_and_the_rest_is_counted(pieces: list[bytes], limit: int) -> None:
    output = BoundedOutput(limit)
    for piece in pieces:
        output.add(piece)
    whole = b"".join(pieces)
    first, last = limit - limit // 2, limit // 2
    expected = whole if len(whole) <= limit else whole[:first] + whole[len(whole) - last :]
    assert output.bytes() == expected
    assert output.dropped == len(whole) - len(expected)


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=50))
def test_reading_the_kept_bytes_changes_nothing(pieces: list[bytes], limit: int) -> None:
    read_often, read_once = BoundedOutput(limit), BoundedOutput(limit)
    for piece in pieces:
        read_often.add(piece)
        read_often.bytes()
        read_once.add(piece)
    assert read_often.bytes() == read_once.bytes()
