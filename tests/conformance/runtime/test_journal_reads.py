"""Reads of a worker: snapshot, history, inbox and plan item numbers of its run."""

import pytest

from holdfast.domain.errors import Invalid, LeaseLost
from holdfast.domain.events import RunStarted, TextMessageStart
from holdfast.domain.idempotency import step_key
from holdfast.domain.inbox import InboxKind
from holdfast.domain.message import Role
from holdfast.domain.step import StepState
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from tests.builders import FIRST, MINUTE, assistant, call, claim, finish, finished_run, result, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    WAITING_FOR_PERSON,
    commit,
    new_interrupt,
    queued,
    run_after,
    running,
    tool_step,
)
from tests.conformance.runtime.implementations import Runtime


async def test_a_snapshot_shows_a_new_run(store: Store, runtime: Runtime) -> None:
    run = await queued(store, "hello")
    opening = await runtime.journal.open(await claim(store))
    assert opening.thread.id == run.thread_id
    assert [(message.role, message.content, message.sequence) for message in opening.messages] == [
        (Role.USER, "hello", 0)
    ]
    assert (list(opening.steps), opening.values, list(opening.inbox), list(opening.interrupts)) == ([], {}, [], [])
    assert [type(event) for event in opening.events] == [RunStarted]
    assert opening.last_event_seq == 1


async def test_a_snapshot_shows_all_state_of_a_started_run(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "hello")
    await commit(
        store,
        lease,
        messages=[assistant("hm", call("c"))],
        events=text_events("hm"),
        steps=[tool_step(1, "c")],
        values={"state": {"n": 1}},
        interrupts=[new_interrupt("first"), new_interrupt("second")],
        move=WAITING_FOR_PERSON,
    )
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data={"n": 1})
    opening = await runtime.journal.open(await claim(store))
    assert [message.content for message in opening.messages] == ["hello", "hm"]
    assert opening.messages[1].tool_calls == [call("c")]
    assert [(step.number, step.state) for step in opening.steps] == [(1, StepState.STARTED)]
    assert opening.values == {"state": {"n": 1}}
    assert [(item.number, item.kind, item.data) for item in opening.inbox] == [(1, InboxKind.MESSAGE, {"n": 1})]
    assert [interrupt.id for interrupt in opening.interrupts] == ["first", "second"]
    assert [type(event) for event in opening.events][:2] == [RunStarted, TextMessageStart]
    assert opening.last_event_seq == 1 + len(text_events("hm"))


async def test_a_snapshot_shows_the_end_of_a_long_conversation(store: Store, runtime: Runtime) -> None:
    thread = await store.threads.create(SPACE, NewThread(context_window=3))
    first = await finished_run(store, SPACE, thread.id, "one")
    second = await finished_run(store, SPACE, thread.id, "two")
    await run_after(store, second, "three")
    opening = await runtime.journal.open(await claim(store))
    assert [message.content for message in opening.messages] == ["two", "done", "three"]
    assert [message.run_id for message in opening.messages][:2] == [second.id] * 2
    assert first.thread_id == opening.thread.id


async def test_earlier_messages_are_read_in_pages(store: Store, runtime: Runtime) -> None:
    first = await queued(store, "one")
    await finish(store, await claim(store))
    await run_after(store, first, "two")
    lease = await claim(store)
    page = await runtime.journal.history(lease, before=2, limit=1)
    assert [(message.sequence, message.content) for message in page] == [(1, "done")]
    assert [message.content for message in await runtime.journal.history(lease, before=1, limit=10)] == ["one"]
    assert await runtime.journal.history(lease, before=0, limit=10) == []


@pytest.mark.parametrize(("before", "limit"), [(99, 10), (-1, 10), (1, 0), (1, 10**9)])
async def test_an_invalid_page_is_refused(store: Store, runtime: Runtime, before: int, limit: int) -> None:
    lease = await running(store, "one")
    with pytest.raises(Invalid):
        await runtime.journal.history(lease, before=before, limit=limit)


async def test_each_step_reserves_its_plan_item_number_once(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "one")
    numbers = [await runtime.journal.next_task_id(lease, step=step_key(lease.run_id, n)) for n in (1, 2, 1, 3, 2)]
    assert numbers == [1, 2, 1, 3, 2]


async def test_a_lost_lease_reads_nothing(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "one")
    await store.runs.end(SPACE, lease.run_id)
    with pytest.raises(LeaseLost):
        await runtime.journal.open(lease)
    with pytest.raises(LeaseLost):
        await runtime.journal.history(lease, before=0, limit=1)
    with pytest.raises(LeaseLost):
        await runtime.journal.inbox(lease)
    with pytest.raises(LeaseLost):
        await runtime.journal.next_task_id(lease, step=step_key(lease.run_id, 1))
    with pytest.raises(LeaseLost):
        await commit(store, lease, messages=[assistant("", call("c")), result("c")])
    assert await runtime.leases.renew(FIRST, [lease], lease=MINUTE) == []
