"""`Journal.commit`: moves of a run by its worker, and the notifications they send."""

import pytest

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import IdTaken, IllegalMove, InboxNotEmpty, Invalid, LeaseLost
from holdfast.domain.ids import RunId, TimerId
from holdfast.domain.inbox import InboxItem, InboxKind
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.notification import NotificationKind
from holdfast.domain.run import Move, RunError, RunStatus, WaitsFor
from holdfast.domain.step import StepState
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, claim, new_run, result
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    FAILED,
    QUEUED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    get,
    messages_of,
    new_interrupt,
    queued,
    run_after,
    running,
    seconds_from_now,
    status,
    tool_step,
    waiting_run,
)

MOVES = [QUEUED, WAITING, COMPLETED, FAILED]
STOPS = [WAITING, WAITING_FOR_PERSON, COMPLETED, FAILED]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: str(move.to))
async def test_a_move_releases_the_lease(store: Store, clock: HeldClock, move: Move) -> None:
    lease = await running(store)
    await commit(store, lease, move=move)
    assert await status(store, lease.run_id) is move.to
    with pytest.raises(LeaseLost):
        await commit(store, lease)
    clock.tick(2 * MINUTE)
    assert await store.leases.expire() == []


async def test_a_run_moved_to_the_queue_with_a_delay_is_claimed_when_due(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, move=Move(to=RunStatus.QUEUED, wait_until=seconds_from_now(clock, 60), reason="later"))
    run = await get(store, lease.run_id)
    assert (run.status_reason, run.wait_until, run.queued_at) == (
        "later",
        seconds_from_now(clock, 60),
        seconds_from_now(clock, 0),
    )
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    clock.tick(MINUTE)
    assert (await claim(store)).run_id == run.id


async def test_a_completed_run_keeps_its_output(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    clock.tick(MINUTE)
    await commit(store, lease, move=Move(to=RunStatus.COMPLETED, output={"answer": 42}))
    run = await get(store, lease.run_id)
    assert (run.status, run.output, run.error, run.completed_at) == (
        RunStatus.COMPLETED,
        {"answer": 42},
        None,
        seconds_from_now(clock, 0),
    )


async def test_a_failed_run_keeps_its_error(store: Store) -> None:
    lease = await running(store)
    error = RunError(code="MODEL", message="it broke", iteration=3, details={"status": 500})
    await commit(store, lease, move=Move(to=RunStatus.FAILED, reason="model", error=error))
    run = await get(store, lease.run_id)
    assert (run.status, run.status_reason, run.error) == (RunStatus.FAILED, "model", error)


async def test_a_worker_makes_only_its_own_moves(store: Store) -> None:
    lease = await running(store)
    with pytest.raises(Invalid):
        await commit(store, lease, move=Move(to=RunStatus.CANCELLED))
    with pytest.raises(Invalid):
        await commit(store, lease, move=Move(to=RunStatus.COMPLETED, wait_until=seconds_from_now(HeldClock(), 60)))
    for to in (RunStatus.PENDING, RunStatus.RUNNING):
        with pytest.raises(IllegalMove):
            await commit(store, lease, move=Move(to=to))
    assert await status(store, lease.run_id) is RunStatus.RUNNING


@pytest.mark.parametrize("move", STOPS, ids=lambda move: f"{move.to}-{move.reason}")
async def test_a_run_does_not_wait_or_end_with_unread_inbox_items(store: Store, move: Move) -> None:
    lease = await running(store)
    for word in ("one", "two"):
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data=word)
    with pytest.raises(InboxNotEmpty):
        await commit(store, lease, messages=[assistant("bye")], move=move)
    with pytest.raises(InboxNotEmpty):
        await commit(store, lease, messages=[assistant("bye")], consumed=[1], move=move)
    assert (await status(store, lease.run_id), await messages_of(store, lease.run_id)) == (RunStatus.RUNNING, [])
    assert [item.number for item in await store.journal.inbox(lease)] == [1, 2]
    await commit(store, lease, messages=[assistant("bye")], consumed=[1, 2], move=move)
    assert await status(store, lease.run_id) is move.to


