"""Expiry and withdrawal of interrupts."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.ids import InterruptId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, claim, text_events
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import (
    COMPLETED,
    WAITING_FOR_PERSON,
    commit,
    get,
    new_interrupt,
    running,
    seconds_from_now,
    status,
    waiting_run,
)
from tests.conformance.tables import rows_of

QUESTION = InterruptId("question")
MILLISECOND = timedelta(milliseconds=1)


async def question(store: Store, name: InterruptId = QUESTION) -> Interrupt:
    return await store.interrupts.get(SPACE, name)


async def answer(store: Store, name: InterruptId = QUESTION, by: str | None = None) -> Interrupt:
    return await store.interrupts.respond(SPACE, name, InterruptResponse(response="yes", by=by))


async def read(store: Store, run: Run) -> list[InboxItem]:
    """Return the inbox of a run that was woken."""
    return await store.journal.inbox(await claim_run(store, run))


async def test_an_expired_interrupt_gives_its_run_the_default(store: Store, clock: HeldClock) -> None:
    run = await waiting_run(store, default={"approved": False}, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == [QUESTION]
    closed = await question(store)
    assert (closed.status, closed.response, closed.answered_by, closed.answered_at) == (
        InterruptStatus.EXPIRED,
        None,
        None,
        None,
    )
    assert await status(store, run.id) is RunStatus.QUEUED
    (item,) = await read(store, run)
    assert (item.kind, item.created_by, item.created_at) == (InboxKind.RESPONSE, None, seconds_from_now(clock, 0))
    assert item.data == {"interrupt_id": "question", "response": {"approved": False}, "expired": True}


async def test_without_a_default_the_outcome_is_null(store: Store, clock: HeldClock) -> None:
    run = await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE)
    await store.interrupts.expire()
    (item,) = await read(store, run)
    assert item.data == {"interrupt_id": "question", "response": None, "expired": True}


async def test_an_interrupt_is_open_until_it_expires(store: Store, where: str | Path, clock: HeldClock) -> None:
    await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE - MILLISECOND)
    before = await rows_of(where)
    assert await store.interrupts.expire() == []
    assert await rows_of(where) == before
    clock.tick(MILLISECOND)
    assert await store.interrupts.expire() == [QUESTION]


async def test_an_interrupt_expires_once(store: Store, where: str | Path, clock: HeldClock) -> None:
    await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    clock.tick(MINUTE)
    await store.interrupts.expire()
    before = await rows_of(where)
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == []
    with pytest.raises(AlreadyAnswered):
        await answer(store)
    assert await rows_of(where) == before


async def test_an_answered_or_closed_interrupt_does_not_expire(
    store: Store, where: str | Path, clock: HeldClock
) -> None:
    await waiting_run(store, "answered", expires_at=seconds_from_now(clock, 60))
    ended = await waiting_run(store, "ended", expires_at=seconds_from_now(clock, 60))
    await answer(store, InterruptId("answered"))
    await store.runs.end(SPACE, ended.id)
    clock.tick(2 * MINUTE)
    before = await rows_of(where)
    assert await store.interrupts.expire() == []
    assert await rows_of(where) == before


async def test_at_most_the_limit_expires_at_once_earliest_first(store: Store, clock: HeldClock) -> None:
    for name, seconds in (("c", 3), ("a", 1), ("b", 2), ("later", 120)):
        await waiting_run(store, name, expires_at=seconds_from_now(clock, seconds))
    clock.tick(MINUTE)
    assert await store.interrupts.expire(limit=2) == ["a", "b"]
    assert await store.interrupts.expire(limit=2) == ["c"]
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid):
            await store.interrupts.expire(limit=limit)


async def test_interrupts_of_all_spaces_expire(store: Store, clock: HeldClock) -> None:
    for space in (SPACE, OTHER):
        await store.runs.create(space, NewRun(thread=NewThread()))
        await commit(
            store,
            await claim(store),
            interrupts=[new_interrupt(f"of-{space}", expires_at=seconds_from_now(clock, 1))],
            move=WAITING_FOR_PERSON,
        )
    clock.tick(MINUTE)
    assert sorted(await store.interrupts.expire()) == ["of-acme", "of-other"]


async def test_the_next_expiry_is_that_of_the_earliest_open_interrupt(store: Store, clock: HeldClock) -> None:
    assert await store.interrupts.next_expiry() is None
    await waiting_run(store, "late", expires_at=seconds_from_now(clock, 120))
    await waiting_run(store, "soon", expires_at=seconds_from_now(clock, 60))
    assert await store.interrupts.next_expiry() == seconds_from_now(clock, 60)
    await answer(store, InterruptId("soon"))
    assert await store.interrupts.next_expiry() == seconds_from_now(clock, 120)
    clock.tick(2 * MINUTE)
    assert await store.interrupts.next_expiry() == seconds_from_now(clock, 0)
    await store.interrupts.expire()
    assert await store.interrupts.next_expiry() is None


async def test_the_other_interrupt_of_a_run_stays_open(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    questions = [
        new_interrupt("question", expires_at=seconds_from_now(clock, 60)),
        new_interrupt("other", expires_at=seconds_from_now(clock, 90)),
    ]
    await commit(store, lease, interrupts=questions, move=WAITING_FOR_PERSON)
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == [QUESTION]
    assert await status(store, lease.run_id) is RunStatus.QUEUED
    assert (await question(store, InterruptId("other"))).status is InterruptStatus.OPEN
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == ["other"]
    items = await read(store, await get(store, lease.run_id))
    assert [item.number for item in items] == [1, 2]


async def test_an_interrupt_expires_while_its_run_is_running(store: Store, clock: HeldClock) -> None:
    run = await waiting_run(store, default="no", expires_at=seconds_from_now(clock, 60))
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="by the way")
    lease = await claim(store)
    clock.tick(MINUTE - MILLISECOND)
    await store.leases.renew(FIRST, [lease], lease=MINUTE)
    clock.tick(MILLISECOND)
    assert await store.interrupts.expire() == [QUESTION]
    assert await status(store, run.id) is RunStatus.RUNNING
    assert [item.kind for item in await store.journal.inbox(lease)] == [InboxKind.MESSAGE, InboxKind.RESPONSE]


async def test_concurrent_expiries_close_each_interrupt_once(stores: list[Store], clock: HeldClock) -> None:
    runs = [await waiting_run(stores[0], f"q-{number}", expires_at=seconds_from_now(clock, 60)) for number in range(12)]
    clock.tick(MINUTE)
    found = await asyncio.gather(*(stores[n % len(stores)].interrupts.expire() for n in range(10)))
    assert sorted(name for names in found for name in names) == sorted(f"q-{number}" for number in range(12))
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=100)
    assert len(leases) == len(runs)
    assert [len(await stores[0].journal.inbox(lease)) for lease in leases] == [1] * 12


async def test_a_response_or_the_expiry_wins_but_not_both(stores: list[Store], clock: HeldClock) -> None:
    store = stores[0]

    async def pass_time() -> None:
        clock.tick(MINUTE)

    for number in range(10):
        name = InterruptId(f"q-{number}")
        run = await waiting_run(store, name, default="default", expires_at=seconds_from_now(clock, 60))
        outcomes = await asyncio.gather(
            *(answer(stores[n % len(stores)], name) for n in range(4)),
            pass_time(),
            *(stores[n % len(stores)].interrupts.expire() for n in range(4)),
            return_exceptions=True,
        )
        won = sum(isinstance(outcome, Interrupt) for outcome in outcomes)
        assert won + sum(outcome.count(name) for outcome in outcomes if isinstance(outcome, list)) == 1
        (item,) = await read(store, run)
        assert isinstance(item.data, dict)
        assert item.data["response"] == ("yes" if won else "default")
        assert (await question(store, name)).status is (InterruptStatus.ANSWERED if won else InterruptStatus.EXPIRED)


async def test_a_commit_withdraws_an_interrupt_of_its_run(store: Store, clock: HeldClock) -> None:
    run = await waiting_run(store, expires_at=seconds_from_now(clock, 60))
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="never mind")
    lease = await claim(store)
    await commit(store, lease, consumed=[1], withdrawn=[QUESTION])
    assert (await question(store)).status is InterruptStatus.CANCELLED
    with pytest.raises(AlreadyAnswered):
        await answer(store)
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == []
    assert await store.journal.inbox(lease) == []
    await commit(store, lease, move=COMPLETED)


async def test_an_interrupt_may_be_withdrawn_by_the_commit_that_adds_the_next(store: Store) -> None:
    run = await waiting_run(store)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="rather this")
    lease = await claim(store)
    await commit(
        store, lease, consumed=[1], withdrawn=[QUESTION], interrupts=[new_interrupt("next")], move=WAITING_FOR_PERSON
    )
    found = await store.interrupts.of_run(SPACE, run.id)
    assert [(each.id, each.status) for each in found] == [
        ("question", InterruptStatus.CANCELLED),
        ("next", InterruptStatus.OPEN),
    ]


async def test_an_answered_interrupt_stays_answered_when_it_is_withdrawn(store: Store) -> None:
    run = await waiting_run(store)
    await answer(store, by="ann")
    lease = await claim(store)
    await commit(store, lease, withdrawn=[QUESTION])
    assert (await question(store)).status is InterruptStatus.ANSWERED
    assert len(await store.journal.inbox(lease)) == 1
    assert lease.run_id == run.id


async def test_a_commit_cannot_withdraw_an_interrupt_of_another_run(store: Store, where: str | Path) -> None:
    await waiting_run(store)
    lease = await running(store)
    before = await rows_of(where)
    await commit(store, lease, withdrawn=[QUESTION, InterruptId("missing")])
    assert await rows_of(where) == before


async def test_interrupts_withdrawn_concurrently_are_all_closed(store: Store) -> None:
    for run in [await waiting_run(store, f"q-{number}") for number in range(8)]:
        await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="never mind")
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=8)
    names = {each.run_id: each.id for each in (await store.interrupts.page(SPACE)).items}
    await asyncio.gather(
        *(commit(store, lease, events=text_events("x"), withdrawn=[names[lease.run_id]]) for lease in leases)
    )
    assert (await store.interrupts.page(SPACE)).items == []
