"""Files that are reloaded when they change; while they are invalid, their last valid version stays in use."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.domain.errors import Invalid

POLL_INTERVAL_SECONDS: Final = 0.2
SETTLE_SECONDS: Final = 2.0
"""Time after a change during which every poll reads the file: its timestamp may miss a second quick edit."""

T = TypeVar("T")
Monotonic: TypeAlias = Callable[[], float]
"""A monotonic clock, in seconds."""

_log: Final = logging.getLogger("holdfast.workspace")


class PollThrottle:
    """Limits polling to once per interval."""

    def __init__(self, monotonic: Monotonic, *, seconds: float = POLL_INTERVAL_SECONDS) -> None:
        self._monotonic = monotonic
        self._seconds = seconds
        self._last: float | None = None

    def due(self, *, now: bool = False) -> float | None:
        """Return the time if a poll is due, or if it is forced with `now`; else null."""
        at = self._monotonic()
        if not now and self._last is not None and at - self._last < self._seconds:
            return None
        self._last = at
        return at


class WatchedFiles(Generic[T]):
    """The result of `read` for some files: `value` is the last valid one, `error` the current error."""

    def __init__(
        self, read: Callable[[], T], *, files: Callable[[], Sequence[Path]] | Sequence[Path], required: bool = False
    ) -> None:
        """Watch `files`, which may be a function.

        Errors of `required` files are not logged before the first valid version: the caller raises them.
        """
        self.value: T | None = None
        self.error: Invalid | None = None
        self._read = read
        self._files = files if callable(files) else lambda: files
        self._required = required
        self._stamp: list[tuple[int, int, int] | None] | None = None
        self._since = 0.0
        self._settled = False

    def poll(self, *, at: float) -> None:
        """Read the files if they changed."""
        stamp = [
            _stamp(file) for file in self._files()
        ]  # taken before reading, so that the next poll sees a later edit
        if stamp != self._stamp:
            self._stamp, self._since = stamp, at
        elif self._settled:
            return
        self._settled = at - self._since >= SETTLE_SECONDS
        try:
            value = self._read()
        except Invalid as exc:
            is_new = self.error is None or self.error.message != exc.message
            if is_new and not (self._required and self.value is None):
                effect = "cannot be used" if self.value is None else "the last valid version stays in use"
                _log.warning("%s (%s)", exc, effect)
            self.error = exc
            return
        if self.error is not None:
            _log.info("%s: is valid again", self.error.details["file"])
        self.error = None
        if value != self.value:
            self.value = value

    def get(self) -> T:
        """Return the last valid value, or raise the error if there never was one."""
        if self.value is not None:
            return self.value
        assert self.error is not None  # every poll sets one of them
        raise self.error.with_traceback(None)  # the same error is raised repeatedly


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
