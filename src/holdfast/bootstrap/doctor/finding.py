"""A finding of `holdfast doctor`: the subject, the severity, a message and the remedy."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

ANNOUNCE_SECONDS: Final = 1.0
"""What takes longer is announced."""
Announce: TypeAlias = Callable[[str], None]


def ignore(message: str) -> None:
    """Announce nothing."""


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """It works, but the operator should know about it."""
    FAILED = "failed"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    about: str
    verdict: Severity
    message: str
    remedy: str | None = None


def ok(about: str, message: str) -> Finding:
    """Return the finding of a passed check."""
    return Finding(about=about, verdict=Severity.OK, message=message)


def warning(about: str, message: str, *, remedy: str) -> Finding:
    """Return the finding of a check that passed with a caveat."""
    return Finding(about=about, verdict=Severity.WARNING, message=message, remedy=remedy)


def failure(about: str, message: str, *, remedy: str) -> Finding:
    """Return the finding of a failed check."""
    return Finding(about=about, verdict=Severity.FAILED, message=message, remedy=remedy)
