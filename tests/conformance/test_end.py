"""`Runs.end`: a whole tree in one transaction, with nothing left open."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.domain.commit import Lease
from holdfast.domain.errors import BudgetExceeded, Conflict, IllegalMove, Invalid, LeaseLost, NotFound
from holdfast.domain.events import Custom
from holdfast.domain.events.custom import StepChanged, from_custom
from holdfast.domain.ids import InterruptId, RunId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptStatus
from holdfast.domain.limits import ZERO_USAGE, Limits, Usage
from holdfast.domain.message import Role, unanswered_calls
from holdfast.domain.notification import NotificationKind
from holdfast.domain.run import Move, Run, RunError, RunStatus, WaitsFor
from holdfast.domain.step import StepState
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.store.commit_rows import MAX_MESSAGE_CHARS
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, claim, result
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
    stream,
    tool_step,
)
from tests.conformance.tables import rows_of

WHY = RunError(code="DEADLINE_EXCEEDED", message="too late", details={"limit": 5})
TOLD = replace(WHY, iteration=0)
"""The error as stored, with the iteration."""


async def end(store: Store, run: RunId, **options: Any) -> list[Run]:
    return await store.runs.end(SPACE, run, **options)


async def test_an_ended_run_has_its_status_reason_and_principal(store: Store, clock: HeldClock) -> None:
    first, second = await queued(store), await queued(store)
    clock.tick(MINUTE)
    (cancelled,) = await end(store, first.id, reason="changed my mind", by="ann")
    (failed,) = await end(store, second.id, to=RunStatus.FAILED, reason="deadline", error=WHY)
    assert (cancelled.status, cancelled.status_reason) == (RunStatus.CANCELLED, "changed my mind")
    assert (cancelled.cancelled_by, cancelled.error, cancelled.completed_at) == (
        "ann",
        None,
        seconds_from_now(clock, 0),
    )
    assert (failed.status, failed.status_reason, failed.error) == (RunStatus.FAILED, "deadline", TOLD)
    assert [cancelled, failed] == [await get(store, first.id), await get(store, second.id)]


async def test_a_run_can_be_ended_in_every_active_status(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    pending = await run_after(store, lease.run)
    delayed = await queued(store, wait_until=seconds_from_now(clock, 60))
    other = await running(store)
    await commit(store, other, move=WAITING)
    for run in (pending.id, delayed.id, other.run_id, lease.run_id):
        assert [ended.id for ended in await end(store, run)] == [run]
        assert await status(store, run) is RunStatus.CANCELLED
    clock.tick(2 * MINUTE)
    assert await store.leases.claim(FIRST, lease=MINUTE) == []


async def test_a_run_that_has_ended_is_refused(store: Store, where: str | Path) -> None:
    completed, cancelled = await running(store), await running(store)
    await commit(store, completed, move=COMPLETED)
    await end(store, cancelled.run_id)
    before = await rows_of(where)
    for run in (completed.run_id, cancelled.run_id):
        for to in (RunStatus.CANCELLED, RunStatus.FAILED):
            with pytest.raises(IllegalMove):
                await end(store, run, to=to)
    with pytest.raises(NotFound):
        await end(store, RunId("nobody"))
    with pytest.raises(NotFound):
        await store.runs.end(OTHER, completed.run_id)
    assert await rows_of(where) == before


async def test_a_run_is_ended_as_cancelled_or_failed(store: Store) -> None:
    run = await queued(store)
    for to in set(RunStatus) - {RunStatus.CANCELLED, RunStatus.FAILED}:
        with pytest.raises(Invalid):
            await end(store, run.id, to=to)
    assert await status(store, run.id) is RunStatus.QUEUED


async def test_a_run_is_ended_with_all_its_active_descendants_parents_first(store: Store) -> None:
    root = await running(store)
    first = await child_of(store, root.run_id)
    await claim(store, SECOND)
    second = await child_of(store, root.run_id)
    done = await claim(store, SECOND)
    await commit(store, done, move=COMPLETED)
    grandchild = await child_of(store, first.id)
    dependant = await run_after(store, root.run)
    ended = await end(store, root.run_id, to=RunStatus.FAILED, error=WHY, by="ann")
    assert [run.id for run in ended] == [root.run_id, first.id, grandchild.id]
    assert [(run.status, run.error) for run in ended] == [(RunStatus.FAILED, TOLD)] * 3
    assert await status(store, second.id) is RunStatus.COMPLETED
    assert await status(store, dependant.id) is RunStatus.PENDING


async def test_an_active_descendant_of_an_ended_child_is_ended_too(store: Store) -> None:
    root = await running(store)
    middle = await child_of(store, root.run_id)
    lease = await claim(store, SECOND)
    deep = await child_of(store, middle.id)
    await commit(store, lease, move=COMPLETED)
    assert [run.id for run in await end(store, root.run_id)] == [root.run_id, deep.id]


async def test_an_ended_run_is_refused_even_with_active_descendants(store: Store, where: str | Path) -> None:
    parent = await running(store)
    await child_of(store, parent.run_id)
    await commit(store, parent, move=COMPLETED)
    before = await rows_of(where)
    with pytest.raises(IllegalMove):
        await end(store, parent.run_id)
    assert await rows_of(where) == before


async def test_after_an_end_no_interrupt_and_no_timer_is_open(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    await child_of(store, lease.run_id)
    child = await claim(store, SECOND)
    for held, name in ((lease, "root"), (child, "child")):
        timer = NewTimer(kind="deadline", due_at=seconds_from_now(clock, 60), id=TimerId(name))
        await commit(store, held, timers=[timer], interrupts=[new_interrupt(name)], move=WAITING_FOR_PERSON)
    other = await running(store)
    kept = NewTimer(kind="deadline", due_at=seconds_from_now(clock, 60), id=TimerId("kept"))
    await commit(store, other, timers=[kept], interrupts=[new_interrupt("kept")], move=WAITING_FOR_PERSON)
    await end(store, lease.run_id)
    for name, interrupt, timer_state in (
        ("root", InterruptStatus.CANCELLED, TimerState.CANCELLED),
        ("child", InterruptStatus.CANCELLED, TimerState.CANCELLED),
        ("kept", InterruptStatus.OPEN, TimerState.SCHEDULED),
    ):
        assert (await store.interrupts.get(SPACE, InterruptId(name))).status is interrupt
        assert (await store.timers.get(SPACE, TimerId(name))).state is timer_state


async def test_after_an_end_every_tool_call_has_a_result(store: Store) -> None:
    lease = await running(store, "begin")
    calls = [call("c1"), call("c2"), call("c3")]
    await commit(store, lease, messages=[assistant("looking", *calls), result("c2")])
    await end(store, lease.run_id)
    messages = await store.messages.of_run(SPACE, lease.run_id)
    assert unanswered_calls(messages) == []
    assert [(message.role, message.tool_call_id, message.sequence) for message in messages[2:]] == [
        (Role.TOOL, "c2", 2),
        (Role.TOOL, "c1", 3),
        (Role.TOOL, "c3", 4),
    ]
    results = await store.events.after(SPACE, lease.run_id, types=["TOOL_CALL_RESULT"])
    assert len(results) == 2
    follow_up = await run_after(store, lease.run, "what now?")
    await store.leases.release(lease)
    assert [sequence for sequence, _, _ in await messages_of(store, follow_up.id)] == [5]


async def test_a_call_that_was_answered_is_not_answered_again(store: Store) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, messages=[assistant("looking", call("c1")), result("c1")])
    await commit(store, lease, messages=[assistant("done")])
    await end(store, lease.run_id)
    assert len(await messages_of(store, lease.run_id)) == 4
    assert await store.events.after(SPACE, lease.run_id, types=["TOOL_CALL_RESULT"]) == []


async def test_started_effectful_steps_are_unknown_and_others_failed(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    calls = [call(f"c{number}") for number in range(1, 5)]
    await commit(
        store,
        lease,
        messages=[assistant("", *calls), result("c4")],
        steps=[
            model_step(1, StepState.DONE),
            tool_step(2, "c1", effectful=True),
            tool_step(3, "c2"),
            tool_step(4, "c3", StepState.FAILED, effectful=True),
            tool_step(5, "c4", StepState.DONE, effectful=True),
        ],
    )
    clock.tick(MINUTE)
    await end(store, lease.run_id)
    steps = await store.steps.of_run(SPACE, lease.run_id)
    assert [step.state for step in steps] == [
        StepState.DONE,
        StepState.UNKNOWN,
        StepState.FAILED,
        StepState.FAILED,
        StepState.DONE,
    ]
    assert [step.settled_at == seconds_from_now(clock, 0) for step in steps] == [False, True, True, False, False]


async def test_dependants_of_a_run_without_a_worker_are_queued_at_once(store: Store) -> None:
    run = await queued(store, "begin", values={"plan": [1]})
    dependant = await run_after(store, run, "and then")
    await end(store, run.id)
    assert await status(store, dependant.id) is RunStatus.QUEUED
    assert [sequence for sequence, _, _ in await messages_of(store, dependant.id)] == [1]
    assert await store.values.of_run(SPACE, dependant.id) == {"plan": [1]}


async def test_dependants_of_an_ended_run_are_queued_once_its_worker_has_stopped(store: Store) -> None:
    lease = await running(store, "begin")
    dependant = await run_after(store, lease.run, "and then")
    await end(store, lease.run_id)
    late = await run_after(store, lease.run, "me too")
    for run in (dependant, late):
        assert await status(store, run.id) is RunStatus.PENDING
    await store.leases.release(lease)
    for run in (dependant, late):
        assert await status(store, run.id) is RunStatus.QUEUED


@pytest.mark.parametrize("to", [RunStatus.CANCELLED, RunStatus.FAILED])
async def test_unread_messages_to_an_ended_run_follow_its_tool_results(store: Store, to: RunStatus) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, messages=[assistant("hm", call("c1"))])
    for name in ("left", "right"):
        data = {"role": "user", "content": name, "id": name}
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data=data, by="ann")
    await end(store, lease.run_id, to=to)
    *_, answer, left, right = await store.messages.of_run(SPACE, lease.run_id)
    assert [message.sequence for message in (answer, left, right)] == [2, 3, 4]
    assert (answer.role, left.id, left.content) == (Role.TOOL, "left", "left")
    assert (right.role, right.metadata, right.created_by) == (Role.USER, {"steering": True}, "ann")
    await store.leases.release(lease)
    following = await run_after(store, await get(store, lease.run_id), "and on")
    assert [each.content for each in await store.messages.history(SPACE, following.id)][-3:] == [
        "left",
        "right",
        "and on",
    ]


async def test_unread_messages_to_a_run_that_never_started_wait_after_its_input(store: Store) -> None:
    lease = await running(store, "first")
    pending = await run_after(store, lease.run, "second")
    await store.inbox.put(SPACE, pending.id, kind=InboxKind.MESSAGE, data={"role": "user", "content": "and this"})
    await end(store, pending.id)
    assert [each.content for each in await store.messages.history(SPACE, pending.id)] == ["first", "second", "and this"]
    await commit(store, lease, messages=[assistant("done")], move=COMPLETED)
    assert await messages_of(store, pending.id) == [(2, Role.USER, "second"), (3, Role.USER, "and this")]


async def test_unread_messages_to_a_run_that_never_started_come_before_its_dependants_input(store: Store) -> None:
    lease = await running(store, "first")
    pending = await run_after(store, lease.run, "second")
    last = await run_after(store, pending, "fourth")
    await store.inbox.put(SPACE, pending.id, kind=InboxKind.MESSAGE, data={"role": "user", "content": "third"})
    await end(store, pending.id)
    whole = await store.messages.history(SPACE, last.id)
    assert [each.content for each in whole] == ["first", "second", "third", "fourth"]
    for limit in (1, 2, 3):
        pages = [await store.messages.history(SPACE, last.id, limit=limit)]
        while len(pages[0]) == limit:
            pages.insert(0, await store.messages.history(SPACE, last.id, limit=limit, before=pages[0][0].cursor))
        assert [message for page in pages for message in page] == whole


async def test_an_unread_message_with_a_used_id_gets_another_id(store: Store) -> None:
    first = await queued(store, "begin")
    second = await run_after(store, first)
    for run in (second, first):
        data = {"role": "user", "content": "same", "id": "same"}
        await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data=data)
    await end(store, first.id)
    await end(store, second.id)
    one, other = await store.messages.history(SPACE, second.id, limit=2)
    assert (one.id, one.content, other.content) == ("same", "same", "same")
    assert other.id != "same"


async def test_unread_value_edits_of_an_ended_run_are_saved(store: Store) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, values={"state": 1, "todo": 1})
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.EDIT, data={"values": {"state": 2}})
    await end(store, lease.run_id)
    assert await store.values.of_run(SPACE, lease.run_id) == {"state": 2, "todo": 1}


async def test_an_invalid_unread_message_does_not_prevent_the_end_of_a_run(store: Store) -> None:
    run = await queued(store, "begin")
    await store.inbox.put(SPACE, run.id, kind=InboxKind.EDIT, data={"plan": "nonsense"})
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="no message")
    too_long = {"role": "user", "content": "x" * (MAX_MESSAGE_CHARS + 1)}
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data=too_long)
    await end(store, run.id)
    assert await messages_of(store, run.id) == [(0, Role.USER, "begin")]


async def test_the_parent_of_an_ended_run_is_notified(store: Store) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await child_of(store, child.id)
    await end(store, child.id, to=RunStatus.FAILED, error=WHY)
    (item,) = await store.journal.inbox(parent)
    assert item.kind is InboxKind.CHILD
    assert isinstance(item.data, dict)
    assert (item.data["run_id"], item.data["status"]) == (child.id, "failed")
    assert item.data["error"] == msgspec.to_builtins(TOLD)


async def test_a_parent_that_waits_is_woken_by_the_end_of_its_child(store: Store) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await commit(store, parent, move=Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD))
    await end(store, child.id)
    assert await status(store, parent.run_id) is RunStatus.QUEUED


async def test_a_parent_that_ends_with_its_child_is_not_notified(store: Store, where: str | Path) -> None:
    parent = await running(store)
    await child_of(store, parent.run_id)
    await end(store, parent.run_id)
    assert (await rows_of(where))["inbox"] == []


async def test_every_end_creates_a_notification(store: Store) -> None:
    parent = await running(store)
    child = await child_of(store, parent.run_id)
    await end(store, parent.run_id)
    other = await queued(store)
    await end(store, other.id, to=RunStatus.FAILED)
    await store.notifications.dispatch()
    assert [(news.kind, news.run_id) for news in await store.notifications.after(SPACE)] == [
        (NotificationKind.RUN_CANCELLED, parent.run_id),
        (NotificationKind.RUN_CANCELLED, child.id),
        (NotificationKind.RUN_FAILED, other.id),
    ]


async def test_a_timer_that_ends_a_run_is_settled_with_it(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    deadline = TimerId("deadline")
    await commit(store, lease, timers=[NewTimer(kind="deadline", due_at=seconds_from_now(clock, 1), id=deadline)])
    clock.tick(MINUTE)
    (due,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    await end(store, lease.run_id, to=RunStatus.FAILED, error=WHY, fires=due)
    assert (await store.timers.get(SPACE, deadline)).state is TimerState.FIRED


async def test_a_timer_that_was_taken_over_ends_nothing(store: Store, where: str | Path, clock: HeldClock) -> None:
    lease = await running(store)
    await commit(store, lease, timers=[NewTimer(kind="deadline", due_at=seconds_from_now(clock, 1))])
    clock.tick(MINUTE)
    (lost,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    clock.tick(MINUTE)
    await store.timers.claim_due(FIRST, lease=MINUTE)
    before = await rows_of(where)
    with pytest.raises(LeaseLost):
        await end(store, lease.run_id, fires=lost)
    assert await rows_of(where) == before


async def spawn(store: Store, parent: Lease) -> Run | None:
    """Spawn a child, unless the parent has ended."""
    try:
        return await child_of(store, parent.run_id)
    except Conflict:
        return None


async def test_no_child_outlives_an_end_that_it_raced_with(stores: list[Store]) -> None:
    for _ in range(10):
        parent = await running(stores[0])
        results = await asyncio.gather(
            *(spawn(store, parent) for store in stores for _ in range(2)),
            stores[-1].runs.end(SPACE, parent.run_id),
            *(spawn(store, parent) for store in stores for _ in range(2)),
        )
        made = [child for child in results if isinstance(child, Run)]
        children = await stores[0].runs.children(SPACE, parent.run_id)
        assert {child.id for child in children} == {child.id for child in made}
        assert {child.status for child in children} <= {RunStatus.CANCELLED}


async def test_of_many_ends_at_once_one_is_accepted(stores: list[Store]) -> None:
    lease = await running(stores[0])
    ends = (stores[number % len(stores)].runs.end(SPACE, lease.run_id, by=f"{number}") for number in range(20))
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    ((winner,),) = [outcome for outcome in outcomes if isinstance(outcome, list)]
    assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 19
    assert await get(stores[0], lease.run_id) == winner


async def test_open_steps_are_settled_in_the_stream_too(store: Store) -> None:
    lease = await running(store)
    tools = [tool_step(2, "c1"), tool_step(3, "c2", effectful=True)]
    await commit(store, lease, messages=[assistant("", call("c1"), call("c2"))], steps=[model_step(1), *tools])
    await end(store, lease.run_id)
    events = [from_custom(event) for event in await stream(store, lease.run_id) if isinstance(event, Custom)]
    settled = {event.number: event.state for event in events if isinstance(event, StepChanged)}
    steps = {step.number: step.state for step in await store.steps.of_run(SPACE, lease.run_id)}
    assert settled == steps == {1: StepState.FAILED, 2: StepState.FAILED, 3: StepState.UNKNOWN}
    verify_stream(await stream(store, lease.run_id))


async def test_the_worker_of_an_ended_run_may_charge_the_call_that_was_cut_off(store: Store) -> None:
    parent = await running(store, limits=Limits(token_budget=50))
    run = await child_of(store, parent.run_id)
    lease = await claim(store, SECOND)
    await end(store, run.id)
    usage = Usage(input_tokens=70, output_tokens=7, cost_usd=0.5)
    assert await store.journal.charge_ended(lease, usage)
    assert (await get(store, run.id)).usage == usage
    with pytest.raises(BudgetExceeded):
        await commit(store, parent, steps=[model_step(1)])
    await store.leases.release(lease)
    assert not await store.journal.charge_ended(lease, usage), "it has released the run"
    assert (await get(store, run.id)).usage == usage


async def test_only_the_worker_of_an_ended_run_can_charge_it(store: Store) -> None:
    lease, usage = await running(store), Usage(input_tokens=70, cost_usd=0.0)
    assert not await store.journal.charge_ended(lease, usage), "the run goes on"
    await end(store, lease.run_id)
    assert not await store.journal.charge_ended(replace(lease, owner=SECOND), usage)
    assert not await store.journal.charge_ended(replace(lease, number=lease.number - 1), usage)
    assert (await get(store, lease.run_id)).usage == ZERO_USAGE
