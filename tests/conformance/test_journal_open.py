"""`Journal.open`: the snapshot of a run for its worker, and the counts that each commit returns."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.domain.commit import Lease, RunSnapshot
from holdfast.domain.errors import Invalid, LeaseLost
from holdfast.domain.events import (
    Event,
    RunFinished,
    RunStarted,
    StateSnapshot,
    TextMessageContent,
    TextMessageStart,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
    event_type,
)
from holdfast.domain.ids import InterruptId, MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.instant import Millis
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Run
from holdfast.domain.step import StepState
from holdfast.domain.stream import STRUCTURAL_TYPES, StreamNormaliser
from holdfast.domain.thread import NewThread
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, claim, new_thread, text_events, user
from tests.conformance.conftest import SPACE
from tests.conformance.conversations import base_on, claim_run, completed_run, create_run, sequences, texts
from tests.conformance.run_builders import (
    COMPLETED,
    QUEUED,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    model_step,
    new_interrupt,
    queued,
    running,
    stream,
    tool_step,
)
from tests.schemas import execute

NOW: Final = Millis(1_750_000_000_000)


async def opened(store: Store, lease: Lease) -> RunSnapshot:
    return await store.journal.open(lease)


async def put(store: Store, run: RunId, data: str = "hi") -> int:
    return await store.inbox.put(SPACE, run, kind=InboxKind.MESSAGE, data=data)


def resumed(lease: Lease, opening: RunSnapshot) -> StreamNormaliser:
    return StreamNormaliser.resume(lease.thread_id, lease.run_id, opening.events, lease.run.base_run_id)


async def test_a_fresh_run_is_opened_with_its_input(store: Store) -> None:
    thread = await store.threads.create(SPACE, NewThread(title="t", context_window=7))
    lease = await claim_run(store, await create_run(store, thread.id, "one", "two", values={"state": {"n": 1}}))
    opening = await opened(store, lease)
    assert opening.thread == await store.threads.get(SPACE, thread.id)
    assert opening.messages == await store.messages.of_run(SPACE, lease.run_id)
    assert texts(opening.messages) == ["one", "two"]
    assert (opening.values, list(opening.steps), list(opening.inbox)) == ({"state": {"n": 1}}, [], [])
    assert (list(opening.interrupts), opening.last_event_seq) == ([], 1)


@pytest.mark.parametrize("continues", [False, True], ids=["alone", "on a base"])
async def test_the_first_event_of_a_fresh_run_is_that_of_its_log(store: Store, continues: bool) -> None:
    thread = await new_thread(store, SPACE)
    if continues:
        await completed_run(store, thread, "before", "x")
    lease = await claim_run(store, await create_run(store, thread, "hi"))
    (first,) = (await opened(store, lease)).events
    (logged,) = await stream(store, lease.run_id)
    assert isinstance(logged, RunStarted)
    assert first == logged


async def test_opening_a_fresh_run_reads_no_event(store: Store, where: str | Path) -> None:
    lease = await running(store, "hi")
    await execute(where, "DELETE FROM events")
    assert len((await opened(store, lease)).events) == 1


async def test_a_snapshot_has_the_last_messages_up_to_the_context_window(store: Store) -> None:
    thread = (await store.threads.create(SPACE, NewThread(context_window=5))).id
    first = await completed_run(store, thread, "q0", "a0")
    second = await completed_run(store, thread, "q1", "a1")
    await completed_run(store, thread, "elsewhere", "far away")
    lease = await claim_run(store, await create_run(store, thread, "q2", base=base_on(second)))
    assert texts((await opened(store, lease)).messages) == ["q0", "a0", "q1", "a1", "q2"]
    await commit(store, lease, messages=[assistant("a2")])
    assert texts((await opened(store, lease)).messages) == ["a0", "q1", "a1", "q2", "a2"]
    cut = await claim_run(store, await create_run(store, thread, "or this", base=base_on(second, 2)))
    assert texts((await opened(store, cut)).messages) == ["q0", "a0", "q1", "or this"]
    root = await claim_run(store, await create_run(store, thread, "anew", base=None))
    assert texts((await opened(store, root)).messages) == ["anew"]
    assert first.base_run_id is None


async def test_a_snapshot_contains_all_state_of_the_run(store: Store) -> None:
    lease = await running(store, "hi")
    calls = [call("c1"), call("c2")]
    await commit(
        store,
        lease,
        messages=[assistant("I look", *calls)],
        events=[*text_events("I look"), StateSnapshot(snapshot={"n": 1})],
        steps=[model_step(1, StepState.DONE), tool_step(3, "c2"), tool_step(2, "c1", effectful=True)],
        values={"state": {"n": 1}, "plan": ["look"]},
    )
    await commit(store, lease, interrupts=[new_interrupt("a"), new_interrupt("b")], move=WAITING_FOR_PERSON)
    await store.interrupts.respond(SPACE, InterruptId("a"), InterruptResponse(response="yes"))
    again = await claim(store, SECOND)
    await put(store, again.run_id)
    opening = await opened(store, again)
    assert opening.messages == await store.messages.of_run(SPACE, lease.run_id)
    assert opening.steps == await store.steps.of_run(SPACE, lease.run_id)
    assert [step.number for step in opening.steps] == [1, 2, 3]
    assert opening.values == {"state": {"n": 1}, "plan": ["look"]}
    assert [item.kind for item in opening.inbox] == [InboxKind.RESPONSE, InboxKind.MESSAGE]
    assert opening.inbox == await store.journal.inbox(again)
    assert [question.id for question in opening.interrupts] == ["b"]
    logged = await stream(store, lease.run_id)
    assert opening.events == [event for event in logged if event_type(event) in STRUCTURAL_TYPES]
    assert len(opening.events) < len(logged) == opening.last_event_seq


async def test_a_step_that_left_no_event_is_not_forgotten(store: Store) -> None:
    lease = await running(store, "hi")
    await commit(store, lease, steps=[model_step(1)])
    await store.leases.release(lease)
    opening = await opened(store, await claim(store, SECOND))
    assert [(step.number, step.state) for step in opening.steps] == [(1, StepState.STARTED)]
    assert opening.last_event_seq == 1


async def test_a_snapshot_contains_inherited_values(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    lease = await claim_run(store, await create_run(store, thread, "q"))
    await commit(store, lease, messages=[assistant("a")], values={"plan": [1], "state": 1}, move=COMPLETED)
    following = await claim_run(store, await create_run(store, thread, "r", values={"state": 2}))
    assert (await opened(store, following)).values == {"plan": [1], "state": 2}


def half(lease: Lease) -> list[Event]:
    """Return an interrupted stream: a message, a tool call with a result, one without, and half a message."""
    at = MessageId("m1")
    said = StreamNormaliser.resume(
        lease.thread_id, lease.run_id, [RunStarted(thread_id=lease.thread_id, run_id=lease.run_id)]
    )
    events: list[Event] = [
        TextMessageContent(message_id=at, delta="I look"),
        ToolCallStart(tool_call_id=ToolCallId("c1"), tool_call_name="look", parent_message_id=at),
        ToolCallArgs(tool_call_id=ToolCallId("c1"), delta="{}"),
        ToolCallResult(message_id=MessageId("r1"), tool_call_id=ToolCallId("c1"), content="seen"),
        ToolCallStart(tool_call_id=ToolCallId("c2"), tool_call_name="look", parent_message_id=at),
        ToolCallArgs(tool_call_id=ToolCallId("c2"), delta='{"half":'),
        TextMessageStart(message_id=MessageId("m2"), role="assistant"),
        TextMessageContent(message_id=MessageId("m2"), delta="and th"),
    ]
    return [legal for event in events for legal in said.feed(event, at=NOW)]


@pytest.mark.parametrize("broken", [False, True], ids=["fresh", "broken off"])
async def test_a_stream_resumed_from_a_snapshot_is_valid(store: Store, broken: bool) -> None:
    first = await running(store, "hi")
    if broken:
        await commit(store, first, events=half(first))
    await store.leases.release(first)
    lease = await claim(store, SECOND)
    going_on = resumed(lease, await opened(store, lease))
    assert going_on.open_tool_calls == (("c2",) if broken else ())
    more = going_on.close(at=NOW)
    for event in text_events("again", id="m1"):
        more += going_on.feed(event, at=NOW)
    await commit(store, lease, events=more)
    verify_stream(await stream(store, lease.run_id), complete=False)
    from_all = StreamNormaliser.resume(lease.thread_id, lease.run_id, await stream(store, lease.run_id))
    from_opening = resumed(lease, await opened(store, lease))
    ends = [s.feed(event, at=NOW) for s in (from_all, from_opening) for event in text_events("x", id="m1")]
    assert ends[: len(ends) // 2] == ends[len(ends) // 2 :]


async def test_a_stream_resumes_in_a_new_segment_after_a_wait(store: Store) -> None:
    lease = await running(store, "hi")
    said = resumed(lease, await opened(store, lease))
    finished = said.end(RunFinished(thread_id=lease.thread_id, run_id=lease.run_id), at=NOW)
    await commit(store, lease, events=finished, interrupts=[new_interrupt("q")], move=WAITING_FOR_PERSON)
    await store.interrupts.respond(SPACE, InterruptId("q"), InterruptResponse(response="yes"))
    again = await claim(store)
    going_on = resumed(again, await opened(store, again))
    assert going_on.segment_id is None
    more = [legal for event in text_events("thanks") for legal in going_on.feed(event, at=NOW)]
    await commit(store, again, consumed=[1], events=more)
    logged = await stream(store, lease.run_id)
    verify_stream(logged, complete=False)
    assert [event_type(event) for event in logged].count("RUN_STARTED") == 2


async def released(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.leases.release(lease)


async def taken_over(store: Store, clock: HeldClock, lease: Lease) -> None:
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    clock.tick(MINUTE)
    await claim(store, SECOND)


async def requeued(store: Store, clock: HeldClock, lease: Lease) -> None:
    await commit(store, lease, move=QUEUED)


async def completed(store: Store, clock: HeldClock, lease: Lease) -> None:
    await commit(store, lease, move=COMPLETED)


async def ended(store: Store, clock: HeldClock, lease: Lease) -> None:
    await store.runs.end(SPACE, lease.run_id)


async def deleted(store: Store, clock: HeldClock, lease: Lease) -> None:
    await completed(store, clock, lease)
    await store.runs.delete(SPACE, lease.run_id)


WAYS = [released, taken_over, requeued, completed, ended, deleted]


@pytest.mark.parametrize("lose", WAYS, ids=lambda way: way.__name__)
async def test_a_lost_lease_reads_nothing_and_reserves_no_number(
    store: Store, clock: HeldClock, lose: Callable[[Store, HeldClock, Lease], Awaitable[None]]
) -> None:
    lease = await running(store, "one", "two")
    await lose(store, clock, lease)
    journal = store.journal
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: journal.open(lease),
        lambda: journal.history(lease, before=1, limit=5),
        lambda: journal.inbox(lease),
        lambda: journal.next_task_id(lease, step="1"),
    ]
    for attempt in calls:
        with pytest.raises(LeaseLost):
            await attempt()


async def test_a_snapshot_is_consistent(stores: list[Store]) -> None:
    lease = await running(stores[0])
    done = False

    async def write() -> None:
        nonlocal done
        for number in range(1, 41):
            await commit(
                stores[0],
                lease,
                messages=[assistant(f"{number}")],
                events=text_events("x", id=f"m{number}"),
                steps=[model_step(number, StepState.DONE)],
                values={"state": number},
            )
        done = True

    async def look(store: Store) -> set[int]:
        seen = set()
        while not done:
            opening = await opened(store, lease)
            number = opening.values.get("state", 0)
            assert isinstance(number, int)
            assert len(opening.messages) == len(opening.steps) == number
            assert opening.last_event_seq == 1 + 3 * number
            assert len([event for event in opening.events if isinstance(event, TextMessageStart)]) == number
            assert opening.thread.next_sequence == number
            seen.add(number)
        return seen

    _, *seen = await asyncio.gather(write(), *(look(store) for store in stores for _ in range(2)))
    assert all(seen)


async def test_a_snapshot_contains_the_inbox_of_the_same_moment(stores: list[Store]) -> None:
    lease = await running(stores[0])

    async def look() -> None:
        for _ in range(30):
            opening = await opened(stores[-1], lease)
            assert [item.number for item in opening.inbox] == list(range(1, len(opening.inbox) + 1))

    await asyncio.gather(look(), *(put(stores[n % len(stores)], lease.run_id) for n in range(20)))
    assert len((await opened(stores[0], lease)).inbox) == 20


async def chain(store: Store, count: int) -> tuple[ThreadId, list[Run]]:
    thread = (await store.threads.create(SPACE, NewThread(context_window=2))).id
    return thread, [await completed_run(store, thread, f"q{number}", f"a{number}") for number in range(count)]


async def test_history_pages_back_from_the_snapshot(store: Store) -> None:
    thread, _ = await chain(store, 4)
    lease = await claim_run(store, await create_run(store, thread, "last"))
    whole = await store.messages.history(SPACE, lease.run_id)
    for limit in (1, 2, 3, 5, 9, 1000):
        read = list((await opened(store, lease)).messages)
        while read[0].sequence:
            read[:0] = await store.journal.history(lease, before=read[0].sequence, limit=limit)
        assert read == whole
    assert await store.journal.history(lease, before=0, limit=5) == []


async def test_history_pages_back_only_along_the_chain(store: Store) -> None:
    thread, runs = await chain(store, 3)
    lease = await claim_run(store, await create_run(store, thread, "other", base=base_on(runs[0])))
    assert texts(await store.journal.history(lease, before=6, limit=9)) == ["q0", "a0"]
    for before in (2, 5, 7, 99, -1):
        with pytest.raises(Invalid, match="`before` must be the sequence of a message of the run's chain"):
            await store.journal.history(lease, before=before, limit=9)
    for limit in (0, -1, 1001):
        with pytest.raises(Invalid):
            await store.journal.history(lease, before=6, limit=limit)


async def test_a_commit_returns_the_number_of_unread_items(store: Store) -> None:
    lease = await running(store)
    assert (await commit(store, lease, events=text_events("x"))).unread == 0
    for number in range(1, 4):
        await put(store, lease.run_id, str(number))
        assert (await commit(store, lease, events=text_events("x", id=f"m{number}"))).unread == number
    assert (await commit(store, lease, consumed=[1])).unread == 2
    await put(store, lease.run_id)
    assert (await commit(store, lease, consumed=[2, 4])).unread == 1
    assert (await commit(store, lease, consumed=[3], move=COMPLETED)).unread == 0


async def test_each_concurrent_commit_returns_the_unread_count_of_its_own_run(store: Store) -> None:
    for number in range(10):
        run = await queued(store)
        for _ in range(number):
            await put(store, run.id)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=10)
    commits = [commit(store, lease, consumed=[1] if n % 2 else []) for n, lease in enumerate(leases)]
    done = await asyncio.gather(*commits)
    assert [committed.unread for committed in done] == [n - n % 2 for n in range(10)]


async def test_a_commit_counts_the_end_of_a_child_as_unread(store: Store) -> None:
    parent = await running(store)
    child = await claim_run(store, await child_of(store, parent.run_id))
    await commit(store, child, move=COMPLETED)
    assert (await commit(store, parent)).unread == 1


async def test_a_run_on_a_new_thread_is_opened_with_that_thread(store: Store) -> None:
    new = NewRun(thread=NewThread(id=ThreadId("fresh"), context_window=3), messages=[user("hi")])
    run = (await store.runs.create(SPACE, new)).run
    opening = await opened(store, await claim_run(store, run))
    assert (opening.thread.id, opening.thread.context_window, opening.thread.next_sequence) == ("fresh", 3, 1)
    assert sequences(opening.messages) == [0]
