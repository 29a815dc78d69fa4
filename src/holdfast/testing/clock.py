"""A clock for tests that stands still until it is moved."""

from datetime import timedelta

from holdfast.domain.instant import Millis


class HeldClock:
    """`Clock` in the hands of a test."""

    def __init__(self, at: int = 1_750_000_000_000) -> None:
        self._at = at

    def now(self) -> Millis:
        """Return the moment it was moved to."""
        return Millis(self._at)

    def tick(self, by: timedelta) -> None:
        """Move on."""
        self._at += by // timedelta(milliseconds=1)
