from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import ENTROPY_BYTES, check_client_id, sortable_id
from holdfast.domain.instant import Millis

END_OF_9999 = 253_402_300_799_999
times = st.integers(0, END_OF_9999).map(Millis)
entropies = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)


@given(times, entropies, times, entropies)
def test_ids_sort_by_the_millisecond_they_were_made_in(a: Millis, one: bytes, b: Millis, other: bytes) -> None:
    first, second = sortable_id("run", at=a, entropy=one), sortable_id("run", at=b, entropy=other)
    assert len(first) == len(second)
    if a != b:
        assert (first < second) is (a < b)


@given(times, entropies, entropies)
def test_ids_of_one_millisecond_differ_in_their_entropy(at: Millis, one: bytes, other: bytes) -> None:
    same = sortable_id("run", at=at, entropy=one) == sortable_id("run", at=at, entropy=other)
    assert same is (one == other)


@given(st.sampled_from(["thr", "run", "msg"]), times, entropies)
def test_an_id_that_we_make_has_its_prefix_and_is_one_that_a_client_may_choose(
    prefix: str, at: Millis, entropy: bytes
) -> None:
    new_id = sortable_id(prefix, at=at, entropy=entropy)
    assert new_id.startswith(f"{prefix}_")
    assert check_client_id(new_id, field="id") == new_id


@given(st.text(ascii_letters + digits + "_-", min_size=1, max_size=128))
def test_a_client_may_choose_letters_digits_underscores_and_dashes(value: str) -> None:
    assert check_client_id(value, field="id") == value


@pytest.mark.parametrize("value", ["", "x" * 129, "a b", "a\n", "a/b", "a.b", "é", "٣", "a\x00", "`"])
def test_any_other_id_is_rejected_with_its_field(value: str) -> None:
    with pytest.raises(Invalid, match="`thread_id` must be 1 to 128 letters, digits") as caught:
        check_client_id(value, field="thread_id")
    assert caught.value.details == {"field": "thread_id"}
