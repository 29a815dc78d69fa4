"""`Runs.delete`: what is deleted, what stays, and what is never reused."""

import random
from pathlib import Path

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Lease
from holdfast.domain.errors import Conflict, IdTaken, NotFound, RunActive
from holdfast.domain.ids import ArtifactId, InterruptId, RunId, ThreadId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import SECOND, assistant, claim, finished_run, new_thread, text_events
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    messages_of,
    model_step,
    new_interrupt,
    queued,
    run_after,
    running,
    seconds_from_now,
    status,
)
from tests.conformance.tables import orphans_of, rows_of

OF_RUNS = ("messages", "events", "steps", "run_values", "inbox", "interrupts", "artifacts", "timers")


async def worked(store: Store, clock: HeldClock, lease: Lease, *, said: str = "secret") -> Run:
    """Complete a run that has rows in every table."""
    name = lease.run_id
    await commit(
        store,
        lease,
        messages=[assistant(said)],
        events=text_events(said),
        steps=[model_step(1, StepState.DONE)],
        values={"state": {"is": said}},
        artifacts=[NewArtifact(type=ArtifactType.DOC, title=said, content=said, id=ArtifactId(f"art-{name}"))],
        timers=[NewTimer(kind="nap", due_at=seconds_from_now(clock, 9), id=TimerId(f"tmr-{name}"))],
        interrupts=[new_interrupt(f"int-{name}")],
        move=WAITING_FOR_PERSON,
    )
    await store.interrupts.respond(SPACE, InterruptId(f"int-{name}"), InterruptResponse(response=said))
    again = await claim(store, SECOND)
    unread = [item.number for item in await store.journal.inbox(again)]
    await commit(store, again, consumed=unread, move=COMPLETED)
    return await get(store, name)


async def delete(store: Store, run: RunId) -> None:
    await store.runs.delete(SPACE, run)


async def test_a_deleted_run_leaves_no_rows(store: Store, where: str | Path, clock: HeldClock) -> None:
    run = await worked(store, clock, await running(store, "begin", idempotency_key="once"))
    before = await rows_of(where)
    assert all(before[table] for table in OF_RUNS if table != "inbox")
    await delete(store, run.id)
    tables = await rows_of(where)
    assert [table for table in (*OF_RUNS, "runs", "run_heads", "threads") if tables[table]] == []
    with pytest.raises(NotFound):
        await get(store, run.id)
    with pytest.raises(NotFound):
        await store.events.after(SPACE, run.id)
    with pytest.raises(NotFound):
        await store.artifacts.get(SPACE, ArtifactId(f"art-{run.id}"))


async def test_a_deleted_run_is_not_found_again(store: Store) -> None:
    run = await queued(store)
    await store.runs.end(SPACE, run.id)
    with pytest.raises(NotFound):
        await store.runs.delete(OTHER, run.id)
    await delete(store, run.id)
    with pytest.raises(NotFound):
        await delete(store, run.id)


async def test_unread_items_are_deleted_with_their_run(store: Store, where: str | Path) -> None:
    run = await queued(store)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="psst")
    await store.runs.end(SPACE, run.id)
    await delete(store, run.id)
    assert (await rows_of(where))["inbox"] == []


async def test_a_run_is_removed_with_its_children(store: Store, where: str | Path, clock: HeldClock) -> None:
    root = await running(store, "begin")
    child = await child_of(store, root.run_id, "dig")
    lease = await claim(store, SECOND)
    grandchild = await child_of(store, child.id, "deeper")
    await worked(store, clock, await claim(store, SECOND))
    for above in (lease, root):
        items = await store.journal.inbox(above)
        await commit(store, above, consumed=[item.number for item in items], move=COMPLETED)
    await delete(store, root.run_id)
    for run in (root.run_id, child.id, grandchild.id):
        with pytest.raises(NotFound):
            await get(store, run)
    tables = await rows_of(where)
    assert [table for table in (*OF_RUNS, "runs", "run_heads", "threads") if tables[table]] == []


async def test_a_child_may_be_removed_alone(store: Store, where: str | Path) -> None:
    root = await running(store, "begin")
    child = await child_of(store, root.run_id, "dig")
    await commit(store, await claim(store, SECOND), move=COMPLETED)
    await delete(store, child.id)
    assert await store.runs.children(SPACE, root.run_id) == []
    assert await status(store, root.run_id) is RunStatus.RUNNING
    assert await orphans_of(where) == {}


@pytest.mark.parametrize("at", ["pending", "queued", "running", "waiting"])
async def test_a_run_that_has_not_ended_is_refused(store: Store, where: str | Path, at: str) -> None:
    lease = await running(store, "begin")
    run = lease.run
    if at == "pending":
        run = await run_after(store, lease.run, "and then")
    elif at == "queued":
        await store.leases.release(lease)
    elif at == "waiting":
        await commit(store, lease, move=WAITING)
    before = await rows_of(where)
    with pytest.raises(RunActive):
        await delete(store, run.id)
    assert await rows_of(where) == before


