"""What time it is."""

from typing import Protocol

from holdfast.domain.instant import Millis


class Clock(Protocol):
    """The time of this process."""

    def now(self) -> Millis:
        """Return the present moment in UTC."""
