"""`EventLog`: the stored events that every stream is read from."""

import asyncio
import json

import pytest

from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.events import Custom, Event, StateSnapshot, TextMessageContent, encode_event, event_type
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.run import RunStatus
from holdfast.ports.log import LogHead
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import MINUTE, text_events
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.run_builders import COMPLETED, commit, queued, run_after, running, seconds_from_now


async def test_events_are_returned_above_a_number_in_order(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, events=text_events("a", id="a") + text_events("b", id="b"))
    for seq in range(9):
        found = await store.events.after(SPACE, lease.run_id, seq=seq)
        assert [event.seq for event in found] == list(range(seq + 1, 8))


async def test_events_come_in_pages_of_a_limit(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, events=text_events("a", id="a") + text_events("b", id="b"))
    seq, pages = 0, []
    while page := await store.events.after(SPACE, lease.run_id, seq=seq, limit=3):
        pages.append([event.seq for event in page])
        seq = page[-1].seq
    assert pages == [[1, 2, 3], [4, 5, 6], [7]]


async def test_only_events_of_the_given_types_are_returned(store: Store) -> None:
    lease = await running(store)
    await commit(store, lease, events=text_events("a", id="a") + text_events("b", id="b"))

    async def numbers(*types: str, seq: int = 0, limit: int = 1000) -> list[int]:
        found = await store.events.after(SPACE, lease.run_id, seq=seq, limit=limit, types=types)
        return [event.seq for event in found]

    assert await numbers("TEXT_MESSAGE_CONTENT") == [3, 6]
    assert await numbers("RUN_STARTED", "TEXT_MESSAGE_END") == [1, 4, 7]
    assert await numbers("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", seq=2, limit=2) == [4, 5]
    assert await numbers("NOTHING") == []
    assert await numbers() == []


async def test_events_are_kept_byte_for_byte(store: Store, clock: HeldClock) -> None:
    said: list[Event] = [
        *text_events('ünïcödé 🪸 \u2028 " \\ \n \t </script>'),
        StateSnapshot(snapshot={"z": 1, "a": [1.5, -0.0, 1e300, 2**53 - 1], "": {}, "nested": {"b": None}}),
        Custom(name="spaces", value={"  two  ": "  spaces  ", "order": {"b": 1, "a": 2}}, timestamp=5),
    ]
    lease = await running(store)
    clock.tick(MINUTE)
    await commit(store, lease, events=said)
    logged = (await store.events.after(SPACE, lease.run_id))[1:]
    assert [event.data for event in logged] == [encode_event(event) for event in said]
    assert [event.type for event in logged] == [event_type(event) for event in said]
    assert {event.created_at for event in logged} == {seconds_from_now(clock, 0)}
    typed = await store.events.after(SPACE, lease.run_id, types=[event_type(event) for event in said])
    assert typed == logged


async def test_a_large_event_is_kept_whole(store: Store) -> None:
    lease = await running(store)
    big = TextMessageContent(message_id=MessageId("m"), delta="x" * 1_000_000)
    await commit(store, lease, events=[text_events("")[0], big, text_events("")[2]])
    assert (await store.events.after(SPACE, lease.run_id, seq=2, limit=1))[0].data == encode_event(big)
    with pytest.raises(Invalid):
        await commit(store, lease, events=[TextMessageContent(message_id=MessageId("m"), delta="x" * 9_000_000)])


async def test_the_first_event_of_a_run_is_its_start(store: Store) -> None:
    base = await running(store)
    await commit(store, base, move=COMPLETED)
    run = await run_after(store, base.run, "go on")
    (first,) = await store.events.after(SPACE, run.id)
    start = json.loads(first.data)
    assert (first.seq, first.type) == (1, "RUN_STARTED")
    assert (start["runId"], start["threadId"], start["parentRunId"]) == (run.id, run.thread_id, base.run_id)


async def test_an_invalid_event_page_is_refused(store: Store) -> None:
    run = await queued(store)
    for seq, limit in ((-1, 1), (0, 0), (0, 1_000_000)):
        with pytest.raises(Invalid):
            await store.events.after(SPACE, run.id, seq=seq, limit=limit)


async def test_the_events_of_a_run_that_does_not_exist_are_not_found(store: Store) -> None:
    run = await queued(store)
    with pytest.raises(NotFound):
        await store.events.after(SPACE, RunId("nobody"))
    with pytest.raises(NotFound):
        await store.events.after(OTHER, run.id)


async def test_a_reader_that_continues_from_its_last_event_misses_nothing(store: Store) -> None:
    lease = await running(store)
    seen: list[int] = []

    async def write() -> None:
        for number in range(30):
            await commit(store, lease, events=text_events("x", id=f"m{number}"))
        await commit(store, lease, move=COMPLETED)

    async def read() -> None:
        over = False
        while not over:
            (head,) = await store.events.heads([(SPACE, lease.run_id)])
            over = head.status.terminal
            found = await store.events.after(SPACE, lease.run_id, seq=seen[-1] if seen else 0)
            seen.extend(event.seq for event in found)

    await asyncio.gather(write(), read())
    assert seen == list(range(1, 92))


async def test_heads_return_the_last_event_of_each_run(store: Store) -> None:
    idle, lease = await queued(store), None
    await store.runs.end(SPACE, idle.id)
    lease = await running(store)
    await commit(store, lease, events=text_events("hi"))
    heads = await store.events.heads([(SPACE, lease.run_id), (SPACE, idle.id)])
    expected = [
        LogHead(space_id=SPACE, run_id=lease.run_id, status=RunStatus.RUNNING, last_event_seq=4),
        LogHead(space_id=SPACE, run_id=idle.id, status=RunStatus.CANCELLED, last_event_seq=2),
    ]
    assert sorted(heads, key=lambda head: head.run_id) == sorted(expected, key=lambda head: head.run_id)


async def test_heads_of_many_runs_come_in_one_call(store: Store) -> None:
    made = [(await queued(store)).id for _ in range(200)]
    heads = await store.events.heads([(SPACE, run) for run in made] * 2)
    assert sorted(head.run_id for head in heads) == sorted(made)
    assert await store.events.heads([]) == []


async def test_heads_leave_out_deleted_runs_and_other_spaces(store: Store) -> None:
    kept, removed, standing = await queued(store), await queued(store), await queued(store)
    await store.runs.end(SPACE, removed.id)
    await store.runs.delete(SPACE, removed.id)
    await store.runs.end(SPACE, standing.id)
    await run_after(store, standing)
    await store.runs.delete(SPACE, standing.id)
    wanted = [(SPACE, kept.id), (SPACE, removed.id), (SPACE, standing.id), (OTHER, kept.id), (SPACE, RunId("nobody"))]
    assert [head.run_id for head in await store.events.heads(wanted)] == [kept.id]
