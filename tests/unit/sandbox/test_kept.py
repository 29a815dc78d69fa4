"""Of an endless output the beginning and the end are kept."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sandbox.pipes import BoundedOutput


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=50))
def test_the_first_half_and_the_last_are_kept_and_the_rest_is_counted(pieces: list[bytes], limit: int) -> None:
    kept = BoundedOutput(limit)
    for piece in pieces:
        kept.add(piece)
    whole = b"".join(pieces)
    first, last = limit - limit // 2, limit // 2
    expected = whole if len(whole) <= limit else whole[:first] + whole[len(whole) - last :]
    assert kept.bytes() == expected
    assert kept.dropped == len(whole) - len(expected)


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=50))
def test_looking_at_what_is_kept_changes_nothing(pieces: list[bytes], limit: int) -> None:
    watched, alone = BoundedOutput(limit), BoundedOutput(limit)
    for piece in pieces:
        watched.add(piece)
        watched.bytes()
        alone.add(piece)
    assert watched.bytes() == alone.bytes()