async def test_a_run_whose_worker_has_not_stopped_is_refused(store: Store, where: str | Path) -> None:
    lease = await running(store, "begin")
    await store.runs.end(SPACE, lease.run_id)
    before = await rows_of(where)
    with pytest.raises(RunActive):
        await delete(store, lease.run_id)
    assert await rows_of(where) == before
    await store.leases.release(lease)
    await delete(store, lease.run_id)


async def test_a_run_with_a_child_that_has_not_ended_is_refused(store: Store, where: str | Path) -> None:
    root = await running(store, "begin")
    child = await child_of(store, root.run_id)
    await commit(store, root, move=COMPLETED)
    before = await rows_of(where)
    with pytest.raises(RunActive):
        await delete(store, root.run_id)
    assert await rows_of(where) == before
    await store.runs.end(SPACE, child.id)
    await delete(store, root.run_id)


async def test_the_thread_created_with_a_run_is_deleted_with_it(store: Store) -> None:
    made = await queued(store, "begin")
    await store.runs.end(SPACE, made.id)
    await delete(store, made.id)
    with pytest.raises(NotFound):
        await store.threads.get(SPACE, made.thread_id)


async def test_a_thread_created_on_its_own_is_not_deleted(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    run = await finished_run(store, SPACE, thread, "begin")
    await delete(store, run.id)
    assert (await store.threads.get(SPACE, thread)).next_sequence == 2


async def test_a_thread_stays_while_another_run_uses_it(store: Store) -> None:
    made = await running(store, "begin")
    await commit(store, made, move=COMPLETED)
    root = (await store.runs.create(SPACE, NewRun(thread=made.thread_id, base=None))).run
    await delete(store, made.run_id)
    assert (await store.threads.get(SPACE, made.thread_id)).id == root.thread_id
    await store.runs.end(SPACE, root.id)
    await delete(store, root.id)
    with pytest.raises(NotFound):
        await store.threads.get(SPACE, made.thread_id)


async def test_a_base_leaves_a_tombstone_without_content(store: Store, where: str | Path, clock: HeldClock) -> None:
    new = {"input": "secret", "model": "secret", "tags": ["secret"], "created_by": "secret"}
    base = await worked(store, clock, await running(store, "secret", **new))
    dependant = await run_after(store, base, "and then")
    await delete(store, base.id)
    with pytest.raises(NotFound):
        await get(store, base.id)
    with pytest.raises(NotFound):
        await store.messages.of_run(SPACE, base.id)
    tables = await rows_of(where)
    assert sorted(row["id"] for row in tables["runs"]) == sorted([base.id, dependant.id])
    assert "secret" not in repr([rows for table, rows in tables.items() if table != "run_values"])
    assert [run.id for run in (await store.runs.page(SPACE)).items] == [dependant.id]


async def test_a_deleted_run_takes_the_title_that_it_gave_its_thread(store: Store) -> None:
    lease = await running(store, "secret")
    await commit(store, lease, move=COMPLETED)
    titled = (await store.threads.create(SPACE, NewThread(title="mine"))).id
    other = await finished_run(store, SPACE, titled, "yours")
    await run_after(store, lease.run, "next")
    await run_after(store, other, "next")
    for run in (lease.run, other):
        await delete(store, run.id)
    assert (await store.threads.get(SPACE, lease.thread_id)).title is None
    assert (await store.threads.get(SPACE, titled)).title == "mine"


async def test_history_continues_over_a_tombstone_without_the_erased_content(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = await finished_run(store, SPACE, thread, "one", "1")
    second = await finished_run(store, SPACE, thread, "two", "2")
    third = await finished_run(store, SPACE, thread, "three", "3")
    await delete(store, second.id)
    history = await store.messages.history(SPACE, third.id)
    assert [message.content for message in history] == ["one", "1", "three", "3"]
    assert [message.sequence for message in history] == [0, 1, 4, 5]
    assert (await get(store, third.id)).base_run_id == second.id
    page = await store.messages.history(SPACE, third.id, limit=2, before=4)
    assert [message.content for message in page] == ["one", "1"]
    assert first.id == history[0].run_id


async def test_values_inherited_from_an_erased_run_survive(store: Store, clock: HeldClock) -> None:
    first = await worked(store, clock, await running(store, "begin"), said="kept")
    second = await run_after(store, first, "two")
    await commit(store, await claim(store), values={"todo": ["mine"]}, move=COMPLETED)
    third = await run_after(store, second, "three")
    await delete(store, first.id)
    await delete(store, second.id)
    assert await store.values.of_run(SPACE, third.id) == {"state": {"is": "kept"}, "todo": ["mine"]}
    fourth = await run_after(store, third, "four")
    await store.runs.end(SPACE, third.id)
    await delete(store, third.id)
    assert await store.values.of_run(SPACE, fourth.id) == {"state": {"is": "kept"}, "todo": ["mine"]}


async def test_a_tombstone_is_deleted_with_the_last_run_on_it(store: Store, where: str | Path) -> None:
    base = await running(store, "begin")
    await commit(store, base, move=COMPLETED)
    left, right = await run_after(store, base.run, "left"), await run_after(store, base.run, "right")
    for run in (left, right):
        await store.runs.end(SPACE, run.id)
    await delete(store, base.run_id)
    await delete(store, left.id)
    assert sorted(row["id"] for row in (await rows_of(where))["runs"]) == sorted([base.run_id, right.id])
    await delete(store, right.id)
    tables = await rows_of(where)
    assert (tables["runs"], tables["run_heads"], tables["threads"]) == ([], [], [])


async def test_a_chain_of_tombstones_is_deleted_with_the_last_run_on_it(store: Store, where: str | Path) -> None:
    thread = await new_thread(store, SPACE)
    chain = [await finished_run(store, SPACE, thread, str(number)) for number in range(5)]
    for run in chain[1:4]:
        await delete(store, run.id)
    await delete(store, chain[4].id)
    assert [row["id"] for row in (await rows_of(where))["runs"]] == [chain[0].id]


async def test_no_run_may_be_based_on_a_tombstone(store: Store) -> None:
    base = await running(store, "begin")
    await commit(store, base, move=COMPLETED)
    await run_after(store, base.run)
    await delete(store, base.run_id)
    with pytest.raises(NotFound):
        await run_after(store, base.run)


async def test_ids_and_numbers_are_never_used_again(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    for kept in (False, True):
        name = RunId(f"chosen-{kept}")
        run = (await store.runs.create(SPACE, NewRun(thread=thread, id=name, idempotency_key=f"key-{kept}"))).run
        lease = await claim(store)
        spoke = await commit(store, lease, messages=[assistant("one")], move=COMPLETED)
        if kept:
            await finished_run(store, SPACE, thread, "on it")
        await delete(store, run.id)
        with pytest.raises(IdTaken):
            await store.runs.create(SPACE, NewRun(thread=thread, id=name))
        with pytest.raises(Conflict):
            await store.runs.create(SPACE, NewRun(thread=thread, id=name, idempotency_key=f"key-{kept}"))
        again = (await store.runs.create(SPACE, NewRun(thread=thread))).run
        later = await commit(store, await claim(store), messages=[assistant("two")], move=COMPLETED)
        assert later.sequences[0] > spoke.sequences[0]
        assert again.id != name


async def test_a_row_key_is_never_used_again(store: Store) -> None:
    keys = []
    for _ in range(3):
        lease = await running(store, "begin")
        keys.append((lease.run_key, lease.thread_key))
        await commit(store, lease, move=COMPLETED)
        await delete(store, lease.run_id)
    assert len({run for run, _ in keys}) == len({thread for _, thread in keys}) == 3


async def forest(store: Store, clock: HeldClock, chance: random.Random) -> list[Run]:
    """Create completed runs that are based on and spawned by each other."""
    runs = [await worked(store, clock, await running(store, "begin", values={"plan": ["root"]}))]
    for _ in range(10):
        base = chance.choice(runs)
        thread: ThreadId | NewThread = base.thread_id
        start: RunBase | None = None
        if chance.random() < 0.2:
            thread = NewThread()
        elif chance.random() < 0.8:
            sequences = [number for number, _, _ in await messages_of(store, base.id)]
            start = RunBase(run_id=base.id, sequence=chance.choice([None, *sequences]))
        await store.runs.create(SPACE, NewRun(thread=thread, base=start))
        lease = await claim(store)
        if chance.random() < 0.4:
            await child_of(store, lease.run_id, "dig")
            runs.append(await worked(store, clock, await claim(store)))
            unread = [item.number for item in await store.journal.inbox(lease)]
            await commit(store, lease, consumed=unread)
        runs.append(await worked(store, clock, lease))
    return runs


@pytest.mark.parametrize("seed", range(4))
async def test_no_row_is_left_behind_by_any_order_of_deletes(
    store: Store, where: str | Path, clock: HeldClock, seed: int
) -> None:
    chance = random.Random(seed)
    runs = await forest(store, clock, chance)
    values = {run.id: await store.values.of_run(SPACE, run.id) for run in runs}
    while runs:
        gone = chance.choice(runs)
        await delete(store, gone.id)
        kept = {run.id for run in (await store.runs.page(SPACE)).items}
        assert {run.id for run in runs} - kept == {run.id for run in runs if gone.id in (run.id, run.parent_run_id)}
        runs = [run for run in runs if run.id in kept]
        assert await orphans_of(where) == {}
        for run in runs:
            sequences = [message.sequence or 0 for message in await store.messages.history(SPACE, run.id)]
            assert sequences == sorted(set(sequences))
            assert await store.values.of_run(SPACE, run.id) == values[run.id]
    tables = await rows_of(where)
    assert [table for table in (*OF_RUNS, "runs", "run_heads", "threads") if tables[table]] == []
