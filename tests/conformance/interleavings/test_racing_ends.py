"""In any order of two writers' statements, a run ends once and nothing is written to it afterwards."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.commit import Committed, Lease
from holdfast.domain.errors import AlreadyAnswered, Conflict, IllegalMove, LeaseLost, NotFound
from holdfast.domain.ids import InterruptId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import Interrupt, InterruptResponse, InterruptStatus
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase
from holdfast.domain.run import Move, Run, RunStatus
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import FIRST, MINUTE, assistant, call, finished_run, new_thread, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.interleavings.orders import TwoWriters
from tests.conformance.run_builders import (
    COMPLETED,
    QUEUED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    messages_of,
    new_interrupt,
    queued,
    running,
    status,
    stream,
)
from tests.conformance.tables import orphans_of, rows_of


async def end(store: Store, run: Run) -> list[Run]:
    return await store.runs.end(SPACE, run.id)


async def check_log(store: Store, lease: Lease, *, spoke: bool) -> None:
    """Check that a run has ended, with or without its worker's commit, and that its worker cannot write any more."""
    assert await status(store, lease.run_id) is RunStatus.CANCELLED
    events = await stream(store, lease.run_id)
    verify_stream(events)
    logged = await store.events.after(SPACE, lease.run_id)
    assert [event.seq for event in logged] == list(range(1, len(logged) + 1))
    assert [content for _, _, content in await messages_of(store, lease.run_id)][:1] == (["hi"] if spoke else [])
    with pytest.raises(LeaseLost):
        await commit(store, lease, messages=[assistant("late")])


@pytest.mark.parametrize("move", [None, QUEUED, WAITING], ids=["stays", "queued", "waiting"])
async def test_a_run_is_ended_before_or_after_a_commit(two: TwoWriters, store: Store, move: Move | None) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        says = {"messages": [assistant("hi", call("c1"))], "events": text_events("hi")}

        async def check(ended: object, committed: object) -> None:
            spoke = isinstance(committed, Committed)
            seen.add(spoke)
            assert spoke or isinstance(committed, LeaseLost)
            assert isinstance(ended, list)
            await check_log(store, lease, spoke=spoke)
            assert len(await messages_of(store, lease.run_id)) == (2 if spoke else 0)  # what it asked for is answered

        return end(two.first, lease.run), commit(two.second, lease, **says, move=move), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_run_is_ended_or_completed_but_not_both(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)

        async def check(ended: object, committed: object) -> None:
            completed = isinstance(committed, Committed)
            seen.add(completed)
            assert isinstance(ended, IllegalMove if completed else list)
            assert completed or isinstance(committed, LeaseLost)
            run = await get(store, lease.run_id)
            assert (run.status, run.output) == (
                (RunStatus.COMPLETED, "42") if completed else (RunStatus.CANCELLED, None)
            )
            await store.notifications.dispatch()
            assert [news.run_id for news in await store.notifications.latest(SPACE)].count(run.id) == 1

        done = Move(to=RunStatus.COMPLETED, output="42")
        return end(two.first, lease.run), commit(two.second, lease, move=done), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_of_two_ends_one_is_accepted(two: TwoWriters, store: Store) -> None:
    async def scene() -> Any:
        lease = await running(store)

        async def check(*outcomes: object) -> None:
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["IllegalMove", "list"]
            verify_stream(await stream(store, lease.run_id))

        return end(two.first, lease.run), end(two.second, lease.run), check

    await two.explore(scene)


