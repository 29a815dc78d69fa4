"""Files that are reloaded when they change; while they are invalid, their last valid version stays in use."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.domain.errors import Invalid

POLL_INTERVAL_SECONDS: Final = 0.2
SETTLE_SECONDS: Final = 2.0
"""Seconds for which a file is read at every look: its time may not tell two quick edits apart."""

T = TypeVar("T")
Monotonic: TypeAlias = Callable[[], float]
"""Seconds that only go up."""

_log: Final = logging.getLogger("holdfast.workspace")


class PollThrottle:
    """How often files are looked at: not more often than every 200 ms, unless somebody insists."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._last: float | None = None

    def due(self, *, now: bool = False) -> float | None:
        """Return the time if it is time to look, or if it has to be now."""
        at = self._monotonic()
        if not now and self._last is not None and at - self._last < POLL_INTERVAL_SECONDS:
            return None
        self._last = at
        return at


class WatchedFiles(Generic[T]):
    """What `read` makes of some files: `value` as they were when they were last good, `error` as they are now."""

    def __init__(self, read: Callable[[], T], *, files: Sequence[Path], required: bool = False) -> None:
        """What is `needed` is not logged while there never was one: whoever cannot go on without it says so."""
        self.value: T | None = None
        self.error: Invalid | None = None
        self._read = read
        self._files = files
        self._required = required
        self._stamp: list[tuple[int, int, int] | None] | None = None
        self._since = 0.0
        self._settled = False

    def poll(self, *, at: float) -> None:
        """Read the files if they changed."""
        stamp = [_stamp(file) for file in self._files]  # before they are read: a later edit is then seen next time
        if stamp != self._stamp:
            self._stamp, self._since = stamp, at
        elif self._settled:
            return
        self._settled = at - self._since >= SETTLE_SECONDS
        self._load()

    def get(self) -> T:
        """Return the value, or raise what is wrong if there never was one."""
        if self.value is not None:
            return self.value
        assert self.error is not None  # every look leaves one or the other
        raise self.error.with_traceback(None)  # it is raised again and again

    def _load(self) -> None:
        try:
            value = self._read()
        except Invalid as exc:
            self._fail(exc)
            return
        if self.error is not None:
            _log.info("%s: is good again", self.error.details["file"])
        self.error = None
        if value != self.value:
            self.value = value

    def _fail(self, error: Invalid) -> None:
        known = self.error is not None and self.error.message == error.message
        if not known and not (self._required and self.value is None):
            _log.warning("%s (%s)", error, "cannot be used" if self.value is None else "the last good version is used")
        self.error = error


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
