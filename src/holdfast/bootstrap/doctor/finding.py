"""A finding of `holdfast doctor`: what was checked, how bad it is, and the remedy."""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and somebody should know."""
    FAILED = "failed"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    about: str
    verdict: Severity
    message: str
    remedy: str | None = None
    """What to do; null where nothing is to be done."""


def ok(about: str, message: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(about=about, verdict=Severity.OK, message=message)


def warning(about: str, message: str, *, remedy: str) -> Finding:
    """Return that something works, but not as people may think."""
    return Finding(about=about, verdict=Severity.WARNING, message=message, remedy=remedy)


def failure(about: str, message: str, *, remedy: str) -> Finding:
    """Return that something does not work."""
    return Finding(about=about, verdict=Severity.FAILED, message=message, remedy=remedy)
