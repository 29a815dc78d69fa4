"""Claims in SQL: find the spaces that wait, share a claim among them, and take the most urgent runs of each.

    ready_pools ──► shares of a round ──► claim_heads ──► a space had fewer: share the rest among the others

In the usual case, one space that waits, that is two statements. Neither reads a run that is not taken.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.claim_round import ClaimRound, ReadyPool
from holdfast.domain.ids import OwnerId
from holdfast.domain.worker import ClaimFilter
from holdfast.ports.queue import TokenBinding
from holdfast.store.transaction import Row, Transaction

AFFINITY_MS: Final = 2_000
"""How long a queued run is left to the worker that has its working folder."""


class ClaimRequest(msgspec.Struct, frozen=True, eq=False):
    """A worker's request for up to `limit` runs."""

    owner: OwnerId
    lease_ms: int
    limit: int
    where: ClaimFilter
    turns: ClaimRound
    binding: TokenBinding | None = None


async def claim_heads(tx: Transaction, request: ClaimRequest, *, limit: int) -> list[Row]:
    """Lease up to `limit` runs to the owner of a request, and return their heads, the first turns first."""
    waiting = _WaitingSpaces(request)
    await waiting.find(tx, limit)
    taken: list[Row] = []
    while waiting.spaces:
        left = limit - len(taken)
        shares = request.turns.share(waiting.spaces, left, room=waiting.room, complete=waiting.complete)
        values = [
            (request.owner, tx.lease_now, request.lease_ms, entry.pool, entry.space_key, AFFINITY_MS, share)
            for entry, share in shares.items()
        ]
        rows = await tx.many("claim_heads", values)
        taken += _in_turn(rows, shares)
        if len(taken) == limit:
            break
        waiting.note_taken(shares, Counter((row["space_key"], row["pool"]) for row in rows))
    tx.hints.add(emptied=len(taken) < limit and waiting.complete and not waiting.others)
    return taken


def _in_turn(rows: Iterable[Row], shares: Mapping[ReadyPool, int]) -> list[Row]:
    turn = {(entry.space_key, entry.pool): index for index, entry in enumerate(shares)}
    return sorted(rows, key=lambda row: (turn[row["space_key"], row["pool"]], row["queue_key"], row["run_key"]))


class _WaitingSpaces:
    """The spaces that wait and have room, in the order of the round; no more of them than a claim can serve."""

    def __init__(self, request: ClaimRequest) -> None:
        self._where = request.where
        self._turns = request.turns
        self.spaces: list[list[ReadyPool]] = []
        self.room: dict[int, int] = {}
        """How many more runs may be at work, for the spaces with a limit."""
        self.complete = False
        """Whether every space that waits was looked at."""
        self.others = False
        """Whether runs wait that this claim may not take, or not now."""

    async def find(self, tx: Transaction, limit: int) -> None:
        """Find up to `limit` spaces."""
        if self._where.spaces is not None:
            await self._find_bound(tx, self._where.spaces, limit)
            return
        start = first = self._turns.space_key
        wrapped = first == 0
        while len(self.spaces) < limit:
            entries, last = await self._scan(tx, start, limit - len(self.spaces) + 1)
            if wrapped and first:
                entries = [entry for entry in entries if entry.space_key < first]
            self.spaces += await self._with_room(tx, entries)
            if last is not None and not (wrapped and first and last >= first):
                start = last + 1
            elif wrapped:
                self.complete = len(self.spaces) <= limit
                break
            else:
                start, wrapped = 0, True
        del self.spaces[limit:]

    def note_taken(self, shares: Mapping[ReadyPool, int], taken: Mapping[tuple[int, str], int]) -> None:
        """Keep the spaces that may have more runs, and room for them."""
        left = []
        for own in self.spaces:
            entry = own[0]
            got = taken.get((entry.space_key, entry.pool), 0)
            if entry.space_key in self.room:
                self.room[entry.space_key] -= got
            rest = own[1:] if got < shares.get(entry, 0) else own
            if rest and self.room.get(entry.space_key, 1) > 0:
                left.append(rest)
        self.spaces = left

    async def _find_bound(self, tx: Transaction, spaces: Sequence[str], limit: int) -> None:
        """Find those of some spaces that wait."""
        await tx.run("wake_delayed", now=tx.lease_now)
        names = [(pool, space) for pool in self._where.pools for space in spaces]
        entries = [_to_ready_pool(row, row["pool"]) for row in await tx.many("ready_pools_of_spaces", names)]
        self.spaces = await self._with_room(tx, [entry for entry in entries if entry.queue_key is not None])
        self.complete, self.others = len(self.spaces) <= limit, True
        del self.spaces[limit:]

    async def _scan(self, tx: Transaction, start: int, count: int) -> tuple[list[ReadyPool], int | None]:
        """Return the entries of the first spaces from `start` on; and the last of these spaces, if more may follow."""
        entries: list[ReadyPool] = []
        ends = []
        for pool in self._where.pools:
            rows = await self._rows(tx, pool, start, count)
            if rows[0]["due"]:
                await tx.run("wake_delayed", now=tx.lease_now)
                rows = await self._rows(tx, pool, start, count)
            self.others = self.others or bool(rows[0]["others"])
            found = [_to_ready_pool(row, pool) for row in rows if row["space_key"] is not None]
            entries += found
            if len(found) == count:
                ends.append(found[-1].space_key)
        last = min(ends, default=None)
        return [entry for entry in entries if last is None or entry.space_key <= last], last

    async def _rows(self, tx: Transaction, pool: str, start: int, count: int) -> Sequence[Row]:
        return await tx.all("ready_pools", pool=pool, first=start, limit=count, now=tx.lease_now)

    async def _with_room(self, tx: Transaction, entries: Sequence[ReadyPool]) -> list[list[ReadyPool]]:
        """Return the entries of the spaces that are below their limit, and keep other claims from those with one."""
        keys = [(key,) for key in sorted({entry.space_key for entry in entries if entry.max_running is not None})]
        if keys:
            limits = {row["space_key"]: row["max_running"] for row in await tx.many("lock_space_queues", keys)}
            if len(limits) < len(keys):
                tx.hints.add(queue=True)  # another claim serves a space: what it leaves is claimed after it
            for row in await tx.many("running_of_spaces", keys):
                key = row["space_key"]
                self.room[key] = max((limits.get(key) or 0) - row["running"], 0)
        spaces = self._turns.in_order(entries)
        found = [own for own in spaces if self.room.get(own[0].space_key, 1) > 0]
        self.others = self.others or len(found) < len(spaces)
        return found


def _to_ready_pool(row: Row, pool: str) -> ReadyPool:
    return ReadyPool(
        space_key=row["space_key"],
        pool=pool,
        queue_key=row["queue_key"],
        weight=row["weight"] or 1,
        max_running=row["max_running"],
    )
