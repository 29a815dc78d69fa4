import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.validation import check_text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20))
def test_a_valid_text_is_returned_unchanged(value: str) -> None:
    assert check_text(value, field="title", max_chars=20) == value


@pytest.mark.parametrize("value", ["\x00", "a\x00b", "\ud800", "a\udfff"])
def test_text_that_a_database_cannot_store_is_rejected_with_its_field(value: str) -> None:
    with pytest.raises(Invalid, match="`title`") as caught:
        check_text(value, field="title", max_chars=20)
    assert caught.value.details == {"field": "title"}


def test_a_text_that_is_too_long_is_rejected_with_the_limit() -> None:
    assert check_text("é" * 20, field="title", max_chars=20)
    with pytest.raises(TooLarge, match="`title` may have at most 20 characters"):
        check_text("é" * 21, field="title", max_chars=20)
