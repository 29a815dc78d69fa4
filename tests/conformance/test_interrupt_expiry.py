"""Questions that nobody answers in time, and those that need no answer any more."""

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
from tests.builders import FIRST, MINUTE, claim, spoken
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claimed
from tests.conformance.scenes import ASKING, COMPLETED, asked, asking, at, commit, get, running, status
from tests.conformance.tables import rows_of

QUESTION = InterruptId("question")
MILLISECOND = timedelta(milliseconds=1)


async def question(store: Store, name: InterruptId = QUESTION) -> Interrupt:
    return await store.interrupts.get(SPACE, name)


async def answer(store: Store, name: InterruptId = QUESTION, by: str | None = None) -> Interrupt:
    return await store.interrupts.respond(SPACE, name, InterruptResponse(response="yes", by=by))


async def read(store: Store, run: Run) -> list[InboxItem]:
    """Return what is in the inbox of a run that was woken."""
    return await store.journal.inbox(await claimed(store, run))


async def test_a_question_that_ran_out_gives_its_run_the_default(store: Store, clock: HeldClock) -> None:
    run = await asking(store, default={"approved": False}, expires_at=at(clock, 60))
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
    assert (item.kind, item.created_by, item.created_at) == (InboxKind.RESPONSE, None, at(clock, 0))
    assert item.data == {"interrupt_id": "question", "response": {"approved": False}, "expired": True}


async def test_without_a_default_the_outcome_is_null(store: Store, clock: HeldClock) -> None:
    run = await asking(store, expires_at=at(clock, 60))
    clock.tick(MINUTE)
    await store.interrupts.expire()
    (item,) = await read(store, run)
    assert item.data == {"interrupt_id": "question", "response": None, "expired": True}


async def test_a_question_is_open_until_its_time_has_come(store: Store, where: str | Path, clock: HeldClock) -> None:
    await asking(store, expires_at=at(clock, 60))
    clock.tick(MINUTE - MILLISECOND)
    before = await rows_of(where)
    assert await store.interrupts.expire() == []
    assert await rows_of(where) == before
    clock.tick(MILLISECOND)
    assert await store.interrupts.expire() == [QUESTION]


async def test_a_question_runs_out_once(store: Store, where: str | Path, clock: HeldClock) -> None:
    await asking(store, expires_at=at(clock, 60))
    clock.tick(MINUTE)
    await store.interrupts.expire()
    before = await rows_of(where)
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == []
    with pytest.raises(AlreadyAnswered):
        await answer(store)
    assert await rows_of(where) == before


async def test_what_was_answered_or_closed_does_not_run_out(store: Store, where: str | Path, clock: HeldClock) -> None:
    await asking(store, "answered", expires_at=at(clock, 60))
    ended = await asking(store, "ended", expires_at=at(clock, 60))
    await answer(store, InterruptId("answered"))
    await store.runs.end(SPACE, ended.id)
    clock.tick(2 * MINUTE)
    before = await rows_of(where)
    assert await store.interrupts.expire() == []
    assert await rows_of(where) == before


async def test_at_most_so_many_run_out_at_once_the_earliest_first(store: Store, clock: HeldClock) -> None:
    for name, seconds in (("c", 3), ("a", 1), ("b", 2), ("later", 120)):
        await asking(store, name, expires_at=at(clock, seconds))
    clock.tick(MINUTE)
    assert await store.interrupts.expire(limit=2) == ["a", "b"]
    assert await store.interrupts.expire(limit=2) == ["c"]
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid):
            await store.interrupts.expire(limit=limit)


async def test_the_questions_of_all_spaces_run_out(store: Store, clock: HeldClock) -> None:
    for space in (SPACE, OTHER):
        await store.runs.create(space, NewRun(thread=NewThread()))
        await commit(store, await claim(store), interrupts=[asked(f"of-{space}", expires_at=at(clock, 1))], move=ASKING)
    clock.tick(MINUTE)
    assert sorted(await store.interrupts.expire()) == ["of-acme", "of-other"]


async def test_the_next_expiry_is_that_of_the_open_question_with_the_least_time(store: Store, clock: HeldClock) -> None:
    assert await store.interrupts.next_expiry() is None
    await asking(store, "late", expires_at=at(clock, 120))
    await asking(store, "soon", expires_at=at(clock, 60))
    assert await store.interrupts.next_expiry() == at(clock, 60)
    await answer(store, InterruptId("soon"))
    assert await store.interrupts.next_expiry() == at(clock, 120)
    clock.tick(2 * MINUTE)
    assert await store.interrupts.next_expiry() == at(clock, 0)
    await store.interrupts.expire()
    assert await store.interrupts.next_expiry() is None


