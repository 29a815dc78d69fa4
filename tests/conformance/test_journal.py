"""`Journal.commit`: everything in a commit is written, or nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.artifact import ArtifactType, NewArtifact
from holdfast.domain.commit import Commit
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.domain.ids import ArtifactId, FileId, InterruptId, MessageId, TimerId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.limits import Usage
from holdfast.domain.message import Role
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, assistant, call, claim, new_run, new_thread, result, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    WAITING_FOR_PERSON,
    commit,
    get,
    messages_of,
    model_step,
    new_interrupt,
    queued,
    run_after,
    running,
    seconds_from_now,
    stream,
)
from tests.conformance.tables import rows_of

REPORT = NewArtifact(type=ArtifactType.REPORT, title="a report", content="all is well")


async def test_a_commit_adds_everything_in_it(store: Store, clock: HeldClock) -> None:
    lease = await running(store, "begin")
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    committed = await commit(
        store,
        lease,
        events=text_events("hello"),
        messages=[assistant("hello", id="said")],
        steps=[model_step(1, StepState.DONE)],
        values={"state": {"mood": "good"}},
        consumed=[1],
        interrupts=[new_interrupt("question")],
        artifacts=[REPORT],
        timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 60), id=TimerId("alarm"))],
        usage=Usage(input_tokens=3, output_tokens=2, cost_usd=0.25),
        iterations=1,
        move=WAITING_FOR_PERSON,
    )
    assert (committed.last_event_seq, committed.message_ids, committed.sequences) == (4, ["said"], [1])
    run = await get(store, lease.run_id)
    assert (run.status, run.last_event_seq, run.iterations) == (RunStatus.WAITING, 4, 1)
    assert run.usage == Usage(input_tokens=3, output_tokens=2, cost_usd=0.25)
    assert (await stream(store, run.id))[1:] == text_events("hello")
    assert (await messages_of(store, run.id))[1:] == [(1, Role.ASSISTANT, "hello")]
    assert [step.state for step in await store.steps.of_run(SPACE, run.id)] == [StepState.DONE]
    assert await store.values.of_run(SPACE, run.id) == {"state": {"mood": "good"}}
    assert [interrupt.id for interrupt in await store.interrupts.of_run(SPACE, run.id)] == ["question"]
    assert [artifact.title for artifact in (await store.artifacts.page(SPACE, run=run.id)).items] == ["a report"]
    assert (await store.timers.get(SPACE, TimerId("alarm"))).run_id == run.id


REFUSED: dict[str, tuple[dict[str, Any], type[HoldfastError]]] = {
    "a message id twice": ({"messages": [assistant("again", id="said")]}, Conflict),
    "an item that is not there": ({"consumed": [9]}, Invalid),
    "a step settled twice": ({"steps": [model_step(1, StepState.FAILED)]}, Conflict),
    "a file that is not there": (
        {"artifacts": [REPORT, NewArtifact(type=ArtifactType.DOC, title="?", file_id=FileId("nowhere"))]},
        NotFound,
    ),
    "a timer id twice": (
        {"timers": [NewTimer(kind="wake", due_at=seconds_from_now(HeldClock(), 9), id=TimerId("alarm"))]},
        Conflict,
    ),
    "an interrupt id twice": (
        {"interrupts": [new_interrupt("taken"), new_interrupt("taken")], "move": WAITING_FOR_PERSON, "consumed": [1]},
        Conflict,
    ),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_a_commit_with_a_refused_part_adds_nothing(store: Store, where: str | Path, why: str) -> None:
    parts, error = REFUSED[why]
    lease = await running(store, "begin")
    await commit(
        store,
        lease,
        messages=[assistant("hello", id="said")],
        steps=[model_step(1, StepState.DONE)],
        timers=[NewTimer(kind="wake", due_at=seconds_from_now(HeldClock(), 9), id=TimerId("alarm"))],
    )
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data="psst")
    before = await rows_of(where)
    whole: dict[str, Any] = {
        "events": text_events("lost"),
        "messages": [assistant("lost")],
        "steps": [model_step(2)],
        "values": {"state": 1},
        "consumed": [1],
        "artifacts": [REPORT],
        "timers": [NewTimer(kind="wake", due_at=seconds_from_now(HeldClock(), 9))],
        "usage": Usage(input_tokens=1, cost_usd=None),
        "iterations": 1,
        "move": COMPLETED,
    }
    with pytest.raises(error):
        await commit(store, lease, **{**whole, **parts})
    assert await rows_of(where) == before
    await commit(store, lease, **whole)


async def test_when_a_commit_returns_it_is_on_disk(store: Store, where: str | Path, clock: HeldClock) -> None:
    lease = await running(store, "begin")
    await commit(store, lease, messages=[assistant("hello")], events=text_events("hello"))
    tables = await rows_of(where)
    assert len(tables["messages"]) == 2
    assert len(tables["events"]) == 4


async def test_events_are_numbered_without_gaps(store: Store) -> None:
    lease = await running(store)
    for size in (3, 0, 6, 3):
        events = [event for index in range(size // 3) for event in text_events("x", id=f"m{size}-{index}")]
        await commit(store, lease, events=events)
    logged = await store.events.after(SPACE, lease.run_id)
    assert [event.seq for event in logged] == list(range(1, 14))


async def test_event_numbers_have_no_gaps_under_many_producers(store: Store) -> None:
    for _ in range(50):
        await queued(store)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=50)

    async def produce(number: int) -> list[int]:
        numbers = []
        for index in range(6):
            events = text_events("x", id=f"m{index}") * (1 + (number + index) % 2)
            numbers.append((await commit(store, leases[number], events=events)).last_event_seq)
        return numbers

    told = await asyncio.gather(*(produce(number) for number in range(50)))
    for lease, numbers in zip(leases, told, strict=True):
        logged = [event.seq for event in await store.events.after(SPACE, lease.run_id)]
        assert logged == list(range(1, numbers[-1] + 1))
        assert numbers == sorted(numbers)
        assert (await get(store, lease.run_id)).last_event_seq == numbers[-1]


async def test_messages_get_their_sequence_in_the_order_in_which_they_enter(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await new_run(store, SPACE, thread, "one", "two")
    lease = await claim(store)
    first = await commit(store, lease, messages=[assistant("three", call("c1"), call("c2"))])
    second = await commit(store, lease, messages=[result("c1"), result("c2")])
    assert (first.sequences, second.sequences) == ([2], [3, 4])
    assert [sequence for sequence, _, _ in await messages_of(store, lease.run_id)] == [0, 1, 2, 3, 4]
    assert (await store.threads.get(SPACE, thread)).next_sequence == 5


async def test_concurrent_runs_on_one_thread_share_its_sequences(store: Store) -> None:
    base = await running(store, "begin")
    await commit(store, base, move=COMPLETED)
    for _ in range(8):
        await run_after(store, base.run)
    leases = await store.leases.claim(FIRST, lease=MINUTE, limit=8)
    spoke = await asyncio.gather(*(commit(store, lease, messages=[assistant("a"), assistant("b")]) for lease in leases))
    for committed in spoke:
        assert committed.sequences[1] == committed.sequences[0] + 1
    assert sorted(number for committed in spoke for number in committed.sequences) == list(range(1, 17))


async def test_waiting_input_gets_its_sequence_before_the_runs_own_messages(store: Store) -> None:
    base = await running(store, "begin")
    dependant = await run_after(store, base.run, "one", "two")
    assert [sequence for sequence, _, _ in await messages_of(store, dependant.id)] == [None, None]
    await commit(store, base, messages=[assistant("done")], move=COMPLETED)
    lease = await claim(store)
    assert (await commit(store, lease, messages=[assistant("three")])).sequences == [4]
    assert [sequence for sequence, _, _ in await messages_of(store, dependant.id)] == [2, 3, 4]
    history = await store.messages.history(SPACE, dependant.id)
    assert [message.content for message in history] == ["begin", "done", "one", "two", "three"]


async def test_a_message_without_an_id_is_given_one(store: Store) -> None:
    lease = await running(store)
    committed = await commit(store, lease, messages=[assistant("a"), assistant("b", id="mine"), assistant("c")])
    given = [message.id for message in await store.messages.of_run(SPACE, lease.run_id)]
    assert committed.message_ids == given
    assert given[1] == MessageId("mine")
    assert len(set(given)) == 3


async def test_commits_of_one_lease_are_applied_in_order(store: Store) -> None:
    first, second = await running(store), await running(store)
    made = [
        store.journal.commit(
            Commit(lease=lease, messages=[assistant(str(number))], events=text_events(str(number), id=f"m{number}"))
        )
        for number in range(20)
        for lease in (first, second)
    ]
    last = store.journal.commit(Commit(lease=first, messages=[assistant("20")], move=COMPLETED))
    committed = await asyncio.gather(*made, last)
    for lease, own in ((first, [*committed[:-1:2], committed[-1]]), (second, committed[1:-1:2])):
        numbers = [outcome.last_event_seq for outcome in own]
        assert numbers == sorted(numbers)
        assert [content for _, _, content in await messages_of(store, lease.run_id)] == [
            str(n) for n in range(len(own))
        ]


async def test_usage_and_iterations_add_up(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, usage=Usage(input_tokens=10, output_tokens=1, cost_usd=0.1), iterations=1)
    await commit(store, lease, iterations=1)
    await commit(store, lease, usage=Usage(input_tokens=5, cached_input_tokens=4, cost_usd=0.2))
    run = await get(store, lease.run_id)
    assert run.usage == Usage(input_tokens=15, output_tokens=1, cached_input_tokens=4, cost_usd=0.3)
    assert run.iterations == 2


async def test_a_cost_with_an_unknown_part_stays_unknown(store: Store) -> None:
    lease = await running(store)
    for cost in (0.5, None, 0.5):
        await commit(store, lease, usage=Usage(output_tokens=1, cost_usd=cost))
    assert (await get(store, lease.run_id)).usage == Usage(output_tokens=3, cost_usd=None)


async def test_a_value_is_replaced_by_a_later_one_and_other_names_stay(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, values={"state": {"a": 1}, "todo": ["x"]})
    await commit(store, lease, values={"state": {"a": 2}})
    assert await store.values.of_run(SPACE, lease.run_id) == {"state": {"a": 2}, "todo": ["x"]}
    with pytest.raises(Invalid):
        await commit(store, lease, values={"secret": 1})


async def test_consumed_items_are_removed_and_the_others_stay(store: Store) -> None:
    lease = await running(store)
    for word in ("one", "two", "three"):
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data=word)
    await commit(store, lease, consumed=[1, 3])
    assert [item.data for item in await store.journal.inbox(lease)] == ["two"]
    for gone in ([1], [2, 2], [4]):
        with pytest.raises(Invalid):
            await commit(store, lease, consumed=gone)
    assert [item.data for item in await store.journal.inbox(lease)] == ["two"]


async def test_the_inbox_returns_unread_items_oldest_first(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    assert await store.journal.inbox(lease) == []
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data={"text": "one"}, by="ann")
    await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.EDIT, data=None)
    first, second = await store.journal.inbox(lease)
    assert (first.number, first.kind, first.data, first.created_by) == (1, InboxKind.MESSAGE, {"text": "one"}, "ann")
    assert first.created_at == seconds_from_now(clock, 0)
    assert (second.number, second.kind, second.data, second.created_by) == (2, InboxKind.EDIT, None, None)


async def test_timers_are_set_and_cancelled_in_the_commit(store: Store, clock: HeldClock) -> None:
    lease = await running(store)
    names = [TimerId(name) for name in ("one", "two")]
    await commit(
        store, lease, timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 5), id=name) for name in names]
    )
    await commit(store, lease, cancelled_timers=[TimerId("one"), TimerId("never")])
    assert [(await store.timers.get(SPACE, name)).state for name in names] == [
        TimerState.CANCELLED,
        TimerState.SCHEDULED,
    ]


async def test_a_commit_cannot_cancel_a_timer_of_another_run(store: Store, clock: HeldClock) -> None:
    first, second = await running(store), await running(store)
    await commit(store, first, timers=[NewTimer(kind="wake", due_at=seconds_from_now(clock, 5), id=TimerId("nap"))])
    await commit(store, second, cancelled_timers=[TimerId("nap")])
    assert (await store.timers.get(SPACE, TimerId("nap"))).state is TimerState.SCHEDULED


async def test_artifacts_are_kept_in_the_commit_version_by_version(store: Store) -> None:
    lease = await running(store)
    name = ArtifactId("report")
    draft = NewArtifact(type=ArtifactType.REPORT, title="draft", content="v1", id=name)
    await commit(store, lease, artifacts=[draft])
    await commit(store, lease, artifacts=[NewArtifact(type=ArtifactType.REPORT, title="final", content="v2", id=name)])
    assert [artifact.version for artifact in await store.artifacts.versions(SPACE, name)] == [1, 2]
    assert (await store.artifacts.get(SPACE, name)).content == "v2"


async def test_interrupts_open_only_in_the_commit_that_makes_their_run_wait(store: Store) -> None:
    lease = await running(store)
    for move in (None, Move(to=RunStatus.QUEUED), COMPLETED):
        with pytest.raises(Invalid):
            await commit(store, lease, interrupts=[new_interrupt("question")], move=move)
    await commit(store, lease, interrupts=[new_interrupt("question")], move=WAITING_FOR_PERSON)
    assert (await store.interrupts.get(SPACE, InterruptId("question"))).run_id == lease.run_id