async def test_a_run_goes_back_to_the_queue_whatever_is_unread(store: Store) -> None:
    lease = await running(store)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    await commit(store, lease, move=QUEUED)
    again = await claim(store)
    assert [item.data for item in await store.journal.inbox(again)] == ["psst"]


async def test_an_item_consumed_earlier_does_not_block_a_move(store: Store) -> None:
    lease = await running(store)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    await commit(store, lease, consumed=[1])
    await commit(store, lease, move=COMPLETED)
    assert await status(store, lease.run_id) is RunStatus.COMPLETED


@pytest.mark.parametrize("move", [COMPLETED, FAILED], ids=lambda move: str(move.to))
async def test_an_end_queues_the_runs_based_on_it(store: Store, clock: HeldClock, move: Move) -> None:
    lease = await running(store, "begin", values={"plan": ["a"], "todo": []})
    first, second = await run_after(store, lease.run, "one"), await run_after(store, lease.run, "two")
    behind_first = await run_after(store, first, "three")
    clock.tick(MINUTE)
    await commit(store, lease, messages=[assistant("done")], values={"plan": ["b"]}, move=move)
    for dependant, sequence in ((first, 2), (second, 3)):
        run = await get(store, dependant.id)
        assert (run.status, run.queued_at) == (RunStatus.QUEUED, seconds_from_now(clock, 0))
        assert [number for number, _, _ in await messages_of(store, run.id)] == [sequence]
        assert await store.values.of_run(SPACE, run.id) == {"plan": ["b"], "todo": []}
    assert await status(store, behind_first.id) is RunStatus.PENDING
    assert {lease.run_id for lease in await store.leases.claim(FIRST, lease=MINUTE, limit=9)} == {first.id, second.id}


async def test_a_dependants_own_values_take_precedence_over_inherited_ones(store: Store) -> None:
    lease = await running(store, values={"plan": ["theirs"], "todo": ["theirs"]})
    dependant = await run_after(store, lease.run, values={"plan": ["mine"]})
    await commit(store, lease, move=COMPLETED)
    assert await store.values.of_run(SPACE, dependant.id) == {"plan": ["mine"], "todo": ["theirs"]}


async def test_a_wait_queues_no_dependant(store: Store) -> None:
    lease = await running(store, "begin")
    dependant = await run_after(store, lease.run, "one")
    for move in (QUEUED, WAITING):
        await commit(store, lease, move=move)
        assert await status(store, dependant.id) is RunStatus.PENDING
        if move is QUEUED:
            lease = await claim(store)


async def item_of(store: Store, parent: Lease) -> InboxItem:
    (item,) = await store.journal.inbox(parent)
    return item


async def test_an_end_notifies_the_parent(store: Store) -> None:
    parent = await running(store)
    for move in (
        Move(to=RunStatus.COMPLETED, output="42"),
        Move(to=RunStatus.FAILED, error=RunError(code="X", message="x")),
    ):
        child = await child_of(store, parent.run_id)
        await commit(store, await claim(store, SECOND), move=move)
        item = await item_of(store, parent)
        assert item.kind is InboxKind.CHILD
        failure: Json = {"code": "X", "message": "x", "iteration": None, "details": {}}
        error = None if move.error is None else failure
        names = {"run_id": child.id, "thread_id": child.thread_id}
        assert item.data == {**names, "status": move.to, "output": move.output, "error": error}
        await commit(store, parent, consumed=[item.number])


async def test_a_childs_end_wakes_a_parent_that_waits(store: Store) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await commit(store, parent, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD))
    lease = await claim(store, SECOND)
    await commit(store, lease, messages=[assistant("found it")], move=COMPLETED)
    woken = await claim(store)
    assert woken.run_id == parent.run_id
    assert woken.run.status_reason is None
    data = (await item_of(store, woken)).data
    assert isinstance(data, dict)
    assert data["run_id"] == child.id


async def test_a_child_that_waits_notifies_nobody(store: Store) -> None:
    parent = await running(store)
    await child_of(store, parent.run_id)
    await commit(store, await claim(store, SECOND), move=WAITING)
    assert await store.journal.inbox(parent) == []


async def test_a_child_may_end_after_its_parent(store: Store) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await commit(store, parent, move=COMPLETED)
    await commit(store, await claim(store, SECOND), move=COMPLETED)
    assert await status(store, child.id) is RunStatus.COMPLETED


