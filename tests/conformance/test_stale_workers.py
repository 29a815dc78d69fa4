"""A worker that has lost its lease can write nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Commit, Committed, Lease
from holdfast.domain.errors import LeaseLost
from holdfast.domain.ids import InterruptId, RunId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits, Usage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, claim, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    QUEUED,
    WAITING,
    WAITING_FOR_PERSON,
    commit,
    context_snapshot,
    model_step,
    new_interrupt,
    running,
)
from tests.conformance.tables import rows_of

LATE = Instant("2030-01-01T00:00:00.000Z")

WRITES: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "a message": {"messages": [assistant("late")]},
    "an event": {"events": text_events("late")},
    "a value": {"values": {"state": {"late": True}}},
    "a step": {"steps": [model_step(7)]},
    "a settled step": {"steps": [model_step(1, StepState.FAILED)]},
    "a read inbox": {"consumed": [1]},
    "usage": {"usage": Usage(input_tokens=1, cost_usd=0.5)},
    "an iteration": {"iterations": 1},
    "an artifact": {"artifacts": [NewArtifact(type=ArtifactType.DOC, title="late", content="late")]},
    "a timer": {"timers": [NewTimer(kind="wake", due_at=LATE)]},
    "a stopped timer": {"cancelled_timers": [TimerId("alarm")]},
    "an interrupt": {"interrupts": [new_interrupt("late")], "move": WAITING_FOR_PERSON, "consumed": [1]},
    "the queue": {"move": QUEUED},
    "a delay": {"move": Move(to=RunStatus.QUEUED, wait_until=LATE)},
    "a wait": {"move": WAITING, "consumed": [1]},
    "a wait for a run": {"move": replace(WAITING, waits_on=[RunId("other")]), "consumed": [1]},
    "a withdrawn question": {"withdrawn": [InterruptId("asked")]},
    "a context": {"contexts": [context_snapshot(7, "late")]},
    "a child": {"children": [NewRun(thread=NewThread(), limits=Limits(token_budget=5))]},
    "an end": {"move": COMPLETED, "consumed": [1]},
    "a failure": {"move": FAILED, "consumed": [1]},
}


def made_by(lease: Lease, parts: dict[str, Any]) -> Commit:
    """Return a commit of `parts`, with child runs of its own run."""
    children = [replace(child, parent_run_id=lease.run_id) for child in parts.get("children", ())]
    return Commit(lease=lease, **{**parts, "children": children})


async def another_waits(store: Store) -> None:
    await commit(store, await running(store, id=RunId("other")), move=WAITING)


async def begun(store: Store, timer: str) -> Lease:
    """Claim a run with a message, a step, a timer, a budget and an unread item."""
    lease = await running(store, "begin", limits=Limits(token_budget=100, max_duration_seconds=60))
    alarm = NewTimer(kind="wake", due_at=LATE, id=TimerId(timer))
    await commit(store, lease, messages=[assistant("hello")], steps=[model_step(1)], timers=[alarm])
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    return lease


async def expired(store: Store, clock: HeldClock, lease: Lease) -> None:
    clock.tick(MINUTE)
    await store.leases.expire()


async def taken_over(store: Store, clock: HeldClock, lease: Lease) -> None:
    await expired(store, clock, lease)
    clock.tick(MINUTE)
    await claim(store, SECOND)


async def taken_over_by_the_same_process(store: Store, clock: HeldClock, lease: Lease) -> None:
    await expired(store, clock, lease)
    clock.tick(MINUTE)
    await claim(store, FIRST)


async def released(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.leases.release(lease)


async def queued(store: Store, clock: HeldClock, lease: Lease) -> None:
    await commit(store, lease, move=QUEUED)


async def waiting(store: Store, clock: HeldClock, lease: Lease) -> None:
    await commit(store, lease, consumed=[1], move=WAITING)


async def completed(store: Store, clock: HeldClock, lease: Lease) -> None:
    await commit(store, lease, consumed=[1], move=COMPLETED)


async def ended(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.runs.end(SPACE, lease.run_id)


async def ended_and_let_go(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.runs.end(SPACE, lease.run_id)
    await store.leases.release(lease)


async def deleted(store: Store, clock: HeldClock, lease: Lease) -> None:
    await ended_and_let_go(store, clock, lease)
    await store.runs.delete(SPACE, lease.run_id)


WAYS = [
    expired,
    taken_over,
    taken_over_by_the_same_process,
    released,
    queued,
    waiting,
    completed,
    ended,
    ended_and_let_go,
    deleted,
]


@pytest.mark.parametrize("lose", WAYS, ids=lambda way: way.__name__)
async def test_a_lost_lease_writes_nothing(
    store: Store,
    clock: HeldClock,
    where: str | Path,
    lose: Callable[[Store, HeldClock, Lease], Awaitable[None]],
) -> None:
    await another_waits(store)
    lease = await begun(store, "alarm")
    await lose(store, clock, lease)
    before = await rows_of(where)
    for write, parts in WRITES.items():
        with pytest.raises(LeaseLost):
            await store.journal.commit(made_by(lease, parts))
        assert await rows_of(where) == before, f"{write} was written"
    with pytest.raises(LeaseLost):
        await store.journal.inbox(lease)
    assert await store.leases.renew(FIRST, [lease], lease=MINUTE) == []
    if lose is not ended:
        with pytest.raises(LeaseLost):
            await store.leases.release(lease)
    assert await rows_of(where) == before


async def test_every_write_refused_for_a_lost_lease_is_accepted_for_a_held_one(store: Store) -> None:
    await another_waits(store)
    for number, parts in enumerate(WRITES.values()):
        lease = await begun(store, f"alarm-{number}")
        await store.journal.commit(made_by(lease, parts))
        if "move" not in parts or parts["move"].to is RunStatus.QUEUED:
            await store.runs.end(SPACE, lease.run_id)


async def test_a_stale_commit_does_not_affect_others_in_its_batch(store: Store, clock: HeldClock) -> None:
    stale = await running(store)
    await expired(store, clock, stale)
    await claim(store, SECOND)  # else the next claim gets it, too
    held = [await running(store) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(commit(store, lease, events=text_events("hi")) for lease in [held[0], stale, *held[1:]]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, LeaseLost, Committed, Committed]
    assert [len(await store.events.after(SPACE, lease.run_id)) for lease in [stale, *held]] == [1, 4, 4, 4]
