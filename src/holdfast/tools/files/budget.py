"""How much a search may look at, and what it had to leave out."""

import time
from collections.abc import Callable
from typing import Final

from holdfast.tools.files.threads import Halt

SECONDS: Final = 20.0
MAX_ENTRIES: Final = 100_000
MAX_BYTES: Final = 512 * 1024 * 1024


class Budget:
    """Spent while a search goes on. What is used up, and what was passed over, is in `notes`."""

    def __init__(self, halt: Halt, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._halt = halt
        self._monotonic = monotonic
        self._until = monotonic() + SECONDS
        self._entries = MAX_ENTRIES
        self._bytes = MAX_BYTES
        self._reasons: dict[str, int] = {}

    @property
    def entries(self) -> int:
        """How many entries of folders may still be looked at."""
        return self._entries

    def spend(self, *, entries: int = 0, bytes: int = 0) -> bool:
        """Take something off; return whether the search may go on."""
        self._entries -= entries
        self._bytes -= bytes
        if self._halt.is_set() or self._monotonic() > self._until:
            self._reasons[f"it took longer than {SECONDS:g} seconds"] = 0
        elif self._entries <= 0:
            self._reasons[f"there are more than {MAX_ENTRIES} files and folders"] = 0
        elif self._bytes <= 0:
            self._reasons[f"there are more than {MAX_BYTES} bytes"] = 0
        else:
            return True
        return False

    def pass_over(self, why: str) -> None:
        """Count something that was not looked at."""
        self._reasons[why] = self._reasons.get(why, 0) + 1

    @property
    def notes(self) -> list[str]:
        """What the result does not have, in words."""
        return [
            f"{count} passed over: {why}" if count else f"the search ended early: {why}: name a smaller folder"
            for why, count in self._reasons.items()
        ]
