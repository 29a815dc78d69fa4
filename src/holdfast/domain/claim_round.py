"""The order in which claims serve the spaces that wait: in rounds, each space with its weight.

    spaces that wait    3   7   7'  12 …          7 and 7' are two pools of one space
    a round             3   7   7   12            weights 1, 2 and 1
    the next claim begins where the last one stopped

Only the spaces that a claim serves are looked at, so a claim costs what it takes, however much waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple


class ReadyPool(NamedTuple):
    """The claimable runs of a space in one pool."""

    space_key: int
    pool: str
    queue_key: int
    """The position of its next run; the smallest of a space is claimed first."""
    weight: int
    max_running: int | None
    """The limit of the space of runs at work."""


class ClaimRound:
    """Where the claims of one process stand in their round. A restart begins a new round, which loses nothing."""

    def __init__(self) -> None:
        self.space_key = 0
        """The space to serve next, or the first one after it that waits."""
        self._taken = 0
        """Runs that this space has had of its turn."""

    def in_order(self, entries: Iterable[ReadyPool]) -> list[list[ReadyPool]]:
        """Return the entries of each space, in the order of the round and of their next runs."""
        ordered = sorted(entries, key=lambda each: (each.space_key < self.space_key, each.space_key, each.queue_key))
        return [list(own) for _, own in groupby(ordered, key=lambda entry: entry.space_key)]

    def share(
        self, spaces: Sequence[Sequence[ReadyPool]], limit: int, *, room: Mapping[int, int], complete: bool
    ) -> dict[ReadyPool, int]:
        """Split `limit` runs among spaces in their turns, none more than it has `room` for.

        The next claim begins after the last turn: with the first space again, if that was the last of all that wait
        (`complete`).
        """
        shares: dict[ReadyPool, int] = {}
        last = max((own[0].space_key for own in spaces), default=0)
        while limit > 0:
            waiting = [own[0] for own in spaces if shares.get(own[0], 0) < room.get(own[0].space_key, 2**62)]
            if not waiting:
                break
            for entry in waiting:
                had, taken = shares.get(entry, 0), self._taken if entry.space_key == self.space_key else 0
                turn = limit if len(waiting) == 1 else min(max(entry.weight - taken, 1), limit)
                turn = min(turn, room.get(entry.space_key, 2**62) - had)
                shares[entry], limit = had + turn, limit - turn
                if not limit and taken + turn < entry.weight:
                    self.space_key, self._taken = entry.space_key, taken + turn
                else:
                    self.space_key, self._taken = 0 if complete and entry.space_key == last else entry.space_key + 1, 0
                if not limit:
                    break
        return shares
