"""Wake-up hints of a store: only for committed changes, and only after the commit."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from holdfast.bootstrap import open_bus, open_store
from holdfast.domain.commit import Commit
from holdfast.domain.errors import LeaseLost, NotFound
from holdfast.domain.ids import RunId, ThreadId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.limits import Limits
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from holdfast.domain.webhook import NewWebhook
from holdfast.ports.bus import WakeHint
from holdfast.ports.log import LogAppend
from holdfast.store.store import Store
from holdfast.store.transaction import MAX_INLINE_EVENT_CHARS
from holdfast.testing.clock import HeldClock
from tests.builders import FIRST, MINUTE, claim, finish, new_run, new_thread, text_events
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import (
    COMPLETED,
    QUEUED,
    WAITING,
    WAITING_FOR_PERSON,
    child_of,
    commit,
    new_interrupt,
    queued,
    running,
    seconds_from_now,
)
from tests.hints import hints_of

TIMEOUT_SECONDS: Final = 30.0


class Watched:
    """A store and the hints on its bus."""

    def __init__(self, store: Store, hints: AsyncIterator[WakeHint]) -> None:
        self.store = store
        self._hints = hints

    async def said(self) -> WakeHint:
        """Return the hints since the last call, without log appends; wait for one if there are none."""
        said = WakeHint()
        while said == WakeHint():
            said = replace(await self._next(), grown=(), coming=False)
        return said

    async def grown(self) -> Sequence[LogAppend]:
        """Return the log appends since the last call."""
        return (await self._next()).grown

    async def _next(self) -> WakeHint:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await anext(self._hints)


@pytest.fixture
async def watched(where: str | Path, clock: HeldClock) -> AsyncIterator[Watched]:
    async with (
        open_bus(where) as bus,
        hints_of(bus) as hints,
        open_store(where, bus=bus, clock=clock) as store,
    ):
        await store.spaces.create(SPACE, name="Acme")
        watched = Watched(store, hints)
        if isinstance(where, str):
            assert (await watched.said()).everything  # it is connected now
        yield watched


def hint(*runs: RunId, ended: Sequence[RunId] = (), **what: bool) -> WakeHint:
    told = WakeHint(runs=frozenset((SPACE, run) for run in runs), ended=frozenset((SPACE, run) for run in ended))
    return replace(told, **what)


async def test_a_new_run_sends_a_queue_hint_if_it_is_claimable(watched: Watched) -> None:
    store = watched.store
    thread = await new_thread(store, SPACE)
    first = await new_run(store, SPACE, thread, "one")
    assert await watched.said() == hint(first.id, queue=True)
    pending = await new_run(store, SPACE, thread, "two")
    assert await watched.said() == hint(pending.id)


async def test_a_claim_and_each_commit_send_a_hint_for_their_run(watched: Watched) -> None:
    lease = await running(watched.store, "hi")
    await watched.said()
    await watched.store.journal.commit(Commit(lease=lease, events=text_events("hello")))
    assert await watched.said() == hint(lease.run_id)


async def test_an_end_sends_hints_for_the_notification_and_the_next_run(watched: Watched) -> None:
    store = watched.store
    thread = await new_thread(store, SPACE)
    first = await new_run(store, SPACE, thread, "one")
    lease = await claim(store)
    await new_run(store, SPACE, thread, "two")
    await watched.said()
    await finish(store, lease)
    assert await watched.said() == hint(first.id, queue=True, news=True)


async def test_new_notifications_send_a_delivery_hint_only_with_a_webhook(watched: Watched) -> None:
    store = watched.store
    for deliveries in (False, True):
        await finish(store, await running(store, "hi"))
        await watched.said()
        await store.notifications.dispatch()
        assert await watched.said() == hint(news=True, deliveries=deliveries)
        await store.webhooks.create(SPACE, NewWebhook(url="https://example.com", events=["*"], secret="s"))


async def test_only_a_wait_for_a_person_sends_a_notification_hint(watched: Watched) -> None:
    asking, waiting = await running(watched.store, "a"), await running(watched.store, "b")
    await watched.said()
    await commit(watched.store, asking, interrupts=[new_interrupt("q")], move=WAITING_FOR_PERSON)
    assert await watched.said() == hint(asking.run_id, news=True)
    await commit(watched.store, waiting, move=WAITING)
    assert await watched.said() == hint(waiting.run_id)


async def test_an_inbox_item_sends_hints_for_the_run_and_the_queue(watched: Watched) -> None:
    store = watched.store
    asking, waiting = await running(store, "a"), await running(store, "b")
    await commit(store, asking, interrupts=[question := new_interrupt("q")], move=WAITING_FOR_PERSON)
    await commit(store, waiting, move=WAITING)
    await watched.said()
    await store.inbox.put(SPACE, waiting.run_id, kind=InboxKind.MESSAGE, data="hi")
    assert await watched.said() == hint(waiting.run_id, queue=True)
    assert question.id is not None
    await store.interrupts.respond(SPACE, question.id, InterruptResponse(response=True))
    assert await watched.said() == hint(asking.run_id, queue=True)


async def test_a_child_that_ends_wakes_its_parent(watched: Watched) -> None:
    parent = await running(watched.store, "a")
    child = await child_of(watched.store, parent.run_id, "b")
    await commit(watched.store, parent, move=WAITING)
    lease = await claim(watched.store)
    await watched.said()
    await commit(watched.store, lease, move=COMPLETED)
    said = await watched.said()
    assert said | hint(child.id, queue=True, news=True) == said


async def test_a_requeued_run_sends_a_queue_hint(watched: Watched, clock: HeldClock) -> None:
    store = watched.store
    released, requeued, expired = [await running(store, name) for name in "abc"]
    await watched.said()
    await store.leases.release(released)
    assert await watched.said() == hint(released.run_id, queue=True)
    await commit(store, requeued, move=QUEUED)
    assert await watched.said() == hint(requeued.run_id, queue=True)
    clock.tick(2 * MINUTE)
    assert await store.leases.expire() == [expired.run_id]
    assert (await watched.said()).queue
    for lease in await store.leases.claim(FIRST, lease=MINUTE, limit=3):
        if lease.run_id != expired.run_id:
            await store.leases.release(lease, delay=10 * MINUTE)
    await watched.said()
    clock.tick(2 * MINUTE)
    assert await store.leases.expire() == [expired.run_id]
    assert (await watched.said()).delayed, "a run that loses its worker again waits"


async def test_an_end_from_outside_sends_a_hint_forevery_ended_run(watched: Watched) -> None:
    parent = await queued(watched.store, "a")
    child = await child_of(watched.store, parent.id, "b")
    await watched.said()
    await watched.store.runs.end(SPACE, parent.id)
    assert await watched.said() == hint(parent.id, child.id, ended=[parent.id, child.id], news=True)


async def test_an_end_by_the_worker_sends_no_ended_hint(watched: Watched) -> None:
    lease = await running(watched.store, "a")
    await watched.said()
    await commit(watched.store, lease, move=COMPLETED)
    assert await watched.said() == hint(lease.run_id, news=True)


async def test_every_new_timer_sends_a_hint(watched: Watched, clock: HeldClock) -> None:
    store = watched.store
    timer = await store.timers.set(SPACE, NewTimer(kind="nap", due_at=seconds_from_now(clock, 0)))
    assert await watched.said() == hint(timers=True)
    (due,) = await store.timers.claim_due(FIRST, lease=MINUTE)
    await store.timers.settle(due, next_due=seconds_from_now(clock, 60))
    assert await watched.said() == hint(timers=True)
    await store.timers.cancel(SPACE, timer.id)
    lease = await running(store, "a")
    await watched.said()
    await commit(store, lease, timers=[NewTimer(kind="nap", due_at=seconds_from_now(clock, 9))])
    assert await watched.said() == hint(lease.run_id, timers=True)


async def test_a_deadline_sends_a_hint_when_set_and_when_resumed(watched: Watched) -> None:
    store = watched.store
    run = await queued(store, "a", limits=Limits(max_duration_seconds=60))
    await watched.said()
    lease = await claim(store)
    assert await watched.said() == hint(run.id, timers=True)
    await commit(store, lease, interrupts=[new_interrupt("q")], move=WAITING_FOR_PERSON)
    assert await watched.said() == hint(run.id, news=True)
    await store.inbox.put(SPACE, run.id, kind=InboxKind.MESSAGE, data="hi")
    assert await watched.said() == hint(run.id, queue=True, timers=True)
    await claim(store)
    assert await watched.said() == hint(run.id)


async def test_a_child_of_a_commit_sends_a_queue_hint(watched: Watched) -> None:
    lease = await running(watched.store, "a")
    await watched.said()
    child = NewRun(thread=NewThread(), id=RunId("child"), parent_run_id=lease.run_id)
    await commit(watched.store, lease, children=[child])
    assert await watched.said() == hint(lease.run_id, RunId("child"), queue=True)


async def test_an_expired_interrupt_sends_hints_for_its_run_and_the_queue(watched: Watched, clock: HeldClock) -> None:
    lease = await running(watched.store, "a")
    await commit(
        watched.store,
        lease,
        interrupts=[new_interrupt("q", expires_at=seconds_from_now(clock, 1))],
        move=WAITING_FOR_PERSON,
    )
    await watched.said()
    clock.tick(MINUTE)
    await watched.store.interrupts.expire()
    assert await watched.said() == hint(lease.run_id, queue=True)


async def test_numbered_notifications_send_a_hint(watched: Watched) -> None:
    await finish(watched.store, await running(watched.store, "a"))
    await watched.said()
    await watched.store.notifications.dispatch()
    assert await watched.said() == hint(news=True)


async def test_a_refused_operation_sends_no_hint(watched: Watched, clock: HeldClock) -> None:
    store = watched.store
    lease = await running(store, "a")
    clock.tick(2 * MINUTE)
    await store.leases.expire()
    await store.leases.claim(FIRST, lease=MINUTE)
    await watched.said()
    with pytest.raises(LeaseLost):
        await store.journal.commit(Commit(lease=lease, events=text_events("late")))
    with pytest.raises(NotFound):
        await store.runs.create(SPACE, NewRun(thread=ThreadId("thr_missing")))
    assert await store.leases.claim(FIRST, lease=timedelta(seconds=1)) == []
    made = await queued(store, "b")
    assert await watched.said() == hint(made.id, queue=True)


async def test_a_hint_is_sent_only_after_its_change_is_visible(
    where: str | Path, watched: Watched, clock: HeldClock
) -> None:
    """On PostgreSQL the reader is another process, with a bus and a store of its own."""
    store = watched.store
    lease = await running(store, "a")
    async with open_bus(where) as bus, hints_of(bus) as hints:
        reading = open_store(where, bus=bus, clock=clock, read_only=True)
        async with reading as reader, asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
            if isinstance(where, str):
                assert (await anext(hints)).everything

            async def read() -> list[int]:
                seen: list[int] = []
                while len(seen) < 31:
                    await (anext(hints) if isinstance(where, str) else watched.said())
                    seen += [event.seq for event in await reader.events.after(SPACE, lease.run_id, seq=len(seen))]
                return seen

            reader_task = tasks.create_task(read())
            for number in range(10):
                await store.journal.commit(Commit(lease=lease, events=text_events("x", id=f"m{number}")))
    assert reader_task.result() == list(range(1, 32))


async def test_a_hint_carries_the_appended_events_exactly_as_stored(watched: Watched) -> None:
    """Appends by the creation, a commit, and an end from outside."""
    store = watched.store
    run = await queued(store, "a")
    told = list(await watched.grown())
    lease = await claim(store)
    (claimed,) = await watched.grown()
    assert claimed.head.status is RunStatus.RUNNING and not claimed.events
    await store.journal.commit(Commit(lease=lease, events=text_events("Grüße")))
    told += await watched.grown()
    await store.runs.end(SPACE, run.id)
    told += await watched.grown()
    assert [event for growth in told for event in growth.after(0)] == await store.events.after(SPACE, run.id)
    assert [told[-1].head] == await store.events.heads([(SPACE, run.id)])


async def test_a_hint_carries_only_the_head_of_a_large_append(watched: Watched) -> None:
    lease = await running(watched.store, "a")
    await watched.said()
    await watched.store.journal.commit(Commit(lease=lease, events=text_events("x" * MAX_INLINE_EVENT_CHARS)))
    (growth,) = await watched.grown()
    assert not growth.events
    assert [growth.head] == await watched.store.events.heads([(SPACE, lease.run_id)])