async def test_of_two_questions_the_other_one_stays_open(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    questions = [asked("question", expires_at=at(clock, 60)), asked("other", expires_at=at(clock, 90))]
    await commit(store, lease, interrupts=questions, move=ASKING)
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == [QUESTION]
    assert await status(store, lease.run_id) is RunStatus.QUEUED
    assert (await question(store, InterruptId("other"))).status is InterruptStatus.OPEN
    clock.tick(MINUTE)
    assert await store.interrupts.expire() == ["other"]
    items = await read(store, await get(store, lease.run_id))
    assert [item.number for item in items] == [1, 2]


async def test_a_question_runs_out_while_its_run_does_something_else(store: Store, clock: HeldClock) -> None:
    run = await asking(store, default="no", expires_at=at(clock, 60))
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="by the way")
    lease = await claim(store)
    clock.tick(MINUTE - MILLISECOND)
    await store.leases.renew(FIRST, [lease], lease=MINUTE)
    clock.tick(MILLISECOND)
    assert await store.interrupts.expire() == [QUESTION]
    assert await status(store, run.id) is RunStatus.RUNNING
    assert [item.kind for item in await store.journal.inbox(lease)] == [InboxKind.MESSAGE, InboxKind.RESPONSE]


async def test_however_many_ask_at_once_each_question_runs_out_once(stores: list[Store], clock: HeldClock) -> None:
    runs = [await asking(stores[0], f"q-{number}", expires_at=at(clock, 60)) for number in range(12)]
    clock.tick(MINUTE)
    found = await asyncio.gather(*(stores[n % len(stores)].interrupts.expire() for n in range(10)))
    assert sorted(name for names in found for name in names) == sorted(f"q-{number}" for number in range(12))
    leases = await stores[0].leases.claim(FIRST, lease=MINUTE, limit=100)
    assert len(leases) == len(runs)
    assert [len(await stores[0].journal.inbox(lease)) for lease in leases] == [1] * 12


async def test_of_answers_and_the_end_of_their_time_one_wins(stores: list[Store], clock: HeldClock) -> None:
    store = stores[0]

    async def pass_time() -> None:
        clock.tick(MINUTE)

    for number in range(10):
        name = InterruptId(f"q-{number}")
        run = await asking(store, name, default="default", expires_at=at(clock, 60))
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


async def test_a_commit_withdraws_a_question_of_its_run(store: Store, clock: HeldClock) -> None:
    run = await asking(store, expires_at=at(clock, 60))
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


async def test_a_question_may_be_withdrawn_by_the_commit_that_asks_the_next(store: Store) -> None:
    run = await asking(store)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="rather this")
    lease = await claim(store)
    await commit(store, lease, consumed=[1], withdrawn=[QUESTION], interrupts=[asked("next")], move=ASKING)
    found = await store.interrupts.of_run(SPACE, run.id)
    assert [(each.id, each.status) for each in found] == [
        ("question", InterruptStatus.CANCELLED),
        ("next", InterruptStatus.OPEN),
    ]


async def test_what_was_answered_stays_answered_when_it_is_withdrawn(store: Store) -> None:
    run = await asking(store)
    await answer(store, by="ann")
    lease = await claim(store)
    await commit(store, lease, withdrawn=[QUESTION])
    assert (await question(store)).status is InterruptStatus.ANSWERED
    assert len(await store.journal.inbox(lease)) == 1
    assert lease.run_id == run.id


async def test_a_commit_withdraws_no_question_of_another_run(store: Store, where: str | Path) -> None:
    await asking(store)
    lease = await running(store)
    before = await rows_of(where)
    await commit(store, lease, withdrawn=[QUESTION, InterruptId("missing")])
    assert await rows_of(where) == before


async def test_questions_that_runs_withdraw_at_once_are_all_closed(store: Store) -> None:
    for run in [await asking(store, f"q-{number}") for number in range(8)]:
        await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="never mind")
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=8)
    names = {each.run_id: each.id for each in (await store.interrupts.page(SPACE)).items}
    await asyncio.gather(
        *(commit(store, lease, events=spoken("x"), withdrawn=[names[lease.run_id]]) for lease in leases)
    )
    assert (await store.interrupts.page(SPACE)).items == []
