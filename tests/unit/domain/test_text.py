import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.validation import check_text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20))
def test_any_other_text_is_kept_as_it_is(value: str) -> None:
    assert check_text(value, field="title", max_chars=20) == value


@pytest.mark.parametrize("value", ["\x00", "a\x00b", "\ud800", "a\udfff"])
def test_what_a_database_cannot_keep_is_refused_by_the_name_of_its_field(value: str) -> None:
    with pytest.raises(Invalid, match="`title`") as caught:
        check_text(value, field="title", max_chars=20)
    assert caught.value.details == {"field": "title"}


def test_a_text_that_is_too_long_is_refused_with_what_it_may_have() -> None:
    assert check_text("é" * 20, field="title", max_chars=20)
    with pytest.raises(TooLarge, match="`title` may have at most 20 characters"):
        check_text("é" * 21, field="title", max_chars=20)
