"""`Runs.create`: a run is created with its input and first event, all or nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.domain.content import Part, TextPart
from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, Invalid, LeaseLost, NotFound, TooLarge
from holdfast.domain.ids import MessageId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant, Millis, instant
from holdfast.domain.limits import ZERO_USAGE, Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import CreatedRun, NewRun, RunBase
from holdfast.domain.run import Mode, Priority, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer, TimerState
from holdfast.ports.runs import RunFilter
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, SECOND, assistant, call, new_thread, result, user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import (
    base_on,
    claim_run,
    create_run,
    ended_run,
    expect_refusal,
    history_texts,
    sequences,
    texts,
)

MISSING = RunId("missing")


async def test_a_run_is_created_as_requested(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    later = instant(Millis(clock.now() + 60_000))
    new = NewRun(
        thread=thread,
        id=RunId("chosen-1"),
        input={"nested": ["ä", 1.5, None, True]},
        mode=Mode.TASK,
        agent_type="writer",
        model="some/model",
        priority=Priority.HIGH,
        tags=["a", "ö"],
        limits=Limits(max_iterations=3, cost_budget_usd=0.25),
        output_schema={"type": "object"},
        agent_version="a" * 64,
        wait_until=later,
        idempotency_key="once",
        created_by="ann",
    )
    created = await store.runs.create(SPACE, new)
    assert created == CreatedRun(run=_expected(new, thread, instant(clock.now())), replayed=False)
    assert await store.runs.get(SPACE, RunId("chosen-1")) == created.run


def _expected(new: NewRun, thread: ThreadId, now: Instant) -> Run:
    assert new.id is not None and new.agent_type is not None
    return Run(
        id=new.id,
        thread_id=thread,
        space_id=SPACE,
        mode=new.mode,
        agent_type=new.agent_type,
        model=new.model,
        model_used=None,
        status=RunStatus.QUEUED,
        status_reason=None,
        base_run_id=None,
        base_sequence=None,
        parent_run_id=None,
        root_run_id=new.id,
        root_thread_id=thread,
        child_thread_id=None,
        session_id=None,
        input=new.input,
        output=None,
        error=None,
        usage=ZERO_USAGE,
        priority=new.priority,
        tags=new.tags,
        limits=new.limits,
        output_schema={"type": "object"},
        agent_version="a" * 64,
        iterations=0,
        attempt=0,
        wait_until=new.wait_until,
        idempotency_key=new.idempotency_key,
        last_event_seq=1,
        created_by=new.created_by,
        cancelled_by=None,
        created_at=now,
        queued_at=now,
        started_at=None,
        completed_at=None,
    )


async def test_the_created_run_equals_the_run_as_read(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await ended_run(store, thread, "hello")
    live = await create_run(store, thread, "live")
    for new in (
        NewRun(thread=thread, messages=[user("behind it")]),
        NewRun(thread=thread, base=base_on(base, 0), agent_type="", model=""),
        NewRun(
            thread=thread, base=None, wait_until=Instant("2030-01-01T02:00:00+02:00"), limits=Limits(token_budget=1)
        ),
        NewRun(thread=NewThread(agent_type="writer"), parent_run_id=live.id, tags=["a"], input=[1.0, "x", {}]),
        NewRun(thread=NewThread(), mode=Mode.DAEMON, priority=Priority.LOW, created_by="ann", input=False),
    ):
        created = await store.runs.create(SPACE, new)
        assert created.run == await store.runs.get(SPACE, created.run.id)


async def test_a_run_has_the_agent_of_its_thread_by_default(store: Store) -> None:
    thread = (await store.threads.create(SPACE, NewThread(agent_type="writer"))).id
    assert (await ended_run(store, thread)).agent_type == "writer"
    assert (await ended_run(store, thread, agent_type="coder")).agent_type == "coder"


@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "with-a-key"])
async def test_a_run_with_an_expected_thread_agent_is_created_only_on_a_match(store: Store, key: str | None) -> None:
    thread = (await store.threads.create(SPACE, NewThread(agent_type="writer"))).id
    new = NewRun(thread=thread, idempotency_key=key)
    with pytest.raises(Conflict, match="has another agent than `reader`"):
        await store.runs.create(SPACE, new, thread_agent="reader")
    others = [NewRun(thread=await new_thread(store, SPACE)) for _ in range(2)]
    made, refused, *_ = await asyncio.gather(
        store.runs.create(SPACE, new, thread_agent="writer"),
        store.runs.create(SPACE, others[0], thread_agent="nobody"),
        store.runs.create(SPACE, others[1]),
        return_exceptions=True,
    )
    assert isinstance(made, CreatedRun) and made.run.agent_type == "writer"
    assert isinstance(refused, Conflict)
    assert [run.id for run in (await store.runs.page(SPACE, where=RunFilter(thread_id=thread))).items] == [made.run.id]


async def test_a_run_without_a_chosen_id_is_given_one(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first, second = await ended_run(store, thread), await ended_run(store, thread)
    assert first.id != second.id
    assert first.id.startswith("run_")


async def test_input_enters_the_conversation_in_its_order(store: Store) -> None:
    parts: list[Part] = [TextPart(text="look at"), TextPart(text="this")]
    said = [
        NewMessage(role=Role.SYSTEM, content="be kind", id=MessageId("one"), metadata={"a": [1]}, created_by="ann"),
        NewMessage(role=Role.USER, content=parts, revises=MessageId("older")),
    ]
    thread = await new_thread(store, SPACE)
    run = (await store.runs.create(SPACE, NewRun(thread=thread, messages=said))).run
    first, second = await store.messages.of_run(SPACE, run.id)
    assert (first.id, first.role, first.content, first.sequence) == ("one", Role.SYSTEM, "be kind", 0)
    assert (first.metadata, first.created_by, first.revises) == ({"a": [1]}, "ann", None)
    assert (second.role, second.content, second.sequence, second.revises) == (Role.USER, parts, 1, "older")
    assert second.id.startswith("msg_")
    assert {(message.thread_id, message.run_id) for message in (first, second)} == {(thread, run.id)}
    assert (await store.threads.get(SPACE, thread)).next_sequence == 2


async def test_the_first_event_of_a_run_says_that_it_started(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    run = await create_run(store, thread, "hello")
    next_run = await create_run(store, thread, "and")
    (event,) = await store.events.after(SPACE, run.id)
    assert (event.seq, event.type, event.created_at) == (1, "RUN_STARTED", run.created_at)
    said = {"type": "RUN_STARTED", "threadId": thread, "runId": run.id, "protocolVersion": "1.0"}
    assert msgspec.json.decode(event.data) == {**said, "timestamp": clock.now()}
    (event,) = await store.events.after(SPACE, next_run.id)
    assert msgspec.json.decode(event.data)["parentRunId"] == run.id


async def test_a_thread_is_made_with_its_first_run(store: Store, clock: HeldClock) -> None:
    new = NewRun(thread=NewThread(id=ThreadId("fresh"), title="Fresh"), messages=[user("hello")])
    run = (await store.runs.create(SPACE, new)).run
    thread = await store.threads.get(SPACE, ThreadId("fresh"))
    assert (run.thread_id, run.base_run_id) == ("fresh", None)
    assert (thread.title, thread.next_sequence, thread.last_run_at) == ("Fresh", 1, instant(clock.now()))


async def test_a_run_id_already_used_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await create_run(store, thread, id=RunId("used"))
    async with expect_refusal(store, IdTaken):
        await create_run(store, thread, "again", id=RunId("used"))
    async with expect_refusal(store, IdTaken):
        await store.runs.create(SPACE, NewRun(thread=NewThread(), id=RunId("used")))
    assert (await store.runs.create(OTHER, NewRun(thread=NewThread(), id=RunId("used")))).run.id == "used"


async def test_the_id_of_a_deleted_run_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    gone = await ended_run(store, thread, id=RunId("gone"))
    base = await ended_run(store, thread, id=RunId("tombstone"))
    await ended_run(store, thread, base=base_on(base))
    for run in (gone, base):
        await store.runs.delete(SPACE, run.id)
        async with expect_refusal(store, IdTaken):
            await create_run(store, thread, id=run.id)


async def test_of_many_concurrent_creates_with_one_run_id_one_succeeds(store: Store) -> None:
    new = NewRun(thread=NewThread(), id=RunId("raced"), messages=[user("hello")])
    made = await asyncio.gather(*(store.runs.create(SPACE, new) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(created, CreatedRun) for created in made) == 1
    assert sum(isinstance(error, IdTaken) for error in made) == 19
    assert len((await store.threads.page(SPACE)).items) == 1


async def test_a_run_is_refused_on_a_missing_space_thread_or_base(store: Store) -> None:
    foreign = await new_thread(store, OTHER)
    for space, thread in [(SPACE, foreign), (SPACE, ThreadId("missing")), (SpaceId("missing"), foreign)]:
        async with expect_refusal(store, NotFound):
            await store.runs.create(space, NewRun(thread=thread))
    async with expect_refusal(store, NotFound):
        await store.runs.create(SpaceId("missing"), NewRun(thread=NewThread()))


async def test_a_missing_run_is_not_found(store: Store) -> None:
    foreign = (await store.runs.create(OTHER, NewRun(thread=NewThread()))).run
    reads: list[Callable[[SpaceId, RunId], Awaitable[Any]]] = [
        store.runs.get,
        store.runs.children,
        store.messages.history,
        store.messages.of_run,
        store.values.of_run,
    ]
    for missing in (foreign.id, MISSING, RunId(""), RunId("\x00"), RunId("\ud800"), RunId("x" * 10_000)):
        for read in reads:
            with pytest.raises((NotFound, Invalid)):
                await read(SPACE, missing)
        with pytest.raises((NotFound, Invalid)):
            await store.messages.get(SPACE, missing, MessageId("x"))


async def test_a_failed_create_leaves_nothing_behind(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await ended_run(store, thread, "hello")
    await create_run(store, thread, id=RunId("used"), base=None)
    good = NewRun(thread=thread, messages=[user("one"), user("two")], base=base_on(base), idempotency_key="key")
    late: list[tuple[dict[str, Any], type[HoldfastError]]] = [
        ({"id": RunId("used")}, IdTaken),
        ({"input": object()}, Invalid),
        ({"values": {"state": object()}}, Invalid),
        ({"messages": [user("good"), NewMessage(role=Role.USER, content="bad", metadata={"x": object()})]}, Invalid),
        ({"messages": [user("good"), user("\ud800")]}, Invalid),
        ({"messages": [user("large" * 4_000_000)]}, TooLarge),
        ({"thread": NewThread(), "id": RunId("used"), "base": None}, IdTaken),
    ]
    for fields, error in late:
        async with expect_refusal(store, error):
            await store.runs.create(SPACE, msgspec.structs.replace(good, **fields))
    made = await store.runs.create(SPACE, good)
    assert not made.replayed
    assert sequences(await store.messages.history(SPACE, made.run.id)) == [0, 1, 2]


async def test_a_run_that_cannot_be_made_does_not_affect_others_in_its_batch(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    await ended_run(store, thread, id=RunId("used"))
    wanted = [RunId("used") if number % 3 == 0 else None for number in range(12)]
    made = await asyncio.gather(
        *(create_run(store, thread, str(number), id=id) for number, id in enumerate(wanted)), return_exceptions=True
    )
    good = [run for run in made if isinstance(run, Run)]
    assert [isinstance(run, Run) for run in made] == [id is None for id in wanted]
    entered = [await store.messages.of_run(SPACE, run.id) for run in good]
    assert sorted(texts([message for (message,) in entered])) == sorted(str(n) for n in range(12) if n % 3)
    assert [sequences(messages) for messages in entered].count([0]) == 1  # the first; the others wait for it


async def test_a_run_settles_the_timer_that_it_fires(store: Store, clock: HeldClock) -> None:
    thread = await new_thread(store, SPACE)
    timer = await store.timers.set(SPACE, NewTimer(kind="reminder", due_at=instant(clock.now())))
    (claim,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    async with expect_refusal(store, Invalid):
        await store.runs.create(SPACE, NewRun(thread=thread, values={"state": object()}), fires=claim)
    assert (await store.timers.get(SPACE, timer.id)).state is TimerState.SCHEDULED
    await store.runs.create(SPACE, NewRun(thread=thread), fires=claim)
    assert (await store.timers.get(SPACE, timer.id)).state is TimerState.FIRED


async def test_a_timer_claim_that_was_taken_over_creates_no_run(store: Store, clock: HeldClock) -> None:
    new = NewRun(thread=await new_thread(store, SPACE), messages=[user("wake up")])
    await store.timers.set(SPACE, NewTimer(kind="reminder", due_at=instant(clock.now())))
    (stale,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    clock.tick(2 * MINUTE)
    (fresh,) = await store.timers.claim_due(SECOND, lease=MINUTE)
    async with expect_refusal(store, LeaseLost):
        await store.runs.create(SPACE, new, fires=stale)
    await store.runs.create(SPACE, new, fires=fresh)
    async with expect_refusal(store, LeaseLost):
        await store.runs.create(SPACE, new, fires=fresh)


async def test_the_same_client_id_on_the_same_chain_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("hello", id="m1")]))).run
    for base in (base_on(first), base_on(first, 0)):
        async with expect_refusal(store, IdTaken):
            await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("again", id="m1")], base=base))
    second = await create_run(store, thread, "in between")
    async with expect_refusal(store, IdTaken):
        await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("again", id="m1")], base=base_on(second)))
    assert await history_texts(store, second) == ["hello", "in between"]


async def test_the_same_client_id_on_another_branch_is_allowed(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    first = (await store.runs.create(SPACE, NewRun(thread=thread, messages=[user("hello", id="m1")]))).run
    new = NewRun(thread=thread, messages=[user("goodbye", id="m1")], base=None)
    second = (await store.runs.create(SPACE, new)).run
    for run, text in [(first, "hello"), (second, "goodbye")]:
        assert (await store.messages.get(SPACE, run.id, MessageId("m1"))).content == text


@pytest.mark.parametrize("delay", [timedelta(), timedelta(hours=1)])
async def test_a_delayed_run_is_queued_and_not_claimed_before_it_is_due(
    store: Store, clock: HeldClock, delay: timedelta
) -> None:
    at = instant(Millis(clock.now() + delay // timedelta(milliseconds=1)))
    run = await create_run(store, await new_thread(store, SPACE), "later", wait_until=at)
    assert (run.status, run.wait_until) == (RunStatus.QUEUED, at)
    if delay:
        assert await store.leases.claim(FIRST, lease=MINUTE) == []
    clock.tick(delay)
    assert (await claim_run(store, run)).run_id == run.id


async def test_an_invalid_run_is_refused(store: Store) -> None:
    thread = await new_thread(store, SPACE)
    base = await ended_run(store, thread, "hello")
    no_text = [("\x00", Invalid), ("a\ud800", Invalid), ("x" * 257, TooLarge)]
    cases: list[tuple[dict[str, Any], type[HoldfastError]]] = [
        *(({"id": RunId(id)}, Invalid) for id in ("", "a b", "ä", "a\n", "\x00", "x" * 129)),
        *(({field: text}, error) for field in ("agent_type", "model", "created_by") for text, error in no_text),
        *(({"tags": ["good", text]}, error) for text, error in [*no_text[:2], ("x" * 129, TooLarge)]),
        ({"tags": ["x"] * 51}, Invalid),
        *(({"idempotency_key": key}, Invalid) for key in ("", "ä", "\x00", "a\nb", "x" * 256)),
        *(({"wait_until": Instant(at)}, Invalid) for at in ("", "soon", "2030-01-01T00:00:00", "2030-13-01T00:00:00Z")),
        ({"wait_until": Instant("9999-12-31T23:59:59-23:00")}, Invalid),
        *(({"values": {name: 1}}, Invalid) for name in ("", "other", "\x00")),
        *(({"base": RunBase(run_id=base.id, sequence=at)}, Invalid) for at in (-1, 1, 2**63, 2**70, -(2**70))),
        ({"thread": NewThread(), "base": base_on(base)}, Invalid),
        *(({"input": value, "idempotency_key": "key"}, Invalid) for value in (object(), "\ud800", {"\ud800": 1})),
        ({"messages": [user("x")] * 1001}, Invalid),
        ({"messages": [user("x", id="same"), user("y", id="same")]}, Invalid),
        *(({"messages": [user("x", id=id)]}, Invalid) for id in ("", "a b", "\x00", "x" * 129)),
        ({"messages": [assistant("x", call("c1"))]}, Invalid),
        ({"messages": [result("c1")]}, Invalid),
        *(({"messages": [_said(revises=MessageId(id))]}, Invalid) for id in ("", "a b", "\x00", "x" * 129)),
        *(({"messages": [_said(created_by=text)]}, error) for text, error in no_text),
        *(({"messages": [_said(metadata={"x": value})]}, Invalid) for value in (object(), "\ud800")),
    ]
    for fields, error in cases:
        async with expect_refusal(store, error):
            await store.runs.create(SPACE, NewRun(**{"thread": thread, **fields}))


def _said(**fields: Any) -> NewMessage:
    return NewMessage(role=Role.USER, content="x", **fields)


async def test_a_limit_that_is_too_small_or_too_large_is_refused() -> None:
    for field in ("max_iterations", "max_duration_seconds", "token_budget", "cost_budget_usd"):
        for value in (0, -1, 2**70):
            limits: dict[str, Any] = {field: value}
            with pytest.raises(Invalid):
                Limits(**limits)
