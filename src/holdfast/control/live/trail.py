"""A trail: which tasks of a session were told, and how far.

    task_a:12,task_c:4      `task_a` up to 12, `task_c` up to 4, `task_b` between them to its end

A session is a thread, whose runs have numbers of their own and may go on side by side. Its cursor names those that
were not told to their end, and at last the newest. Whatever is older and not named was told, or was never asked for.
"""

import re
from typing import Final

from holdfast.control.feeds.errors import BadCursor
from holdfast.control.task_contract.ids import run_id_of, task_id_of
from holdfast.domain.ids import RunId

ALL: Final = "0"
"""The cursor before everything."""

_PAIR: Final = re.compile(r"([A-Za-z0-9_-]{1,128}):([0-9]{1,15})")
_MOST: Final = 100


class Trail:
    """How far a session was told."""

    def __init__(self, positions: dict[RunId, int], newest: RunId | None, *, last: int = 0) -> None:
        """Go on from `positions`, with the `newest` task told up to `last`."""
        self.positions = positions
        """Of the tasks that were not told to their end."""
        self.newest = newest
        self._last = last

    def begin(self, run: RunId) -> None:
        """Go on to the next run of the session."""
        self.positions[run] = 0
        self.newest, self._last = run, 0

    def move(self, run: RunId, seq: int) -> None:
        """Have told a run so far."""
        self.positions[run] = seq
        if run == self.newest:
            self._last = seq

    def end(self, run: RunId) -> None:
        """Have told all of a run."""
        self.positions.pop(run, None)

    def cursor(self) -> str:
        """Return it as a cursor."""
        if self.newest is None:
            return ALL
        named = {**{run: seq for run, seq in self.positions.items() if run != self.newest}, self.newest: self._last}
        return ",".join(f"{task_id_of(run)}:{seq}" for run, seq in named.items())


def trail_of(cursor: str) -> Trail:
    """Return the trail that a cursor stands for; raise `BadCursor` if it is none."""
    if cursor == ALL:
        return Trail({}, None)
    pairs = [_PAIR.fullmatch(part) for part in cursor.split(",", _MOST)]
    found = {run_id_of(pair[1]): int(pair[2]) for pair in pairs if pair is not None}
    if len(found) != len(pairs):
        raise BadCursor("the cursor of a session must be one that an event came with", after=cursor[:64])
    newest = next(reversed(found))
    return Trail(found, newest, last=found[newest])
