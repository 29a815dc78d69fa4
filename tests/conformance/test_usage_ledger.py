"""The usage ledger: each model call counts once, under its day, agent, model and author."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.domain.commit import Commit, Lease
from holdfast.domain.errors import LeaseLost, NotFound
from holdfast.domain.ids import SpaceId, ThreadId
from holdfast.domain.limits import Usage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move, RunStatus
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.thread import NewThread
from holdfast.domain.usage import UsageGroup, UsageTotal, day_name, day_of
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from tests.builders import assistant, claim
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.tables import orphans_of

DAY = timedelta(days=1)


async def leased_run(store: Store, space: SpaceId = SPACE, *, agent: str = "bot", by: str | None = None) -> Lease:
    """Create a run of an agent, and claim it."""
    thread = NewThread(id=ThreadId(f"of-{agent}-{by}"), agent_type=agent)
    await store.runs.create(space, NewRun(thread=thread, agent_type=agent, model="asked", created_by=by))
    return await claim(store)


async def call_model(
    store: Store, lease: Lease, model: str, usage: Usage, *, number: int = 1, end: bool = False
) -> None:
    """Commit a model call, and the end of the run if it is the last."""
    move = Move(to=RunStatus.COMPLETED, output="done") if end else None
    key = f"k{number}"
    step = Step(number=number, kind=StepKind.MODEL, name=model, key=key, state=StepState.DONE, usage=usage)
    await store.journal.commit(Commit(lease=lease, steps=[step], usage=usage, messages=[assistant(model)], move=move))


async def totals(store: Store, group: UsageGroup, clock: HeldClock, space: SpaceId = SPACE) -> list[UsageTotal]:
    """Return the usage of all days by name."""
    today = day_of(clock.now())
    found = await store.usage.totals(space, group_by=group, first_day=today - 30, last_day=today)
    return sorted(found, key=lambda total: total.name)


async def test_usage_is_added_up_by_day_agent_model_and_author(store: Store, clock: HeldClock) -> None:
    first = await leased_run(store, agent="bot", by="key_a")
    yesterday = day_name(day_of(clock.now()))
    await call_model(store, first, "small", Usage(input_tokens=10, output_tokens=2, cost_usd=0.5))
    clock.tick(DAY)
    first = await claim_again(store, first)
    again = Usage(input_tokens=5, cached_input_tokens=3, cost_usd=0.25)
    await call_model(store, first, "large", again, number=2, end=True)
    second = await leased_run(store, agent="cook")
    await call_model(store, second, "small", Usage(input_tokens=1, cost_usd=None), end=True)
    today = day_name(day_of(clock.now()))

    by_day = await totals(store, UsageGroup.DAY, clock)
    assert [(total.name, total.calls, total.input_tokens) for total in by_day] == [(yesterday, 1, 10), (today, 2, 6)]
    by_agent = await totals(store, UsageGroup.AGENT, clock)
    assert [(total.name, total.cost_usd, total.unpriced_calls) for total in by_agent] == [
        ("bot", 0.75, 0),
        ("cook", 0.0, 1),
    ]
    by_model = await totals(store, UsageGroup.MODEL, clock)
    assert [(total.name, total.calls, total.output_tokens) for total in by_model] == [("large", 1, 0), ("small", 2, 2)]
    by_key = await totals(store, UsageGroup.KEY, clock)
    assert [(total.name, total.cached_input_tokens) for total in by_key] == [("", 0), ("key_a", 3)]


async def claim_again(store: Store, lease: Lease) -> Lease:
    """Take over a run whose lease expired."""
    await store.leases.expire()
    return await claim(store)


async def test_a_commit_that_is_refused_counts_nothing(store: Store, clock: HeldClock) -> None:
    stale = await leased_run(store)
    clock.tick(DAY)
    fresh = await claim_again(store, stale)
    usage = Usage(input_tokens=10, cost_usd=0.5)
    with pytest.raises(LeaseLost):
        await call_model(store, stale, "small", usage)
    assert await totals(store, UsageGroup.DAY, clock) == []
    await call_model(store, fresh, "small", usage)
    assert [total.calls for total in await totals(store, UsageGroup.DAY, clock)] == [1]


async def test_a_space_has_its_own_usage_until_it_is_deleted(store: Store, clock: HeldClock) -> None:
    lease = await leased_run(store, OTHER)
    await call_model(store, lease, "small", Usage(input_tokens=10, cost_usd=0.5), end=True)
    assert await totals(store, UsageGroup.DAY, clock) == []
    assert len(await totals(store, UsageGroup.DAY, clock, OTHER)) == 1
    await store.spaces.delete(OTHER)
    with pytest.raises(NotFound):
        await totals(store, UsageGroup.DAY, clock, OTHER)
    await store.spaces.create(OTHER, name="Other")
    assert await totals(store, UsageGroup.DAY, clock, OTHER) == []


async def test_a_call_that_a_cancel_cut_off_counts(store: Store, clock: HeldClock) -> None:
    lease = await leased_run(store)
    await store.runs.end(SPACE, lease.run_id)
    assert await store.journal.charge_ended(lease, Usage(input_tokens=7, cost_usd=0.1))
    (total,) = await totals(store, UsageGroup.MODEL, clock)
    assert (total.name, total.calls, total.input_tokens, total.cost_usd) == ("asked", 1, 7, 0.1)


async def test_threads_and_days_agree_also_about_runs_that_used_nothing_or_were_cut_off(
    store: Store, clock: HeldClock
) -> None:
    idle = await leased_run(store, agent="idle")
    await call_model(store, idle, "small", Usage(cost_usd=0.0), end=True)
    cut = await leased_run(store, agent="cut")
    await store.runs.end(SPACE, cut.run_id)
    assert await store.journal.charge_ended(cut, Usage(input_tokens=7, cost_usd=0.1))
    (thread,) = await totals(store, UsageGroup.THREAD, clock)
    (day,) = await totals(store, UsageGroup.DAY, clock)
    assert (thread.name, thread.calls, thread.input_tokens, thread.cost_usd) == (cut.thread_id, 1, 7, 0.1)
    assert (day.calls, day.input_tokens, day.cost_usd) == (1, 7, 0.1)


async def usage_of(store: Store, *threads: ThreadId) -> list[Usage]:
    """Return the kept usage of threads."""
    found = await store.threads.totals(SPACE, threads)
    return [found[thread].usage for thread in threads]


async def test_a_thread_keeps_the_usage_of_its_runs_and_of_their_sub_agents(store: Store, where: str | Path) -> None:
    parent = await leased_run(store)
    assert await usage_of(store, parent.thread_id) == [Usage(cost_usd=0)]
    await call_model(store, parent, "small", Usage(input_tokens=10, output_tokens=2, cost_usd=0.5))
    child = NewThread(id=ThreadId("child"), agent_type="bot")
    new = NewRun(thread=child, agent_type="bot", model="asked", parent_run_id=parent.run_id)
    await store.runs.create(SPACE, new)
    lease = await claim(store)
    await call_model(store, lease, "small", Usage(input_tokens=4, cached_input_tokens=1, cost_usd=0.25), end=True)
    whole = Usage(input_tokens=14, output_tokens=2, cached_input_tokens=1, cost_usd=0.75)
    own = Usage(input_tokens=4, cached_input_tokens=1, cost_usd=0.25)
    assert await usage_of(store, parent.thread_id, lease.thread_id) == [whole, own]
    await call_model(store, parent, "small", Usage(input_tokens=1, cost_usd=None), number=2)
    (unknown, same) = await usage_of(store, parent.thread_id, lease.thread_id)
    assert (unknown.input_tokens, unknown.cost_usd, same) == (15, None, own)
    await store.runs.delete(SPACE, lease.run_id)
    assert await usage_of(store, parent.thread_id) == [unknown]  # it was spent
    assert await orphans_of(where) == {}
