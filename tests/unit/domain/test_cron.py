"""Cron expressions and times by the calendar: daylight saving changes, order, and what people write."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.cron import check_cron, next_time, parse_time
from holdfast.domain.errors import Invalid
from holdfast.domain.instant import Instant, Millis, instant, millis

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")


def at(text: str) -> Millis:
    return millis(Instant(text))


def times(expression: str, zone: str, start: str, count: int) -> list[str]:
    """Return the next times of an expression, as local times with their offset."""
    found, after = [], at(start)
    for _ in range(count):
        following = next_time(expression, timezone=zone, after=after)
        assert following is not None and following > after
        found.append(datetime.fromtimestamp(following / 1000, ZoneInfo(zone)).strftime("%d %H:%M %z"))
        after = following
    return found


GAPS = [
    ("Europe/Berlin", "2026-03-28T12:00:00Z", ["29 03:00 +0200", "30 02:30 +0200"]),
    ("America/New_York", "2026-03-07T12:00:00Z", ["08 03:00 -0400", "09 02:30 -0400"]),
    ("Australia/Lord_Howe", "2026-10-03T12:00:00Z", ["04 02:30 +1100", "05 02:30 +1100"]),
]


@pytest.mark.parametrize(("zone", "start", "expected"), GAPS)
def test_a_time_in_the_gap_fires_once_when_the_clock_has_jumped(zone: str, start: str, expected: list[str]) -> None:
    assert times("30 2 * * *", zone, start, 2) == expected


FOLDS = [
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", ["25 02:30 +0200", "26 02:30 +0100"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", ["01 01:30 -0400", "02 01:30 -0500"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00Z", ["05 01:45 +1100", "06 01:45 +1030"]),
]


@pytest.mark.parametrize(("zone", "expression", "start", "expected"), FOLDS)
def test_a_time_in_the_fold_fires_once(zone: str, expression: str, start: str, expected: list[str]) -> None:
    assert times(expression, zone, start, 2) == expected


@pytest.mark.parametrize(
    ("zone", "start", "hours"),
    [
        ("Europe/Berlin", "2026-03-28T23:30:00Z", ["01", "03", "04", "05"]),
        ("Europe/Berlin", "2026-10-24T22:30:00Z", ["01", "02", "02", "03"]),
        ("America/New_York", "2026-11-01T04:30:00Z", ["01", "01", "02", "03"]),
    ],
)
def test_every_hour_is_an_hour_of_elapsed_time(zone: str, start: str, hours: list[str]) -> None:
    assert [text.split()[1][:2] for text in times("0 * * * *", zone, start, 4)] == hours


@given(
    zone=st.sampled_from((*ZONES, "UTC", "Asia/Tokyo", "Africa/Casablanca")),
    minute=st.sampled_from(["0", "30", "*", "*/7", "5,50"]),
    hour=st.sampled_from(["*", "1", "2", "0-3", "*/2"]),
    start=st.integers(1_750_000_000, 1_900_000_000),
)
def test_times_strictly_ascend_and_follow_from_the_last_one(zone: str, minute: str, hour: str, start: int) -> None:
    after = Millis(start * 1000)
    for _ in range(5):
        following = next_time(f"{minute} {hour} * * *", timezone=zone, after=after)
        assert following is not None and following > after
        after = following


NOW = at("2026-01-31T12:00:00Z")


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-02-01T09:00:00Z", None, "2026-02-01T09:00:00.000Z"),
        ("2026-02-01T09:00:00+09:00", None, "2026-02-01T00:00:00.000Z"),
        ("2026-02-01T09:00", "Asia/Tokyo", "2026-02-01T00:00:00.000Z"),
        ("2026-02-01 09:00", "Europe/Berlin", "2026-02-01T08:00:00.000Z"),
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:30:00.000Z"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00.000Z"),
        ("in 2 h", None, "2026-01-31T14:00:00.000Z"),
        ("in 1 hour 30 minutes", None, "2026-01-31T13:30:00.000Z"),
        ("90min", None, "2026-01-31T13:30:00.000Z"),
        ("in 3 days", None, "2026-02-03T12:00:00.000Z"),
        ("in 1.5 h", None, "2026-01-31T13:30:00.000Z"),
        ("2時間後", None, "2026-01-31T14:00:00.000Z"),
        ("30分後", None, "2026-01-31T12:30:00.000Z"),
    ],
)
def test_what_people_write_is_understood(text: str, zone: str | None, expected: str) -> None:
    assert parse_time(text, timezone=zone, now=NOW) == expected


@pytest.mark.parametrize(
    ("text", "zone", "message"),
    [
        ("soon", None, "`soon` is not a time: write"),
        ("2026-02-01T09:00", None, "has no time zone"),
        ("2026-02-01T09:00", "Mars/Base", "`Mars/Base` is not a time zone"),
        ("2026-13-01T09:00Z", None, "is not a time"),
        ("in 999999999 weeks", None, "more than ten years"),
        ("", None, "is not a time"),
        ("1 h " * 2_000_000, None, "a time has at most 200 characters"),
    ],
)
def test_a_time_that_is_not_understood_is_refused(text: str, zone: str | None, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_time(text, timezone=zone, now=NOW)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "0 0 32 * *", "0 0 30 2 *", "a b c d e", "*/0 * * * *", "5-1 * * * *",
     "0 0 * * MON#9", "0 0 * * XL", "1 " * 200, "* * * * * * *", "0 0 L/2 * *x"],
)  # fmt: skip
def test_a_wrong_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(Invalid, match="cron expression"):
        check_cron(expression)


@pytest.mark.parametrize("expression", ["@daily", "0 9 * * MON-FRI", "*/5 * * * * *", "0 0 L * *", "0 0 29 2 *"])
def test_common_cron_expressions_are_accepted(expression: str) -> None:
    assert check_cron(expression) == expression


@given(st.text(max_size=30))
def test_any_text_is_a_cron_expression_or_refused(text: str) -> None:
    try:
        check_cron(text)
    except Invalid:
        return
    found = next_time(text, timezone="UTC", after=NOW)
    assert found is not None and instant(found) > instant(NOW)
    assert datetime.fromtimestamp(found / 1000, UTC).year < 2100
