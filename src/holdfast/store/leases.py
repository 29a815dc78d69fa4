"""Leases in SQL."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import structs

from holdfast.domain.commit import Lease
from holdfast.domain.errors import Invalid, LeaseLost
from holdfast.domain.ids import OwnerId, RunId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.limits import ATTEMPT_CAP, attempts_used_up, backoff
from holdfast.domain.page import check_limit
from holdfast.domain.run import RunError, RunStatus
from holdfast.metrics.meters import Meters
from holdfast.ports.leases import QueueState
from holdfast.store.claims import CLAIMS, Claim
from holdfast.store.endings import Ending, end_trees, let_dependants_go
from holdfast.store.transaction import Database, Row, Transaction

_MILLISECOND: Final = timedelta(milliseconds=1)


class SqlLeases:
    """`Leases`."""

    def __init__(self, database: Database, meters: Meters) -> None:
        self._database = database
        self._meters = meters

    async def claim(self, owner: OwnerId, *, lease: timedelta, limit: int = 1) -> list[Lease]:
        """Lease queued runs to `owner`, the most urgent first."""
        check_limit(limit, most=1000)
        claimed = await self._database.together(CLAIMS, Claim(owner, _length(lease), limit))
        self._meters.claimed.add(len(claimed))
        return claimed

    async def renew(self, owner: OwnerId, leases: Sequence[Lease], *, lease: timedelta) -> list[Lease]:
        """Extend leases and return those that still hold."""
        length = _length(lease)

        async def extend(tx: Transaction) -> list[Lease]:
            rows = await tx.many(
                "renew_leases", [(tx.lease_now, length, held.run_key, held.number, owner) for held in leases]
            )
            expiry = {(row["run_key"], row["lease_number"]): instant(row["lease_expires_at"]) for row in rows}
            held = [lease for lease in leases if (lease.run_key, lease.number) in expiry]
            return [structs.replace(lease, expires_at=expiry[lease.run_key, lease.number]) for lease in held]

        return await self._database.write(extend)

    async def release(self, lease: Lease, *, delay: timedelta = timedelta()) -> None:
        """Give a run back, or say that the worker of an ended one has let go."""

        async def give_back(tx: Transaction) -> None:
            await tx.lock(threads=[lease.thread_key], runs=[lease.run_key])
            wait = tx.now + delay // _MILLISECOND if delay else None
            row = await tx.one(
                "release_head", run_key=lease.run_key, lease_number=lease.number, now=tx.now, wait_until=wait
            )
            if row is not None:
                tx.wake(run=(lease.space_id, lease.run_id), queue=not delay, delayed=bool(delay))
            elif not await _let_go(tx, lease.run_key, lease.number + 1):  # `end` raised it
                raise LeaseLost(f"lease {lease.number} of run `{lease.run_id}` is lost", run_id=lease.run_id)

        try:
            await self._database.write(give_back)
        except LeaseLost:
            self._meters.leases_lost.add()
            raise

    async def expire(self, *, cap: int = ATTEMPT_CAP) -> list[RunId]:
        """Take back what dead workers held."""
        expired = await self._database.read(_expired)
        taken = [RunId(row["id"]) for row in expired if await self._take_back(row, cap=cap)]
        self._meters.leases_expired.add(len(taken))
        return taken

    async def queue(self) -> QueueState:
        """Return whether a run may be claimed."""

        async def look(tx: Transaction) -> QueueState:
            row = await tx.one("queue_state", now=tx.lease_now)
            assert row is not None
            return QueueState(ready=bool(row["ready"]), next_at=maybe_instant(row["next_at"]))

        return await self._database.read(look)

    async def _take_back(self, expired: Row, *, cap: int) -> bool:
        return await self._database.write(lambda tx: take_back(tx, expired, cap=cap))


async def take_back(tx: Transaction, expired: Row, *, cap: int, at_once: bool = False) -> bool:
    """Free a run whose worker is dead, if nothing happened to it since `expired` was read."""
    run_key = expired["run_key"]
    if RunStatus(expired["status"]).terminal:
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _let_go(tx, run_key, expired["lease_number"])
    if attempts_used_up(expired["attempt"], cap):
        return await _give_up(tx, expired)
    delay = None if at_once else tx.now + backoff(expired["attempt"])
    row = await tx.one(
        "requeue_expired",
        run_key=run_key,
        lease_number=expired["lease_number"],
        seen_expiry=expired["lease_expires_at"],
        wait_until=delay,
        now=tx.now,
    )
    if row is None:  # it was renewed, or ended with its parent
        await tx.lock(threads=[expired["thread_key"]], runs=[run_key])
        return await _let_go(tx, run_key, expired["lease_number"] + 1)
    tx.wake(queue=at_once, delayed=not at_once)
    return True


async def free_all(tx: Transaction, *, cap: int) -> None:
    """Free every run and every timer at once: the process that held them is gone."""
    for head in await tx.all("expired_heads", now=2**62):
        await take_back(tx, head, cap=cap, at_once=True)
    await tx.run("free_timers")


async def _expired(tx: Transaction) -> Sequence[Row]:
    return await tx.all("expired_heads", now=tx.lease_now)


async def _give_up(tx: Transaction, expired: Row) -> bool:
    tried = expired["attempt"]
    message = f"the run was started {tried} times and its worker died each time before a step settled"
    error = RunError(code="ATTEMPTS_EXHAUSTED", message=message)
    await tx.lock(threads=[expired["thread_key"]], runs=[expired["run_key"]])
    head = await tx.one("head", run_key=expired["run_key"])
    if head is None or head["lease_expires_at"] != expired["lease_expires_at"]:
        return False
    await end_trees(tx, [expired["run_key"]], Ending(to=RunStatus.FAILED, reason="attempts exhausted", error=error))
    return await _let_go(tx, expired["run_key"], expired["lease_number"] + 1)


async def _let_go(tx: Transaction, run_key: int, lease_number: int) -> bool:
    if await tx.one("let_go", run_key=run_key, lease_number=lease_number) is None:
        return False
    await let_dependants_go(tx, [run_key])
    return True


def _length(lease: timedelta) -> int:
    if lease < _MILLISECOND:
        raise Invalid("a lease must last at least a millisecond", field="lease")
    return lease // _MILLISECOND
