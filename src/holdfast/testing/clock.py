"""A clock for tests that stands still until it is moved."""

from datetime import timedelta

from holdfast.domain.instant import Millis


class HeldClock:
    """`Clock` that only a test moves."""

    def __init__(self, at: int = 1_750_000_000_000) -> None:
        self._at = at

    def now(self) -> Millis:
        """Return the current time of the clock."""
        return Millis(self._at)

    def step_back(self, duration: timedelta) -> None:
        """Set the clock back, as a correction of a machine's clock does."""
        self._at -= duration // timedelta(milliseconds=1)

    def tick(self, duration: timedelta) -> None:
        """Move the clock forward."""
        self._at += duration // timedelta(milliseconds=1)
