"""Dates in a text, relative to when it was said: `yesterday`, `last week`, `in May`, `3日前`, `2026年1月`."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from holdfast.domain.instant import Instant

_MONTH_NAMES: Final = "january february march april may june july august september october november december"
_DAY_NAMES: Final = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBER_NAMES: Final = "zero one two three four five six seven eight nine ten"
_MONTHS: Final = _MONTH_NAMES.split()
_DAYS: Final = _DAY_NAMES.split()
_MONTH: Final = "|".join(sorted([*_MONTHS, *(name[:3] for name in _MONTHS)], key=len, reverse=True))
_NUMBERS: Final = {word: n for n, word in enumerate(_NUMBER_NAMES.split())} | {
    "a": 1,
    "an": 1,
    "few": 3,
    "couple of": 2,
}
_NUMBER: Final = rf"(?P<n>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_DIGITS: Final = str.maketrans("０１２３４５６７８９〇一二三四五六七八九", "01234567890123456789")


class FoundDate(NamedTuple):
    """A date in a text: the days that it means, both included, and the range of its words."""

    first: date
    last: date
    start: int
    end: int


def _day(day: date) -> tuple[date, date]:
    return day, day


def _week(day: date) -> tuple[date, date]:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)


def _month(year: int, month: int) -> tuple[date, date]:
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    following = date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, 1), following - timedelta(days=1)


def _year(year: int) -> tuple[date, date]:
    return date(year, 1, 1), date(year, 12, 31)


def _unit(base: date, unit: str, count: int) -> tuple[date, date]:
    """Return the day, week, month or year that is `count` units away."""
    match unit[0].lower() if unit.isascii() else unit[0]:
        case "d" | "日":
            return _day(base + timedelta(days=count))
        case "w" | "週":
            return _week(base + timedelta(weeks=count))
        case "m" | "か" | "ヶ" | "カ" | "ヵ" | "月":
            return _month(base.year, base.month + count)
        case _:
            return _year(base.year + count)


def _count(text: str) -> int:
    word = text.lower().translate(_DIGITS)
    return int(word) if word.isdigit() else _NUMBERS.get(word, 1)


def _weekday(base: date, match: re.Match[str]) -> tuple[date, date]:
    wanted = _DAYS.index(match["weekday"].lower())
    back = (base.weekday() - wanted) % 7 or 7
    if match["which"].lower() == "next":
        return _day(base + timedelta(days=(wanted - base.weekday()) % 7 or 7))
    if match["which"].lower() == "this":
        return _day(base + timedelta(days=wanted - base.weekday()))
    return _day(base - timedelta(days=back))


def _named_month(base: date, match: re.Match[str]) -> tuple[date, date]:
    """Return the month, or the day, that is named; without a year the last one that has begun."""
    month = next(n for n, name in enumerate(_MONTHS, start=1) if name.startswith(match["month"].lower()[:3]))
    day = match["day"] or match["day2"]
    year = int(match["year"]) if match["year"] else base.year - (month > base.month)
    return _day(date(year, month, int(day))) if day else _month(year, month)


def _japanese_date(base: date, match: re.Match[str]) -> tuple[date, date]:
    month = int(match["month"].translate(_DIGITS))
    year = int(match["year"].translate(_DIGITS)) if match["year"] else base.year - (month > base.month)
    return _day(date(year, month, int(match["day"].translate(_DIGITS)))) if match["day"] else _month(year, month)


_WORDS: Final[Mapping[str, tuple[str, int]]] = {
    "yesterday": ("day", -1),
    "last night": ("day", -1),
    "today": ("day", 0),
    "tonight": ("day", 0),
    "this morning": ("day", 0),
    "tomorrow": ("day", 1),
    "the day before yesterday": ("day", -2),
    "the day after tomorrow": ("day", 2),
    "一昨日": ("日", -2),
    "おととい": ("日", -2),
    "昨日": ("日", -1),
    "昨夜": ("日", -1),
    "昨晩": ("日", -1),
    "今日": ("日", 0),
    "今朝": ("日", 0),
    "明日": ("日", 1),
    "明後日": ("日", 2),
    "先々週": ("週", -2),
    "先週": ("週", -1),
    "今週": ("週", 0),
    "来週": ("週", 1),
    "先々月": ("月", -2),
    "先月": ("月", -1),
    "今月": ("月", 0),
    "来月": ("月", 1),
    "一昨年": ("年", -2),
    "去年": ("年", -1),
    "昨年": ("年", -1),
    "今年": ("年", 0),
    "来年": ("年", 1),
}
_LONGEST_FIRST: Final = sorted(_WORDS, key=len, reverse=True)
_ENGLISH_WORDS: Final = "|".join(word for word in _LONGEST_FIRST if word.isascii())
_JAPANESE_WORDS: Final = "|".join(word for word in _LONGEST_FIRST if not word.isascii())
_WHICH: Final = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1}

_Meaning = Callable[[date, re.Match[str]], tuple[date, date]]
_UNITS: Final = ("day", "week", "month", "year")
_PATTERNS: Final[tuple[tuple[tuple[str, ...], re.Pattern[str], _Meaning], ...]] = (
    (
        ("-",),
        re.compile(r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b"),
        lambda _, m: _day(date(int(m["year"]), int(m["month"]), int(m["day"]))),
    ),
    (
        ("day", "night", "morning", "tomorrow", *"日夜晩朝週月年", "おととい"),
        re.compile(rf"\b({_ENGLISH_WORDS})\b|({_JAPANESE_WORDS})", re.I),
        lambda base, m: _unit(base, *_WORDS[m[0].lower()]),
    ),
    (
        _UNITS,
        re.compile(r"\b(?P<which>last|past|this|next|previous)\s+(?P<unit>week|month|year)\b", re.I),
        lambda base, m: _unit(base, m["unit"], _WHICH[m["which"].lower()]),
    ),
    (("day",), re.compile(rf"\b(?P<which>last|this|next)\s+(?P<weekday>{'|'.join(_DAYS)})\b", re.I), _weekday),
    (
        ("ago",),
        re.compile(rf"\b{_NUMBER}\s+(?P<unit>day|week|month|year)s?\s+ago\b", re.I),
        lambda base, m: _unit(base, m["unit"], -_count(m["n"])),
    ),
    (
        _UNITS,
        re.compile(rf"\bin\s+{_NUMBER}\s+(?P<unit>day|week|month|year)s?\b", re.I),
        lambda base, m: _unit(base, m["unit"], _count(m["n"])),
    ),
    (
        tuple(name[:3] for name in _MONTHS),
        re.compile(
            rf"\b(?:(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\s+)?(?P<month>{_MONTH})\b\.?"
            r"(?:\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?\b)?(?:,?\s+(?P<year>\d{4})\b)?",
            re.I,
        ),
        _named_month,
    ),
    (
        ("月",),
        re.compile(r"(?:(?P<year>[\d０-９]{4})年)?(?P<month>[\d０-９]{1,2})月(?:(?P<day>[\d０-９]{1,2})日)?"),
        _japanese_date,
    ),
    (
        ("前",),
        re.compile(r"(?P<n>[\d０-９〇一二三四五六七八九]{1,3})(?P<unit>日|週間|[かヶカヵ]月|年)前"),
        lambda base, m: _unit(base, m["unit"], -_count(m["n"])),
    ),
)
"""What a text must hold, in small letters, to have such a date; the pattern; and what it means."""
_ANY_PART: Final = re.compile("|".join(sorted({re.escape(part) for parts, *_ in _PATTERNS for part in parts})))
_AMBIGUOUS: Final = frozenset({"may", "mar", "march", "jan", "sep", "dec", "jun", "jul"})
"""Words that are also other words or names: alone they mean a month only after a preposition."""
_PREPOSITION: Final = re.compile(r"\b(in|on|since|until|by|last|this|next|of|during|for)\s+$", re.I)


def find_dates(text: str, *, at: Instant) -> list[FoundDate]:
    """Return the dates that `text`, said at a time, names, in its order; those that do not exist are left out."""
    found: list[FoundDate] = []
    small = text.lower()
    if _ANY_PART.search(small) is None:
        return found
    possible = [each for each in _PATTERNS if any(part in small for part in each[0])]
    base = datetime.fromisoformat(at).astimezone(UTC).date()
    for _, pattern, meaning in possible:
        for match in pattern.finditer(text):
            if match[0].lower() in _AMBIGUOUS and not _PREPOSITION.search(text[: match.start()][-12:]):
                continue
            try:
                first, last = meaning(base, match)
            except (ValueError, OverflowError):
                continue
            if not any(match.start() < other.end and other.start < match.end() for other in found):
                found.append(FoundDate(first, last, match.start(), match.end()))
    return sorted(found, key=lambda each: each.start)


def find_occurrence(text: str, *, at: Instant) -> tuple[Instant | None, Instant | None]:
    """Return the span of time that `text` is about, from its first to its last day."""
    found = find_dates(text, at=at)
    if not found:
        return None, None
    first, last = found[0].first, found[0].last
    return Instant(f"{first.isoformat()}T00:00:00.000Z"), Instant(f"{last.isoformat()}T23:59:59.999Z")