async def test_an_interrupt_is_answered_or_closed_by_an_end(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        name = InterruptId(f"question-{lease.run_key}")
        await commit(store, lease, interrupts=[new_interrupt(name)], move=WAITING_FOR_PERSON)

        async def check(ended: object, answered: object) -> None:
            accepted = isinstance(answered, Interrupt)
            seen.add(accepted)
            assert accepted or isinstance(answered, AlreadyAnswered)
            assert isinstance(ended, list)
            assert await status(store, lease.run_id) is RunStatus.CANCELLED
            kept = await store.interrupts.get(SPACE, name)
            assert kept.status is (InterruptStatus.ANSWERED if accepted else InterruptStatus.CANCELLED)

        answer = two.second.interrupts.respond(SPACE, name, InterruptResponse(response=True))
        return end(two.first, lease.run), answer, check

    await two.explore(scene)
    assert seen == {True, False}


async def test_an_inbox_item_is_added_before_an_end_or_refused(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        await commit(store, lease, move=WAITING)

        async def check(ended: object, number: object) -> None:
            seen.add(isinstance(number, Conflict))
            assert number == 1 or isinstance(number, Conflict)
            assert isinstance(ended, list)
            assert await status(store, lease.run_id) is RunStatus.CANCELLED

        put = two.second.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
        return end(two.first, lease.run), put, check

    await two.explore(scene)
    assert seen == {True, False}


async def test_no_child_outlives_the_end_of_its_parent(two: TwoWriters, store: Store) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)

        async def check(ended: object, child: object) -> None:
            made = isinstance(child, Run)
            seen.add(made)
            assert isinstance(ended, list)
            assert made or isinstance(child, Conflict)
            assert [run.status for run in ended] == [RunStatus.CANCELLED] * (1 + made)
            children = await store.runs.children(SPACE, lease.run_id)
            assert [run.status for run in children] == [RunStatus.CANCELLED] * made

        return end(two.first, lease.run), child_of(two.second, lease.run_id), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_an_ended_run_is_not_claimed(two: TwoWriters, store: Store) -> None:
    async def scene() -> Any:
        run = await queued(store)

        async def check(ended: object, claimed: object) -> None:
            assert isinstance(ended, list)
            assert isinstance(claimed, list)
            assert await status(store, run.id) is RunStatus.CANCELLED
            for lease in claimed:
                with pytest.raises(LeaseLost):
                    await commit(store, lease)
                await store.leases.release(lease)

        return end(two.first, run), two.second.leases.claim(FIRST, lease=MINUTE), check

    await two.explore(scene)


async def test_a_lease_is_renewed_or_the_run_is_requeued(two: TwoWriters, store: Store, clock: HeldClock) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        clock.tick(2 * MINUTE)

        async def check(taken: object, renewed: object) -> None:
            assert isinstance(taken, list)
            assert isinstance(renewed, list)
            assert len(taken) + len(renewed) == 1
            seen.add(bool(renewed))
            assert await status(store, lease.run_id) is (RunStatus.RUNNING if renewed else RunStatus.QUEUED)
            await end(store, lease.run)
            if renewed:
                await store.leases.release(lease)

        return two.first.leases.expire(), two.second.leases.renew(FIRST, [lease], lease=MINUTE), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_late_worker_commits_before_the_expiry_or_not_at_all(
    two: TwoWriters, store: Store, clock: HeldClock
) -> None:
    seen = set()

    async def scene() -> Any:
        lease = await running(store)
        clock.tick(2 * MINUTE)

        async def check(taken: object, committed: object) -> None:
            completed = isinstance(committed, Committed)
            seen.add(completed)
            assert completed or isinstance(committed, LeaseLost)
            assert taken == ([] if completed else [lease.run_id])
            assert await status(store, lease.run_id) is (RunStatus.COMPLETED if completed else RunStatus.FAILED)

        return two.first.leases.expire(cap=1), commit(two.second, lease, move=COMPLETED), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_a_base_is_deleted_before_or_after_a_run_on_it_is_created(
    two: TwoWriters, store: Store, where: str
) -> None:
    seen = set()

    async def scene() -> Any:
        thread = await new_thread(store, SPACE)
        base = await finished_run(store, SPACE, thread, "begin")
        new = NewRun(thread=thread, base=RunBase(run_id=base.id))

        async def check(deleted: object, created: object) -> None:
            made = isinstance(created, CreatedRun)
            seen.add(made)
            assert deleted is None
            assert made or isinstance(created, NotFound)
            assert await orphans_of(where) == {}
            if isinstance(created, CreatedRun):
                assert await store.messages.history(SPACE, created.run.id) == []
                await end(store, created.run)

        return two.first.runs.delete(SPACE, base.id), two.second.runs.create(SPACE, new), check

    await two.explore(scene)
    assert seen == {True, False}


async def test_no_tombstone_is_left_by_two_deletes(two: TwoWriters, store: Store, where: str) -> None:
    async def scene() -> Any:
        thread = await new_thread(store, SPACE)
        runs = [await finished_run(store, SPACE, thread, text) for text in ("one", "two")]

        async def check(*outcomes: object) -> None:
            assert outcomes == (None, None)
            assert (await rows_of(where))["runs"] == []

        first, second = (
            writer.runs.delete(SPACE, run.id) for writer, run in zip((two.first, two.second), runs, strict=True)
        )
        return first, second, check

    await two.explore(scene)


async def test_a_released_run_is_not_lost_to_an_end(two: TwoWriters, store: Store) -> None:
    async def scene() -> Any:
        lease = await running(store)

        async def check(ended: object, released: object) -> None:
            assert isinstance(ended, list)
            assert released is None
            assert await status(store, lease.run_id) is RunStatus.CANCELLED
            await store.runs.delete(SPACE, lease.run_id)

        return end(two.first, lease.run), two.second.leases.release(lease, delay=timedelta()), check

    await two.explore(scene)
