"""In any order of two writers' statements, an interrupt is closed in one way only."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from holdfast.domain.commit import Committed
from holdfast.domain.errors import AlreadyAnswered
from holdfast.domain.ids import InterruptId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import claim
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.barriers import Barrier, open_barrier_store
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt, running, seconds_from_now


@pytest.fixture
async def two(store: Store, where: str, clock: HeldClock) -> AsyncIterator[TwoWriters]:
    """Yield two writers; the clock of the first is a minute behind."""
    barriers, clocks = [Barrier(), Barrier()], [HeldClock(clock.now() - 60_000), clock]
    async with AsyncExitStack() as stack:
        watcher = await asyncpg.connect(where)
        stack.push_async_callback(watcher.close)
        first, second = [
            await stack.enter_async_context(open_barrier_store(barrier, where, clock=clock))
            for barrier, clock in zip(barriers, clocks, strict=True)
        ]
        yield TwoWriters(first, second, barriers=barriers, watcher=watcher)


async def test_a_response_is_accepted_or_the_default_is_used(two: TwoWriters, store: Store, clock: HeldClock) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        name = InterruptId(f"question-{lease.run_key}")
        await commit(
            store,
            lease,
            interrupts=[new_interrupt(name, default="no", expires_at=seconds_from_now(clock, 0))],
            move=WAITING_FOR_PERSON,
        )

        async def check(answered: object, closed: object) -> None:
            won = isinstance(answered, Interrupt)
            seen.add(won)
            assert won or isinstance(answered, AlreadyAnswered)
            assert closed == ([] if won else [name])
            status = InterruptStatus.ANSWERED if won else InterruptStatus.EXPIRED
            assert (await store.interrupts.get(SPACE, name)).status is status
            (item,) = await store.journal.inbox(await claim(store))
            assert isinstance(item.data, dict)
            assert item.data["response"] == ("yes" if won else "no")
            await store.runs.end(SPACE, lease.run_id)

        return (
            two.first.interrupts.respond(SPACE, name, InterruptResponse(response="yes")),
            two.second.interrupts.expire(),
            check,
        )

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_response_is_accepted_or_the_interrupt_is_withdrawn(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        name = InterruptId(f"question-{lease.run_key}")
        await commit(store, lease, interrupts=[new_interrupt(name)], move=WAITING_FOR_PERSON)
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="never mind")
        again = await claim(store)

        async def check(answered: object, withdrew: object) -> None:
            won = isinstance(answered, Interrupt)
            seen.add(won)
            assert won or isinstance(answered, AlreadyAnswered)
            assert isinstance(withdrew, Committed)
            status = InterruptStatus.ANSWERED if won else InterruptStatus.CANCELLED
            assert (await store.interrupts.get(SPACE, name)).status is status
            assert withdrew.unread == len(await store.journal.inbox(again)) == int(won)
            await store.runs.end(SPACE, lease.run_id)

        first = two.first.interrupts.respond(SPACE, name, InterruptResponse(response="yes"))
        return first, commit(two.second, again, consumed=[1], withdrawn=[name]), check

    await two.explore(scene)
    assert seen == {True, False}
