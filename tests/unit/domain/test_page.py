import pytest

from holdfast.domain.errors import Invalid
from holdfast.domain.page import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page, check_page_size


@pytest.mark.parametrize("limit", [1, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE])
def test_a_page_size_is_between_one_and_the_maximum(limit: int) -> None:
    assert check_page_size(limit) == limit


@pytest.mark.parametrize("limit", [-1, 0, MAX_PAGE_SIZE + 1, 2**70])
def test_any_other_page_size_is_rejected(limit: int) -> None:
    with pytest.raises(Invalid, match=f"`limit` must be between 1 and {MAX_PAGE_SIZE}") as caught:
        check_page_size(limit)
    assert caught.value.details == {"field": "limit"}


def test_a_list_may_allow_longer_pages() -> None:
    assert check_page_size(1000, maximum=1000) == 1000
    with pytest.raises(Invalid, match="between 1 and 1000"):
        check_page_size(1001, maximum=1000)


def test_the_last_page_has_no_cursor() -> None:
    assert Page[int](items=[]).next_cursor is None