async def test_an_end_cancels_the_timers_of_its_run(store: Store, clock: HeldClock) -> None:
    first, second = await running(store), await running(store)
    for lease, name in ((first, "one"), (second, "two")):
        await commit(store, lease, timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 5), id=TimerId(name))])
    await commit(store, first, move=COMPLETED)
    assert (await store.timers.get(SPACE, TimerId("one"))).state is TimerState.CANCELLED
    assert (await store.timers.get(SPACE, TimerId("two"))).state is TimerState.SCHEDULED


async def test_an_end_closes_the_open_interrupts_of_its_run(store: Store) -> None:
    run = await waiting_run(store, "question")
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="never mind")
    lease = await claim(store)
    await commit(store, lease, consumed=[1], move=COMPLETED)
    (interrupt,) = await store.interrupts.of_run(SPACE, run.id)
    assert interrupt.status is InterruptStatus.CANCELLED
    assert (await store.interrupts.page(SPACE)).items == []


async def test_an_end_settles_the_started_steps(store: Store) -> None:
    lease = await running(store)
    calls = [call("c1"), call("c2")]
    steps = [tool_step(1, "c1", effectful=True), tool_step(2, "c2")]
    await commit(store, lease, messages=[assistant("", *calls)], steps=steps)
    await commit(store, lease, messages=[result("c1"), result("c2")], move=FAILED)
    settled = await store.steps.of_run(SPACE, lease.run_id)
    assert [step.state for step in settled] == [StepState.UNKNOWN, StepState.FAILED]


async def test_an_end_and_a_wait_for_a_person_create_notifications(store: Store) -> None:
    expected: list[tuple[NotificationKind, RunId | None]] = []
    for move, kind in (
        (COMPLETED, NotificationKind.RUN_COMPLETED),
        (FAILED, NotificationKind.RUN_FAILED),
        (WAITING_FOR_PERSON, NotificationKind.RUN_WAITING),
        (WAITING, None),
        (Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD), None),
        (QUEUED, None),
    ):
        lease = await running(store)
        await commit(
            store, lease, interrupts=[new_interrupt("question")] if move is WAITING_FOR_PERSON else [], move=move
        )
        if kind is not None:
            expected.append((kind, lease.run_id))
    assert await store.notifications.after(SPACE) == []
    assert await store.notifications.dispatch() == [SPACE]
    assert [(news.kind, news.run_id) for news in await store.notifications.after(SPACE)] == expected


async def test_a_refused_commit_creates_no_notification(store: Store) -> None:
    lease = await running(store)
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    with pytest.raises(InboxNotEmpty):
        await commit(store, lease, move=COMPLETED)
    assert await store.notifications.dispatch() == []


async def test_an_ended_run_cannot_be_claimed_or_written(store: Store) -> None:
    run = await queued(store)
    await commit(store, await claim(store), move=COMPLETED)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []
    for to in (RunStatus.CANCELLED, RunStatus.FAILED):
        with pytest.raises(IllegalMove):
            await store.runs.end(SPACE, run.id, to=to)


async def test_a_commit_that_consumes_a_missing_item_is_refused_when_it_stops_the_run(store: Store) -> None:
    lease = await running(store)
    with pytest.raises(Invalid):
        await commit(store, lease, consumed=[1], move=COMPLETED)
    await commit(store, lease, move=COMPLETED)


async def test_a_run_does_not_end_with_an_unanswered_tool_call(store: Store) -> None:
    lease = await running(store)
    with pytest.raises(Invalid, match="unanswered tool call"):
        await commit(store, lease, messages=[assistant("let me look", call("c1"))], move=COMPLETED)
    await commit(store, lease, messages=[assistant("let me look", call("c1")), result("c1")], move=COMPLETED)


async def test_a_message_id_is_used_once_on_a_chain(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, messages=[assistant("hello", id="said")], move=COMPLETED)
    await new_run(store, SPACE, lease.thread_id, "go on")
    following = await claim(store)
    with pytest.raises(IdTaken):
        await commit(store, following, messages=[assistant("hello again", id="said")])
    await commit(store, following, messages=[assistant("hello again", id="said-2")])
