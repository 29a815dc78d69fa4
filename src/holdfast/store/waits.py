"""Waits in SQL: for whom a run waits, and that nobody waits for himself.

Whoever begins to wait holds every run that its targets depend on. So of those who would wait for each other in a
circle, one comes last and sees it.
"""

from collections.abc import Iterable, Sequence

from holdfast.domain.commit import Lease
from holdfast.domain.errors import WouldDeadlock
from holdfast.domain.ids import RunId, SpaceId
from holdfast.store.run_rows import run_key_of
from holdfast.store.transaction import Transaction


async def runs_ahead(tx: Transaction, waits: Iterable[tuple[SpaceId, Sequence[RunId]]]) -> frozenset[int]:
    """Return what must be held for `waits`: their targets and all that these depend on, as far as it is there."""
    rows = [await tx.one("run_key", space=space, id=target) for space, targets in waits for target in targets]
    return await _ahead(tx, [row["run_key"] for row in rows if row is not None])


async def wait_for(tx: Transaction, lease: Lease, targets: Sequence[RunId], *, held: frozenset[int]) -> None:
    """Keep for whom a run waits; refuse if one of them depends on it, by its base or by a wait of its own."""
    for target in targets:
        key = await run_key_of(tx, lease.space_id, target)
        ahead = await _ahead(tx, [key])
        while not ahead <= held:  # one was made with this commit, or began to wait meanwhile
            await tx.lock(runs=ahead)
            held, ahead = held | ahead, await _ahead(tx, [key])
        if lease.run_key in ahead:
            raise _circle(lease.run_id, target)
        await tx.run("add_wait", run_key=lease.run_key, target_key=key)


async def check_wait(tx: Transaction, waiter: tuple[RunId, int], target: tuple[RunId, int]) -> None:
    """Refuse a wait that is a circle already; one that becomes a circle later is refused when it begins."""
    if waiter[1] in await _ahead(tx, [target[1]]):
        raise _circle(waiter[0], target[0])


def _circle(waiter: RunId, target: RunId) -> WouldDeadlock:
    told = f"run `{target}` waits for run `{waiter}`, which would wait for it: do not wait here"
    return WouldDeadlock(told, run_id=waiter, target=target)


async def _ahead(tx: Transaction, run_keys: Iterable[int]) -> frozenset[int]:
    """Return runs, and all that must go on before they can."""
    seen = set(run_keys)
    following = list(seen)
    while following:
        ahead = {row["run_key"] for row in await tx.all("depends_on", run_key=following.pop())} - seen
        seen |= ahead
        following += ahead
    return frozenset(seen)
