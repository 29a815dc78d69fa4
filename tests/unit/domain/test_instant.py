import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Instant, Millis, instant, maybe_instant, millis

START_OF_1 = -62_135_596_800_000
END_OF_9999 = 253_402_300_799_999
DAY = 24 * 3600 * 1000
WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

times = st.integers(START_OF_1, END_OF_9999).map(Millis)


@given(times)
@example(Millis(START_OF_1))
@example(Millis(END_OF_9999))
@example(Millis(-1))
@example(Millis(0))
def test_an_instant_round_trips(at: Millis) -> None:
    assert millis(instant(at)) == at


@given(times)
def test_an_instant_is_in_utc_with_milliseconds(at: Millis) -> None:
    assert WRITTEN.fullmatch(instant(at))


@given(times, times)
def test_instants_sort_by_time(one: Millis, other: Millis) -> None:
    assert (instant(one) < instant(other)) is (one < other)


def test_an_instant_has_the_documented_format() -> None:
    assert instant(Millis(1_769_860_800_007)) == "2026-01-31T12:00:00.007Z"


def test_none_stays_none() -> None:
    assert maybe_instant(None) is None
    assert maybe_instant(Millis(0)) == "1970-01-01T00:00:00.000Z"


@given(st.integers(START_OF_1 + DAY, END_OF_9999 - DAY), st.integers(-24 * 60 + 1, 24 * 60 - 1))
def test_a_time_with_another_offset_is_converted_to_utc(at: int, minutes: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    elsewhere = moment.astimezone(timezone(timedelta(minutes=minutes)))
    assert millis(Instant(elsewhere.isoformat())) == at


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-01-31", "2026-01-31T12:00:00", "2026-13-31T12:00:00Z", "2026-01-31T25:00:00Z", "1769860800"],
)
def test_a_malformed_time_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="not a time"):
        millis(Instant(text))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_outside_the_representable_range_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="not a time"):
        millis(Instant(text))
