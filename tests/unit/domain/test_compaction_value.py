"""The stored compaction of a run, and when its attempts stop."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.context import (
    NO_COMPACTION,
    CollapsedTask,
    Compaction,
    compaction_exhausted,
    decode_compaction,
    record_failed_compaction,
)
from holdfast.domain.errors import Invalid
from holdfast.domain.plan import Boundary

boundaries = st.builds(Boundary, message_sequence_num=st.integers(0, 99), content_sequence_num=st.integers(0, 9))
compactions = st.builds(
    Compaction,
    through=st.none() | st.integers(0, 99),
    summary=st.text(),
    collapsed=st.lists(
        st.builds(
            CollapsedTask,
            task_id=st.integers(1, 9),
            title=st.text(),
            conclusion=st.text(),
            start=boundaries,
            end=boundaries,
        ),
        max_size=3,
    ).map(tuple),
    tokens_before=st.integers(0, 9_999),
    tokens_after=st.integers(0, 9_999),
    failed_tries=st.integers(0, 3),
)


@given(compactions)
def test_a_compaction_round_trips_through_json(compaction: Compaction) -> None:
    assert decode_compaction(msgspec.json.decode(msgspec.json.encode(compaction))) == compaction


def test_a_run_without_a_compaction_has_none() -> None:
    assert decode_compaction(None) == NO_COMPACTION


@pytest.mark.parametrize("value", [7, [], {"through": "x"}, {"collapsed": [{}]}])
def test_a_value_that_is_not_a_compaction_is_rejected(value: object) -> None:
    with pytest.raises(Invalid, match="the `compaction` of this run cannot be decoded"):
        decode_compaction(value)


@pytest.mark.parametrize(
    ("tries", "tokens", "expected"), [(0, 100, False), (1, 100, False), (2, 100, True), (2, 124, True), (2, 125, False)]
)
def test_after_two_failed_attempts_compaction_pauses_until_a_quarter_is_added(
    tries: int, tokens: int, expected: bool
) -> None:
    compaction = NO_COMPACTION
    for _ in range(tries):
        compaction = record_failed_compaction(compaction, before=120, after=100)
    assert compaction_exhausted(compaction, tokens=tokens) is expected
