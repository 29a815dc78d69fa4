"""`on_busy`: a new run on a branch that has an active run."""

import asyncio

from holdfast.domain.commit import Commit
from holdfast.domain.errors import Busy, IdTaken, LeaseLost, Waiting
from holdfast.domain.ids import RunId
from holdfast.domain.interrupt import InterruptResponse, InterruptStatus
from holdfast.domain.new_run import NewRun
from holdfast.domain.placement import OnBusy
from holdfast.domain.run import Move, RunStatus, WaitsFor
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import assistant, claim, finish, new_thread
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import (
    base_on,
    claim_run,
    complete,
    completed_run,
    create_run,
    expect_refusal,
    history_texts,
    sequences,
    status,
    wait_for_person,
)


async def test_three_quick_messages_run_one_after_the_other(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first, second, third = [await create_run(store, thread, text) for text in ("one", "two", "three")]
    assert (second.base_run_id, third.base_run_id) == (first.id, second.id)
    assert [run.status for run in (first, second, third)] == [RunStatus.QUEUED, RunStatus.PENDING, RunStatus.PENDING]
    for run, answer in [(first, "1"), (second, "2"), (third, "3")]:
        lease = await claim(store)
        assert lease.run_id == run.id
        await finish(store, lease, answer)
    history = await store.messages.history(SPACE, third.id)
    assert [message.content for message in history] == ["one", "1", "two", "2", "three", "3"]
    assert sequences(history) == [0, 1, 2, 3, 4, 5]


async def test_concurrent_messages_run_one_after_the_other_too(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    runs = await asyncio.gather(*(create_run(store, thread, str(number)) for number in range(20)))
    assert len({run.base_run_id for run in runs}) == 20
    assert [run.status for run in runs].count(RunStatus.QUEUED) == 1
    for _ in runs:
        await finish(store, await claim(store), "done")
    newest = (await store.runs.page(SPACE, limit=1)).items[0]
    history = await store.messages.history(SPACE, newest.id)
    assert sorted(str(message.content) for message in history[::2]) == sorted(str(number) for number in range(20))
    assert sequences(history) == list(range(40))


async def test_enqueue_continues_the_last_active_run_of_the_newest_branch(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi")
    left = await create_run(store, thread, "left", base=base_on(root))
    right = await create_run(store, thread, "right", base=base_on(root))
    last = await create_run(store, thread, "more")
    assert (last.base_run_id, last.status) == (right.id, RunStatus.PENDING)
    await complete(store, await claim_run(store, right))
    assert await status(store, last) is RunStatus.QUEUED
    assert await status(store, left) is RunStatus.QUEUED


async def test_a_free_branch_is_not_busy_whatever_runs_on_another(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi")
    live = await create_run(store, thread, "live", base=base_on(root))
    free = await create_run(store, thread, "free", base=base_on(root))
    await complete(store, await claim_run(store, free), "done")
    for wish in OnBusy:
        run = await create_run(store, thread, "next", on_busy=wish)
        assert run.status is RunStatus.QUEUED
        await store.runs.end(SPACE, run.id)
    assert await status(store, live) is RunStatus.QUEUED


async def test_enqueue_behind_a_run_that_waits_for_a_person_is_refused_with_its_interrupts(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    asked = await wait_for_person(store, await create_run(store, thread, "hello"), "really?", "sure?")
    interrupts = await store.interrupts.of_run(SPACE, asked.id)
    async with expect_refusal(store, Waiting) as info:
        await create_run(store, thread, "well?")
    assert info.value.details == {"run_id": asked.id, "interrupts": [interrupt.id for interrupt in interrupts]}
    assert len(interrupts) == 2


async def test_enqueue_behind_a_run_behind_one_that_waits_for_a_person_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await create_run(store, thread, "one")
    await create_run(store, thread, "two")
    asked = await wait_for_person(store, first, "really?")
    async with expect_refusal(store, Waiting) as info:
        await create_run(store, thread, "three")
    assert info.value.details["run_id"] == asked.id


async def test_a_run_with_a_base_that_waits_for_a_person_is_refused_with_the_interrupts(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await create_run(store, thread, "one")
    behind = await create_run(store, thread, "two")
    asked = await wait_for_person(store, first, "really?")
    (interrupt,) = await store.interrupts.of_run(SPACE, asked.id)
    for base in (base_on(asked), base_on(asked, 0), base_on(behind)):
        for on_busy in OnBusy:
            async with expect_refusal(store, Waiting) as info:
                await create_run(store, thread, "three", base=base, on_busy=on_busy)
            assert info.value.details == {"run_id": asked.id, "interrupts": [interrupt.id]}
    await store.interrupts.respond(SPACE, interrupt.id, InterruptResponse(response="yes"))
    assert (await create_run(store, thread, "three", base=base_on(asked, 0))).status is RunStatus.PENDING


async def test_enqueue_is_accepted_once_the_person_has_answered(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    asked = await wait_for_person(store, await create_run(store, thread, "hello"), "really?")
    (interrupt,) = await store.interrupts.of_run(SPACE, asked.id)
    await store.interrupts.respond(SPACE, interrupt.id, InterruptResponse(response="yes"))
    assert (await create_run(store, thread, "good")).base_run_id == asked.id


async def test_enqueue_behind_a_run_that_waits_for_something_else_is_accepted(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await create_run(store, thread, "one")
    move = Move(to=RunStatus.WAITING, reason=WaitsFor.TIMER)
    await store.journal.commit(Commit(lease=await claim_run(store, first), move=move))
    second = await create_run(store, thread, "two")
    assert (second.base_run_id, second.status) == (first.id, RunStatus.PENDING)


async def test_reject_refuses_a_run_while_the_branch_is_busy(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    live = await create_run(store, thread, "one")
    await create_run(store, thread, "two")
    async with expect_refusal(store, Busy) as info:
        await create_run(store, thread, "three", on_busy=OnBusy.REJECT)
    assert info.value.details == {"run_id": live.id}


async def test_reject_refuses_a_run_while_the_base_of_a_cancelled_run_is_active(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    live = await create_run(store, thread, "one")
    await store.runs.end(SPACE, (await create_run(store, thread, "two")).id)
    async with expect_refusal(store, Busy) as info:
        await create_run(store, thread, "three", on_busy=OnBusy.REJECT)
    assert info.value.details == {"run_id": live.id}


async def test_of_many_concurrent_creates_with_reject_one_succeeds(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    made = await asyncio.gather(
        *(create_run(store, thread, "me", on_busy=OnBusy.REJECT) for _ in range(20)), return_exceptions=True
    )
    assert sum(isinstance(error, Busy) for error in made) == 19
    assert len((await store.runs.page(SPACE)).items) == 1


async def test_a_fork_begins_where_the_active_run_did_also_if_that_was_deleted_since(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi")
    live = await create_run(store, thread, "go on", base=base_on(root, sequence=0))
    await store.runs.delete(SPACE, root.id)
    fork = await create_run(store, thread, "instead", on_busy=OnBusy.FORK)
    live = await store.runs.get(SPACE, live.id)
    assert (fork.base_run_id, fork.base_sequence) == (live.base_run_id, live.base_sequence)
    assert fork.status is RunStatus.QUEUED


async def test_fork_starts_at_once_from_the_base_of_the_active_run(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi", "ho")
    live = await create_run(store, thread, "one", base=base_on(root, 1))
    await create_run(store, thread, "two")
    lease = await claim_run(store, live)
    fork = await create_run(store, thread, "instead", on_busy=OnBusy.FORK)
    assert (fork.base_run_id, fork.base_sequence, fork.status) == (root.id, 1, RunStatus.QUEUED)
    assert await history_texts(store, fork) == ["hello", "hi", "instead"]
    await complete(store, lease, "1")
    assert await history_texts(store, live) == ["hello", "hi", "one", "1"]


async def test_fork_of_a_live_root_is_a_new_root(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    live = await create_run(store, thread, "one")
    fork = await create_run(store, thread, "instead", on_busy=OnBusy.FORK)
    assert (fork.base_run_id, fork.status) == (None, RunStatus.QUEUED)
    assert await status(store, live) is RunStatus.QUEUED


async def test_interrupt_cancels_the_active_runs_of_the_branch_and_waits_for_the_worker(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    root = await completed_run(store, thread, "hello", "hi")
    other = await create_run(store, thread, "other branch", base=base_on(root))
    first = await create_run(store, thread, "one", base=base_on(root))
    second = await create_run(store, thread, "two")
    lease = await claim_run(store, first)
    await store.journal.commit(Commit(lease=lease, messages=[assistant("half")]))
    run = await create_run(store, thread, "stop", on_busy=OnBusy.INTERRUPT, created_by="ann")
    assert (run.base_run_id, run.status) == (second.id, RunStatus.PENDING)
    for cancelled in (first, second):
        now = await store.runs.get(SPACE, cancelled.id)
        assert (now.status, now.cancelled_by) == (RunStatus.CANCELLED, "ann")
    assert await status(store, other) is RunStatus.QUEUED
    await store.leases.release(lease)
    assert await status(store, run) is RunStatus.QUEUED
    assert await history_texts(store, run) == ["hello", "hi", "one", "half", "two", "stop"]


async def test_the_worker_of_an_interrupted_run_can_write_nothing(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "one"))
    run = await create_run(store, thread, "stop", on_busy=OnBusy.INTERRUPT)
    async with expect_refusal(store, LeaseLost):
        await store.journal.commit(Commit(lease=lease, messages=[assistant("late")]))
    await store.leases.release(lease)
    assert await history_texts(store, run) == ["one", "stop"]


async def test_interrupt_starts_at_once_where_no_worker_is_at_work(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    asked = await wait_for_person(store, await create_run(store, thread, "one"), "really?")
    run = await create_run(store, thread, "never mind", on_busy=OnBusy.INTERRUPT)
    assert (run.base_run_id, run.status) == (asked.id, RunStatus.QUEUED)
    assert await status(store, asked) is RunStatus.CANCELLED
    (interrupt,) = await store.interrupts.of_run(SPACE, asked.id)
    assert interrupt.status is InterruptStatus.CANCELLED


async def test_interrupt_of_runs_that_have_not_started_keeps_their_messages(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for text in ("one", "two", "three"):
        await create_run(store, thread, text)
    run = await create_run(store, thread, "stop", on_busy=OnBusy.INTERRUPT)
    assert run.status is RunStatus.QUEUED
    history = await store.messages.history(SPACE, run.id)
    assert [message.content for message in history] == ["one", "two", "three", "stop"]
    assert sequences(history) == [0, 1, 2, 3]


async def test_of_many_concurrent_creates_with_interrupt_the_last_stays_active(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    made = await asyncio.gather(*(create_run(store, thread, "me", on_busy=OnBusy.INTERRUPT) for _ in range(10)))
    newest = (await store.runs.page(SPACE, limit=1)).items[0]
    assert newest.status is RunStatus.QUEUED
    assert [await status(store, run) for run in made].count(RunStatus.CANCELLED) == 9
    assert sequences(await store.messages.history(SPACE, newest.id)) == list(range(10))


async def test_interrupt_cancels_the_children_of_active_runs_too(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    parent = await create_run(store, thread, "one")
    child = (await store.runs.create(SPACE, NewRun(thread=NewThread(), parent_run_id=parent.id))).run
    await create_run(store, thread, "stop", on_busy=OnBusy.INTERRUPT)
    assert await status(store, child) is RunStatus.CANCELLED


async def test_a_failed_create_with_interrupt_cancels_nothing(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    live = await create_run(store, thread, "one", id=RunId("used"))
    async with expect_refusal(store, IdTaken):
        await create_run(store, thread, "stop", id=RunId("used"), on_busy=OnBusy.INTERRUPT)
    assert await status(store, live) is RunStatus.QUEUED


async def test_an_explicit_base_is_never_interrupted(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    live = await create_run(store, thread, "one")
    run = await create_run(store, thread, "two", base=base_on(live), on_busy=OnBusy.INTERRUPT)
    assert (run.base_run_id, run.status) == (live.id, RunStatus.PENDING)
    assert await status(store, live) is RunStatus.QUEUED
